"""For how many days the disk of the journal lasts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.journal.batch import Rotation
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.outlook import DAY, LEAST, MEMORY, Growth, Outlook, Rate
from bussrv.journal.space import Space
from tests.journal.kept import Kept
from tests.journal.support import Disk, FakeClock
from tests.tables import each_row

TB = 10**12


class Volume(Disk):
    def __init__(self, free):
        super().__init__()
        self.room = free

    def free(self, directory):
        return self.room, 100 * TB


@given(st.lists(st.floats(0.1, 10 * MEMORY), min_size=1, max_size=50), st.integers(0, 10**6))
def test_a_rate_that_stays_the_same_is_that_rate(pauses, rate):
    now, tested = 0.0, Rate(0.0)
    for pause in pauses:
        now += pause
        tested.add(rate * pause, now)
    assert tested.value() is None or tested.value() == pytest.approx(rate)
    assert (tested.value() is None) == (MEMORY * (1 - math.exp(-now / MEMORY)) < LEAST)


def test_what_is_long_ago_does_not_count():
    tested = Rate(0.0, 1000 * DAY, DAY)
    assert tested.value() == pytest.approx(1000)
    tested.add(0, MEMORY)
    assert tested.value() == pytest.approx(1000 / math.e)
    tested.add(0, 20 * MEMORY)
    assert tested.value() < 1
    tested.add(5, 19 * MEMORY)
    assert tested.value() < 1


@pytest.mark.parametrize(
    ("retention", "wanted"),
    [
        ({}, {"bytes-per-day": 8_600_000, "days-left": 12.0}),
        ({"retain_bytes": 50 * 10**6}, {"bytes-per-day": 8_600_000, "bounded": True}),
        ({"retain_bytes": TB}, {"bytes-per-day": 8_600_000, "days-left": 12.0}),
        ({"retain_age": 10 * DAY}, {"bytes-per-day": 8_600_000, "bounded": True}),
        ({"retain_age": 100 * DAY}, {"bytes-per-day": 8_600_000, "days-left": 12.0}),
        # Retention that waits keeps nothing small.
        ({"retain_age": 10 * DAY, "is_held": lambda: True}, {"bytes-per-day": 8_600_000, "days-left": 12.0}),
    ],
)
def test_days_are_free_space_by_rate_unless_retention_bounds_it(tmp_path, retention, wanted):
    clock = FakeClock()
    space = Space(tmp_path, 10**6, clock, Volume(10**6 + 100 * 10**6))
    growth = Growth(tmp_path, space, [], clock, **retention)
    assert growth.outlook() == Outlook()
    for _ in range(100):
        clock.advance(10)
        space.wrote(1000)
    assert growth.outlook().report() == wanted


def test_it_begins_with_what_earlier_boots_wrote(tmp_path):
    clock = FakeClock()
    kept = Kept(tmp_path, clock=clock, rotation=Rotation(bytes=1))
    for _ in range(5):
        kept.write("x" * 1000)
        clock.advance(DAY)
    kept.end()
    seals = list(read_manifest(tmp_path / MANIFEST_NAME).closed())
    growth = Growth(tmp_path, Space(tmp_path, 0, clock, Volume(TB)), seals, clock)
    size = sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    assert growth.outlook().bytes_per_day == pytest.approx(size * 4 / 5 / 5, rel=0.2)


@each_row(
    ("outlook", "text"),
    [
        (Outlook(), "too young to say for how many days its disk lasts"),
        (Outlook(34.4e6, 123.4), "at 34 MB a day its disk lasts 120 days"),
        (Outlook(34.4e6, None, True), "at 34 MB a day, kept small enough by retention"),
        (Outlook(0.0), "at 0 MB a day"),
    ],
)
def test_in_words(outlook, text):
    assert str(outlook) == text
