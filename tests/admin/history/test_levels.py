"""Rings of intervals: nothing is lost, nothing is there twice, and a gap stays a gap."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.admin.history.columns import COLUMNS, Point, together
from bussrv.admin.history.levels import LEVELS, SPARE, Level
from tests.admin.history.making import EPOCH, sample
from tests.size import sized

RATE = COLUMNS.index("objects_in")
GAUGE = COLUMNS.index("sessions")

steps = st.lists(st.tuples(st.floats(0.9, 40), st.integers(0, 1000), st.integers(0, 50)), min_size=1, max_size=60)
"""The seconds of each step, and how much the total grows; and a value of the gauge."""


def points(level: Level) -> list[Point]:
    return [level.point(index) for index in range(len(level))]


@settings(max_examples=sized(100))
@given(steps, st.sampled_from([1, 10, 300]))
def test_intervals_have_all_growth_and_the_peaks(steps: list[tuple[float, int, int]], seconds: int) -> None:
    level = Level(seconds, 1000)
    now, total = 0.0, 0
    level.take(sample(now))
    for length, grown, gauge in steps:
        now, total = now + length, total + grown
        last = sample(now, total, gauge)
        level.take(last)
    begun = level.begun(last)
    found = [*points(level), *([] if begun is None else [begun])]
    assert sum(each.values[RATE] * each.seconds for each in found) == pytest.approx(total, rel=1e-5)
    assert sum(each.seconds for each in found) == pytest.approx(now, rel=1e-5)
    assert max(each.values[GAUGE] for each in found) == max(gauge for _, _, gauge in steps)


@settings(max_examples=sized(100))
@given(st.lists(st.tuples(st.floats(0.6, 5), st.integers(-500, 500)), max_size=200))
def test_no_time_is_there_twice_however_the_clock_is_set(steps: list[tuple[float, int]]) -> None:
    level, mono, utc = Level(1, 20), 0.0, EPOCH
    for length, jump in steps:
        mono += length
        utc += round((length + (jump if abs(jump) > 400 else 0)) * 1_000_000)
        level.take(sample(mono, utc=utc))
        found = points(level)
        assert all(earlier.time < later.begin + 500_001 for earlier, later in pairwise(found))
        assert len(found) <= 20 + 20 // SPARE
        assert not found or found[-1].time <= utc


def test_a_time_without_samples_stays_a_gap() -> None:
    before, after = Level(1, 600), Level(1, 600)
    for second in range(4):
        before.take(sample(second))
    after.load(before.store(), "little")
    for second in range(100, 103):
        after.take(sample(second))
    assert [(each.time - EPOCH) // 1_000_000 for each in points(after)] == [1, 2, 3, 101, 102]
    assert [each.seconds for each in points(after)] == [1] * 5


def test_the_interval_that_has_not_ended_is_stored() -> None:
    level, again = Level(300, 10), Level(300, 10)
    for second in range(100):
        level.take(sample(second, total=2 * second))
    again.load(level.store(level.begun(sample(99, total=198))), "little")
    (only,) = points(again)
    assert (only.seconds, only.values[RATE]) == (99, 2)
    assert len(level) == 0


def test_a_full_ring_forgets_the_oldest() -> None:
    level = Level(1, 32)
    for second in range(100):
        level.take(sample(second))
        reaches = level.reaches(EPOCH)
    assert not reaches
    assert level.reaches(level.point(0).begin)
    assert level.range(level.point(0).time, level.point(3).time) == range(1, 4)


def test_a_file_with_other_columns_is_taken() -> None:
    """Another version may have had others."""
    level, again = Level(1, 10), Level(1, 10)
    for second in range(3):
        level.take(sample(second, gauge=7))
    stored = level.store()
    del stored.columns["cpu"]
    again.load(stored, "little")
    assert again.point(0).values[GAUGE] == 7
    stored.columns["cpu"] = b"1234"
    with pytest.raises(ValueError, match="differ in length"):
        again.load(stored, "little")


def test_intervals_together_have_means_and_peaks() -> None:
    one = Point(EPOCH + 1_000_000, 1, [4.0] * len(COLUMNS))
    other = Point(EPOCH + 4_000_000, 3, [8.0] * (len(COLUMNS) - 1) + [float("nan")])
    both = together([one, other])
    assert (both.time, both.seconds) == (other.time, 4)
    assert dict(zip(COLUMNS, both.values, strict=True)) == {
        **dict.fromkeys(COLUMNS, 8.0),
        **dict.fromkeys(("objects_in", "objects_out", "bytes_in", "bytes_out", "denials", "lost_objects", "cpu"), 7.0),
        **dict.fromkeys(("delivery_p50", "sync_p50"), 7.0),
        "sync_p99": 4.0,
    }


def test_levels_are_those_that_operators_are_promised() -> None:
    days = [seconds * most / 86_400 for seconds, most in LEVELS]
    assert days == [pytest.approx(600 / 86_400), pytest.approx(0.25), pytest.approx(30)]
