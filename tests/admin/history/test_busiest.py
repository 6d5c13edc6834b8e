"""The busiest sessions and services: found among any number of others, in bounded memory."""

from __future__ import annotations

import random
import sys
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.admin.history import busiest as module
from bussrv.admin.history.busiest import (
    LEAST_ROWS,
    LEVELS,
    MANY,
    MOST_ROWS,
    SERVICES_BYTES,
    SESSIONS_BYTES,
    Ranking,
    Sums,
    busiest,
)
from bussrv.admin.history.levels import LEVELS as FIGURES
from bussrv.admin.history.levels import SPARE, Level
from bussrv.admin.history.packing import Interval, Row, block_of, intervals_of
from tests.admin.history.making import EPOCH
from tests.size import sized


def row(name: str, objects: int, size: int) -> Row:
    return Row((name,), (objects,), (size,))


def add(ranking: Ranking, rows: list[Row], times: int = 1, begin: int = 0) -> None:
    for number in range(begin, begin + times):
        ranking.add(rows, EPOCH + (number + 1) * 10_000_000, 10.0)


def sums(ranking: Ranking, begin: int, end: int) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in chain.from_iterable(ranking.between(EPOCH + begin * 1_000_000, EPOCH + end * 1_000_000)):
        found[each.about[0]] += each.objects[0]
    return dict(found)


@settings(max_examples=sized(50))
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9)), min_size=1, max_size=400), st.integers(1, 5))
def test_sums_keep_whoever_has_most(traffic: list[tuple[int, int]], most: int) -> None:
    """Whoever is among the busiest by a large margin is there, with all of its traffic, however many others come."""
    found, total = Sums(most), 0
    for number, objects in traffic:
        found.add([row(f"other-{number}", objects, objects), row("heavy", 10, 10)])
        total += 10
    rows = found.busiest()
    assert len(rows) <= most
    assert rows[0] == row("heavy", total, total)


def test_a_row_is_busy_by_objects_or_by_bytes() -> None:
    rows = [row("many", 100, 1), row("large", 1, 10_000), row("calm", 2, 2)]
    assert {each.about[0] for each in busiest(rows, 2)} == {"many", "large"}


def test_each_level_has_its_range() -> None:
    """Ten minutes, then six hours, then thirty days; each level has all that the finer ones had."""
    ranking = Ranking(SESSIONS_BYTES)
    add(ranking, [row("a", 1, 1)], 720)
    now = 7200
    assert sums(ranking, now - 60, now) == {"a": 6}
    assert sums(ranking, now - 3600, now) == {"a": 360}
    assert sums(ranking, 0, now) == {"a": 720}
    assert ranking.rate("a") == (0.1, 0.1)
    assert ranking.rate("b") == (0, 0)


HOURS = 30 * 24


def client(number: int) -> tuple[str, ...]:
    """What a ranking knows of a session: its id, its name, its wire format and its routing id."""
    digest = sha256(b"%d" % number).hexdigest()
    return f"{digest[:12]}.{number}", f"10.{number % 250}.0.{number % 199}", "objects", digest[12:36]


def topic(number: int) -> tuple[str, ...]:
    return (f"house/room-{number}/temperature",)


def filled(
    most_bytes: int, fresh: int, about: Callable[[int], tuple[str, ...]], directions: int, hours: int = HOURS
) -> Ranking:
    """A ranking after thirty days in which 100 are busy, of whom so many are new each hour. All levels are full."""
    ranking, drawn = Ranking(most_bytes), random.Random(1)
    live, number = [about(each) for each in range(MOST_ROWS)], MOST_ROWS
    finest, middle, longest = ranking._levels
    for hour in range(hours):
        for index in drawn.sample(range(MOST_ROWS), fresh):
            live[index], number = about(number), number + 1
        rows = []
        for each in live:
            objects = tuple(drawn.getrandbits(18) for _ in range(directions))
            rows.append(Row(each, objects, tuple(each * drawn.randrange(90, 400) for each in objects)))
        longest.add(block_of([Interval(EPOCH + (hour + 1) * 3_600_000_000, 3600.0, rows)]))
        for level, kept in ((finest, 60), (middle, 72)):
            if hour < kept:
                level.add(block_of([Interval(EPOCH + hour * level.seconds * 1_000_000, float(level.seconds), rows)]))
        ranking._cut_to_size()
    return ranking


def kept(ranking: Ranking) -> list[int]:
    """How many rows each hour has that is kept."""
    return [len(each.rows) for block in ranking._levels[-1].blocks for each in intervals_of(block)]


