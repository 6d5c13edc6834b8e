"""Removing old segments: which, when, and that it is said before it is done."""

import pytest
from twisted.logger import LogLevel, capturedLogs

from bussrv import events as ev
from bussrv.journal import closed
from bussrv.journal.batch import Rotation
from bussrv.journal.manifest import Pruned, Seal
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from tests.journal.kept import Kept, entries, names, pruned, segments
from tests.journal.support import Disk, every_record, replay

EACH = Rotation(bytes=1)
DAY = 86_400
YEARS = Rotation(age=1000.0 * DAY)
TWO_OF_THREE = UpkeepPolicy(retain_age=1.5 * DAY)
"""Of three days, the third is kept."""


def announced(directory):
    """The segments of which the journal says that they are removed."""
    return [each.event.segment for each in every_record(directory) if isinstance(each.event, ev.JournalPruned)]


def without_retention(directory, *days, **options):
    """A journal of a segment for each day, from the day on that the clock says."""
    kept = Kept(directory, rotation=EACH, **options)
    for day in days:
        kept.write(day)
        kept.clock.advance(DAY)
    kept.end()
    return kept.clock


def test_what_is_too_old_to_keep_is_removed_oldest_first(tmp_path):
    clock = without_retention(tmp_path, "monday", "tuesday", "wednesday")
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=TWO_OF_THREE)
    kept.write("thursday")
    assert (segments(tmp_path), pruned(tmp_path)) == ([1, 2, 3, 4], [1, 2])
    kept.idle(1)
    kept.idle(1)
    assert (segments(tmp_path), announced(tmp_path)) == ([3, 4], [1, 2])
    assert {each.reason for each in entries(tmp_path, Pruned)} == {"age"}
    kept.idle(DAY)
    kept.idle(1)
    kept.idle(1)
    assert segments(tmp_path) == [4]
    kept.end()
    assert verify(tmp_path).faults == []


def test_what_is_more_than_is_to_be_kept_is_removed_oldest_first(tmp_path):
    clock = without_retention(tmp_path, *(letter * 10_000 for letter in "abcdef"))
    sizes = [closed.stored_size(path) for path in list_segments(tmp_path)]
    # What is said of it takes some bytes, too.
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=UpkeepPolicy(retain_bytes=sum(sizes[3:]) + 5_000))
    for _ in range(3):
        kept.idle(1)
    assert (pruned(tmp_path), announced(tmp_path)) == ([1, 2, 3], [1, 2, 3])
    events = [each.event for each in every_record(tmp_path) if isinstance(each.event, ev.JournalPruned)]
    assert {each.reason for each in events} == {"retention-size"}
    kept.end()
    assert verify(tmp_path).faults == []


def test_the_manifest_and_the_journal_say_the_same_of_it(tmp_path):
    clock = without_retention(tmp_path, *"ab")
    seal = entries(tmp_path, Seal)[0]
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=TWO_OF_THREE)
    for _ in range(3):
        kept.idle(1)
    (entry,) = entries(tmp_path, Pruned)
    (event,) = (each.event for each in every_record(tmp_path) if isinstance(each.event, ev.JournalPruned))
    said = (seal.segment, seal.last_seq, seal.bytes, seal.digest)
    assert (entry.segment, entry.last_seq, entry.bytes, entry.digest) == said
    assert (event.segment, event.last_seq, event.bytes, event.digest) == said


def test_the_active_segment_stays_however_old_and_large_it_is(tmp_path):
    kept = Kept(tmp_path, policy=UpkeepPolicy(retain_age=1.0, retain_bytes=1))
    kept.write("a", "b")
    kept.idle(DAY)
    kept.idle(1)
    assert (segments(tmp_path), pruned(tmp_path)) == ([1], [])
    kept.end()
    assert segments(tmp_path) == [1]


def test_what_is_not_sealed_stays_and_so_does_what_is_behind_it(tmp_path):
    clock = without_retention(tmp_path, "a")
    kept = Kept(tmp_path, clock=clock, rotation=EACH)
    kept.disk.failing = {"open"}
    kept.write("b")
    kept.upkeep.stop()
    kept = Kept(tmp_path, clock=clock, rotation=EACH, policy=UpkeepPolicy(retain_age=1.0))
    kept.disk.failing = {"open"}
    for name in "cd":
        kept.clock.advance(DAY)
        kept.write(name)
    assert (segments(tmp_path), pruned(tmp_path)) == ([1, 2, 3, 4], [])


@pytest.mark.parametrize("years", [-1, 1])
def test_a_wall_clock_that_is_set_makes_nothing_older(tmp_path, years):
    clock = without_retention(tmp_path, "monday", "tuesday")
    kept = Kept(tmp_path, clock=clock, rotation=EACH, policy=TWO_OF_THREE)
    kept.write("wednesday")
    kept.idle(1)
    kept.idle(1)
    assert segments(tmp_path) == [2, 3, 4]
    clock.now_utc += years * 365 * DAY * 1_000_000
    kept.write("new year")
    for _ in range(3):
        kept.idle(1)
    assert segments(tmp_path)[:2] == [2, 3]
    kept.idle(DAY)
    kept.idle(1)
    kept.idle(1)
    assert segments(tmp_path)[0] == 3
    kept.idle(DAY)
    kept.idle(1)
    kept.idle(1)
    assert segments(tmp_path)[0] > 4


