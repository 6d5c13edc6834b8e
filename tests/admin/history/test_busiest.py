"""The busiest sessions and services: found among any number of others, in bounded memory."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.admin.history import busiest as module
from bussrv.admin.history.busiest import LEVELS, MOST_BYTES, MOST_ROWS, Ranking, Row, Sums, busiest, pack, unpack
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
    ranking = Ranking()
    add(ranking, [row("a", 1, 1)], 720)
    now = 7200
    assert sums(ranking, now - 60, now) == {"a": 6}
    assert sums(ranking, now - 3600, now) == {"a": 360}
    assert sums(ranking, 0, now) == {"a": 720}
    assert ranking.rate("a") == (0.1, 0.1)
    assert ranking.rate("b") == (0, 0)


def test_intervals_are_bounded_whatever_the_names_are() -> None:
    ranking, drawn = Ranking(), random.Random(1)
    for number in range(100):
        rows = [row("".join(drawn.choices("abcdefgh0123456789", k=300)), 1, 1) for _ in range(2 * MOST_ROWS)]
        add(ranking, rows, begin=number * 30)
        for level in ranking._levels:
            level.passed += 290
    kept = [each for level in ranking.store(EPOCH) for each in level]
    assert sum(len(each.packed) for each in kept) <= MOST_BYTES + len(LEVELS) * 20_000
    assert max(len(each.about[0]) for each in unpack(kept[-1].packed)) == module.LONGEST


def test_the_clock_that_is_set_back_leaves_no_time_twice() -> None:
    ranking = Ranking()
    add(ranking, [row("a", 1, 1)], 10)
    add(ranking, [row("b", 1, 1)], 2, begin=4)
    assert sums(ranking, 0, 60) == {"a": 4, "b": 2}


def test_it_goes_on_after_a_restart() -> None:
    before, after = Ranking(), Ranking()
    add(before, [row("a", 1, 1)], 45)
    after.load(before.store(EPOCH + 450_000_000))
    add(after, [row("b", 1, 1)], 5, begin=100)
    assert sums(after, 0, 1_060) == {"a": 45, "b": 5}
    assert unpack(pack([row("a", 1, 2)])) == [row("a", 1, 2)]