@pytest.mark.dear
def test_the_busiest_hundred_of_thirty_days_of_hours_are_kept() -> None:
    """Of 100 sessions five are new each hour. With the rings of figures, and what has not ended yet: under 4 MiB."""
    size = 0
    for level in (Level(*each) for each in FIGURES):
        size += sum(each.itemsize for each in level._arrays()) * (level.most + level.most // SPARE)
    sessions = filled(SESSIONS_BYTES, 5, client, 2)
    services = filled(SERVICES_BYTES, 1, topic, 1)
    for ranking in (sessions, services):
        assert len(kept(ranking)) >= HOURS
        assert {*kept(ranking)} == {MOST_ROWS}
        blocks = [each for level in ranking._levels for each in level.blocks]
        size += sum(sys.getsizeof(each.packed) + sys.getsizeof(each) + 100 for each in blocks)
    tracemalloc.start()
    for number in range(2 * MANY * MOST_ROWS):
        for ranking, about, count in ((sessions, client, 2), (services, topic, 1)):
            for level in ranking._levels:
                level.sums.add([Row(about(number), (number << 20,) * count, (number << 30,) * count)])
    size += tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 4 << 20


@pytest.mark.dear
def test_where_names_take_the_room_old_hours_have_fewer_rows() -> None:
    """All are others each hour: so many days of a hundred do not fit. The first days have fewer, the last ones all."""
    rows = kept(filled(1_000_000, MOST_ROWS, client, 2, hours := 6 * 24))
    assert len(rows) == hours
    assert (min(rows), {*rows}, rows) == (LEAST_ROWS, {LEAST_ROWS, MOST_ROWS // 2, MOST_ROWS}, sorted(rows))


@pytest.mark.dear
def test_intervals_are_bounded_whatever_the_names_are() -> None:
    ranking, drawn = Ranking(100_000), random.Random(1)
    for number in range(100):
        rows = [row("".join(drawn.choices("abcdefgh0123456789", k=300)), 1, 1) for _ in range(2 * MOST_ROWS)]
        add(ranking, rows, begin=number * 30)
        for level in ranking._levels:
            level.passed += 290
    blocks = [each for level in ranking.store(EPOCH) for each in level]
    assert sum(len(each.packed) for each in blocks) <= 100_000 + len(LEVELS) * 20_000
    assert max(len(row.about[0]) for row in intervals_of(blocks[-1])[-1].rows) == module.LONGEST


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1 << 50)), max_size=5), min_size=1, max_size=9)
)
def test_a_block_has_what_was_packed_as_exactly_as_it_says(drawn: list[list[tuple[str, int]]]) -> None:
    given = [
        Interval(EPOCH + at, 10.0, [Row((name, "é"), (number, 7), (0, 8_192)) for name, number in rows])
        for at, rows in enumerate(drawn)
    ]
    found = intervals_of(block_of(given))
    assert [(each.time, each.seconds, [row.about for row in each.rows]) for each in found] == [
        (each.time, each.seconds, [row.about for row in each.rows]) for each in given
    ]
    for one, other in zip(given, found, strict=True):
        for before, after in zip(one.rows, other.rows, strict=True):
            assert after.objects == (pytest.approx(before.objects[0], rel=0.00013), 7)
            assert before.objects[0] > 8_192 or after.objects[0] == before.objects[0]
            assert after.bytes == (0, 8_192)


def test_a_block_that_is_damaged_is_refused() -> None:
    block = block_of([Interval(EPOCH, 10.0, [row("a", 1, 2), row("b", 3, 4)])])
    whole = zlib.decompress(block.packed)
    for at in range(len(whole)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= change
            with suppress(ValueError):
                intervals_of(block._replace(packed=zlib.compress(damaged)))
    for packed in (b"", b"x", zlib.compress(whole[:-1]), zlib.compress(b"\x96\x90\x90\x90\x90\xc4\x00\x90")):
        with pytest.raises(ValueError, match=r"."):
            intervals_of(block._replace(packed=packed))


def test_the_clock_that_is_set_back_leaves_no_time_twice() -> None:
    ranking = Ranking(SESSIONS_BYTES)
    add(ranking, [row("a", 1, 1)], 10)
    add(ranking, [row("b", 1, 1)], 2, begin=4)
    assert sums(ranking, 0, 60) == {"a": 4, "b": 2}


def test_it_goes_on_after_a_restart() -> None:
    before, after = Ranking(SESSIONS_BYTES), Ranking(SESSIONS_BYTES)
    add(before, [row("a", 1, 1)], 45)
    after.load(before.store(EPOCH + 450_000_000))
    add(after, [row("b", 1, 1)], 5, begin=100)
    assert sums(after, 0, 1_060) == {"a": 45, "b": 5}