def test_without_a_policy_nothing_is_removed(tmp_path):
    clock = without_retention(tmp_path, *"abc")
    kept = Kept(tmp_path, clock=clock)
    kept.idle(1000 * DAY)
    assert segments(tmp_path) == [1, 2, 3]


# It is said before it is done.


def test_nothing_is_removed_before_the_journal_says_so(tmp_path):
    clock = without_retention(tmp_path, *"abc")
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=TWO_OF_THREE)
    kept.upkeep.do_due_work(kept.writer)
    assert (pruned(tmp_path), segments(tmp_path)) == ([1, 2], [1, 2, 3])
    kept.disk.failing = {"create"}
    for _ in range(3):
        kept.clock.advance(1)
        with pytest.raises(OSError, match="Input/output"):
            kept.writer.commit([])
        kept.upkeep.do_due_work(kept.writer)
    assert segments(tmp_path) == [1, 2, 3]
    kept.disk.failing = set()
    kept.idle(1)
    assert segments(tmp_path) == [3, 4]
    assert announced(tmp_path) == [1, 2]


@pytest.mark.parametrize("sync", ["interval", "off"])
def test_what_the_journal_says_is_on_the_disk_before_it_is_done(tmp_path, sync):
    clock = without_retention(tmp_path, *"abc")
    kept = Kept(tmp_path, clock=clock, sync=sync, policy=TWO_OF_THREE)
    kept.upkeep.do_due_work(kept.writer)
    kept.writer.commit([])
    kept.disk.failing = {"sync"}
    kept.clock.advance(1)
    kept.upkeep.do_due_work(kept.writer)
    assert segments(tmp_path) == [1, 2, 3, 4]
    kept.disk.failing = set()
    kept.clock.advance(1)
    kept.upkeep.do_due_work(kept.writer)
    assert segments(tmp_path) == [3, 4]


def test_what_cannot_be_said_is_not_done(tmp_path):
    clock = without_retention(tmp_path, *"abc")
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=TWO_OF_THREE)
    kept.disk.failing = {"open"}
    for _ in range(3):
        kept.idle(1)
    assert (segments(tmp_path), announced(tmp_path)) == ([1, 2, 3], [])


def test_what_cannot_be_removed_is_told_once_and_leaves_no_gap(tmp_path):
    class Sticky(Disk):
        def remove(self, path):
            if path.name.endswith("1.jsonl"):
                self._call("stick")
            super().remove(path)

    clock = without_retention(tmp_path, *"abc")
    kept = Kept(tmp_path, disk=Sticky(), rotation=YEARS, clock=clock, policy=TWO_OF_THREE)
    kept.disk.failing = {"stick"}
    with capturedLogs() as logs:
        for _ in range(4):
            kept.idle(1)
    assert [each["log_level"] for each in logs if each["log_level"] >= LogLevel.warn] == [LogLevel.error]
    assert (segments(tmp_path), announced(tmp_path)) == ([1, 2, 3, 4], [1, 2])
    # Whoever reads it then is not confused.
    assert verify(tmp_path).faults == []
    assert replay(tmp_path) is not None
    kept.disk.failing = set()
    kept.idle(1)
    assert (segments(tmp_path), announced(tmp_path)) == ([3, 4], [1, 2])


@pytest.mark.parametrize("looks", [1, 2])
def test_the_next_boot_removes_what_a_crash_left_after_the_note(tmp_path, looks):
    clock = without_retention(tmp_path, *"abc")
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=TWO_OF_THREE, later=lambda _: None)
    kept.upkeep.do_due_work(kept.writer)
    for _ in range(looks - 1):
        kept.idle(1)
    assert pruned(tmp_path) == [1, 2]
    assert segments(tmp_path)[:3] == [1, 2, 3]
    report = verify(tmp_path)
    assert report.faults == []
    # It need not be told again how long segments are kept.
    again = Kept(tmp_path, clock=clock)
    again.write("d")
    again.idle(1)
    again.idle(1)
    assert segments(tmp_path)[0] == 3
    assert set(announced(tmp_path)) == {1, 2}
    assert pruned(tmp_path) == [1, 2]
    again.end()
    assert verify(tmp_path).faults == []


def test_a_removal_that_was_interrupted_goes_on(tmp_path):
    clock = without_retention(tmp_path, *"abc", policy=UpkeepPolicy(compress=True))
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=TWO_OF_THREE, later=lambda _: None)
    for _ in range(2):
        kept.idle(1)
    closed.remove(tmp_path, 1)
    assert verify(tmp_path).faults == []
    again = Kept(tmp_path, clock=clock)
    for _ in range(3):
        again.idle(1)
    assert names(tmp_path)[:3] == ["1.leaves", "2.leaves", "3.jsonl.gz"]
    again.end()
    assert verify(tmp_path).faults == []


def test_removing_continues_in_background_while_more_becomes_old(tmp_path):
    waiting = []
    clock = without_retention(tmp_path, *"abcd")
    kept = Kept(tmp_path, clock=clock, rotation=YEARS, policy=UpkeepPolicy(retain_age=3.5 * DAY), later=waiting.append)
    waiting.clear()
    for _ in range(3):
        kept.idle(1)
    assert (pruned(tmp_path), len(waiting)) == ([1], 1)
    kept.idle(DAY)
    kept.idle(1)
    assert (pruned(tmp_path), len(waiting)) == ([1, 2], 1)
    waiting.pop()()
    kept.idle(1)
    assert segments(tmp_path)[0] == 2
    waiting.pop()()
    assert segments(tmp_path)[0] == 3
