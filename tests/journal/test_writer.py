"""The journal on disk: order, numbers, segments, batches, and when it is synced."""

import json
import threading
from itertools import pairwise

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from bussrv import events as ev
from bussrv.errors import JournalUnavailable
from bussrv.journal import batch as batch_module
from bussrv.journal import writer as writer_module
from bussrv.journal.batch import PULSE, Rotation, make_entry
from bussrv.journal.chain import START, line_hash
from bussrv.journal.header import Previous
from bussrv.journal.reading import read_header
from bussrv.journal.recovery import Recovered, recover
from bussrv.journal.segment import first_seq, list_segments, segment_name
from bussrv.journal.writer import FileJournal
from bussrv.turns.clock import SystemClock
from tests.journal.support import (
    PATIENCE,
    Disk,
    FakeClock,
    FakeReactor,
    actors,
    digest_of,
    every_record,
    fact,
    lines_of,
    note,
    stamp,
    writer,
)


def collect(journal, names):
    """Append each name; the names in the order in which they were written, as it fills."""
    written = []
    for name in names:
        journal.append([note(name)]).addCallback(lambda records: written.extend(each.event.actor for each in records))
    return written


# Batches to segments.


def test_a_batch_is_written_in_order_with_numbers_and_stamps(tmp_path):
    clock = FakeClock(utc=5_000_000, mono=70)
    asked = make_entry([stamp(ev.ConfigReloaded(), clock), note("b")], Deferred())
    writer(tmp_path, recovered=Recovered(next_seq=7)).commit([fact("a"), asked, fact("c")])
    records = every_record(tmp_path)
    assert [record.seq for record in records] == [7, 8, 9, 10]
    assert (records[1].time, records[1].mono, records[1].server, records[1].boot) == (5_000_000, 70, "server", "boot")
    assert actors(tmp_path) == ["a", "config.reloaded", "b", "c"]
    assert asked.records == records[1:3]
    assert list_segments(tmp_path) == [tmp_path / segment_name(7)]


def test_every_line_holds_the_hash_of_the_one_before(tmp_path):
    for boot in ("a", "b"):
        batches = writer(tmp_path, boot=boot, rotation=Rotation(bytes=700))
        for number in range(5):
            batches.commit([fact(f"{number}"), fact("x")])
        batches.close()
    paths = list_segments(tmp_path)
    assert len(paths) > 4
    lines = [text for path in paths for text in lines_of(path)]
    hashes = [json.loads(text)["prev"] for text in lines]
    assert hashes == [START, *map(line_hash, lines[:-1])]
    for path, successor in pairwise(paths):
        assert read_header(successor).previous == Previous(first_seq(path), *digest_of(path))


def test_a_segment_begins_with_what_the_journal_says_up_to_there(tmp_path):
    clock = FakeClock()
    batches = writer(tmp_path, clock=clock, rotation=Rotation(bytes=1), last_seal=lambda: "fc" * 32)
    opened = stamp(ev.SessionOpened(session="s", routing_id="r"), clock)
    batches.commit([make_entry([opened])])
    clock.advance(3)
    batches.commit([make_entry([stamp(ev.ServiceRegistered(session="s", service="tv"), clock)])])
    batches.commit([fact("x")])
    batches.close()
    first, second, third = list_segments(tmp_path)
    assert [read_header(path).parts for path in (first, second, third)] == [0, 1, 1]
    assert read_header(second).time == clock.utc()
    assert (read_header(second).server, read_header(second).boot) == ("server", "boot")
    assert read_header(second).seal == "fc" * 32
    state = json.loads(lines_of(third)[1])["state"]
    assert [session["id"] for session in state["sessions"]] == ["s"]
    assert state["services"] == {"tv": {"s": clock.utc()}}


def test_a_boot_without_records_leaves_no_segment(tmp_path):
    idle = writer(tmp_path)
    idle.commit([])
    idle.close()
    assert list(tmp_path.iterdir()) == []


def test_each_boot_begins_a_segment_and_numbers_go_on(tmp_path):
    for number in range(4):
        boot = writer(tmp_path, boot=f"boot {number}")
        for _ in range(3):
            boot.commit([fact("x")])
        boot.close()
    assert [path.name for path in list_segments(tmp_path)] == [segment_name(seq) for seq in (1, 4, 7, 10)]
    records = every_record(tmp_path)
    assert [record.seq for record in records] == list(range(1, 13))
    assert [record.boot for record in records] == [f"boot {number}" for number in range(4) for _ in range(3)]


def test_a_segment_that_is_full_is_followed_by_another(tmp_path):
    probe = writer(tmp_path)
    probe.commit([fact("n0")])
    header, record = lines_of(list_segments(tmp_path)[0])
    probe.close()
    limit = len(header) + 2 * len(record) + 1
    full = writer(tmp_path, rotation=Rotation(bytes=limit))
    names = [f"n{number}" for number in range(1, 9)]
    for name in names:
        full.commit([fact(name)])
    full.close()
    for path in list_segments(tmp_path)[1:-1]:
        # It is left as soon as it has reached the size, and not before.
        beginning, *records = lines_of(path)
        assert len(beginning) + len(records[:-1]) * len(record) < limit <= path.stat().st_size
    assert actors(tmp_path) == ["n0", *names]
    assert recover(tmp_path, None).next_seq == 10


def test_one_batch_stays_in_one_segment(tmp_path):
    small = writer(tmp_path, rotation=Rotation(bytes=1))
    small.commit([fact(f"n{number}") for number in range(50)])
    small.close()
    assert len(list_segments(tmp_path)) == 1


def test_a_segment_that_is_old_is_followed_by_another(tmp_path):
    clock = FakeClock()
    batches = writer(tmp_path, clock=clock, rotation=Rotation(age=3600))
    batches.commit([fact("a")])
    clock.advance(3599.9)
    batches.commit([fact("b")])
    clock.advance(0.1)
    batches.commit([fact("c")])
    # The age is that of the segment, not of the one before.
    clock.advance(3599.9)
    batches.commit([fact("d")])
    batches.close()
    assert [first_seq(path) for path in list_segments(tmp_path)] == [1, 3]


def test_an_old_segment_is_ended_when_nothing_is_written_too(tmp_path):
    clock = FakeClock()
    batches = writer(tmp_path, clock=clock)
    batches.commit([fact("a")])
    clock.advance(3600)
    batches.rotate_if_due()
    (extent,) = batches.closed
    assert (extent.segment, extent.records, extent.last_seq) == (1, 1, 1)
    assert (extent.bytes, extent.digest) == digest_of(list_segments(tmp_path)[0])
    assert (batches.segment, batches.extent()) == (None, None)
    batches.rotate()
    assert batches.closed == [extent]


def test_a_segment_can_be_ended_at_any_time_once_it_has_records(tmp_path):
    batches = writer(tmp_path)
    batches.rotate()
    batches.commit([make_entry([])])
    batches.rotate()
    batches.commit([fact("a")])
    assert batches.segment == 1
    batches.rotate()
    batches.rotate()
    batches.commit([fact("b")])
    assert batches.segment == 2
    batches.close()
    assert [extent.segment for extent in batches.closed] == [1, 2]
    assert actors(tmp_path) == ["a", "b"]


def test_what_the_journal_notes_itself_comes_with_the_next_batch(tmp_path):
    batches = writer(tmp_path)
    batches.note(ev.ConfigReloaded())
    batches.commit([fact("a")])
    batches.note(ev.ConfigReloaded())
    assert actors(tmp_path) == ["config.reloaded", "a"]
    batches.commit([])
    assert actors(tmp_path) == ["config.reloaded", "a", "config.reloaded"]


# A clock that is set back.


def test_a_clock_that_is_set_back_changes_no_order(tmp_path):
    clock = FakeClock()
    batches = writer(tmp_path, clock=clock)
    moments = []
    for step in (1, -7200, 1, -(10**9), 1):
        clock.now_utc += step * 1_000_000
        moments.append(clock.utc())
        batches.commit([make_entry([stamp(ev.AuthSucceeded(actor=str(step)), clock)])])
    batches.close()
    records = every_record(tmp_path)
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    assert [record.time for record in records] == moments
    (extent,) = recover(tmp_path, None).unsealed
    assert (extent.first_time, extent.last_time) == (moments[0], moments[-1])


def test_a_clock_that_is_set_ends_no_segment_and_delays_no_sync(tmp_path, disk):
    clock = FakeClock()
    batches = writer(tmp_path, clock=clock, sync="interval", files=disk)
    batches.commit([fact("a")])
    made = disk.calls["sync"]
    for step in (-(10**9), 10**9):
        clock.now_utc += step * 1_000_000
        batches.commit([fact("b")])
    assert disk.calls["sync"] == made
    clock.now_mono += 1_000_000
    clock.now_utc -= 7200 * 1_000_000
    batches.commit([])
    assert disk.calls["sync"] == made + 1
    clock.now_mono += 3600 * 1_000_000
    batches.rotate_if_due()
    assert batches.segment is None


# When it is synced. Each segment that is made is synced once by itself.


def test_always_means_after_every_batch(tmp_path, disk):
    always = writer(tmp_path, sync="always", files=disk)
    for number in range(1, 4):
        always.commit([fact("a"), fact("b")])
        assert disk.calls["sync"] == disk.calls["write"] == 1 + number
        assert always.patience() == PULSE
    always.sync()
    assert disk.calls["sync"] == 4


def test_interval_means_within_a_second(tmp_path, disk):
    clock = FakeClock()
    interval = writer(tmp_path, sync="interval", clock=clock, files=disk)
    assert interval.patience() == PULSE
    for _ in range(3):
        interval.commit([fact("a")])
        assert interval.patience() == pytest.approx(1.0)
        clock.advance(0.4)
        interval.commit([fact("b")])
        assert interval.patience() == pytest.approx(0.6)
        clock.advance(0.599999)
        interval.commit([])
        syncs = disk.calls["sync"]
        clock.advance(0.000001)
        assert interval.patience() == 0.0
        interval.commit([])
        assert disk.calls["sync"] == syncs + 1
        assert interval.patience() == PULSE
    interval.commit([fact("c")])
    syncs = disk.calls["sync"]
    interval.close()
    assert disk.calls["sync"] == syncs + 1


def test_a_busy_journal_is_synced_within_a_second_too(tmp_path, disk):
    clock = FakeClock()
    interval = writer(tmp_path, sync="interval", clock=clock, files=disk)
    for _ in range(50):
        interval.commit([fact("a")])
        clock.advance(0.1)
    assert disk.calls["sync"] == 1 + 4


@pytest.mark.parametrize("sync", ["interval", "off"])
def test_a_full_segment_is_synced_before_it_is_left(tmp_path, disk, sync):
    batches = writer(tmp_path, sync=sync, rotation=Rotation(bytes=1), files=disk)
    batches.commit([fact("a")])
    assert disk.calls["sync"] == 1
    batches.commit([fact("b")])
    assert disk.calls["sync"] == 1 + 1 + 1


@pytest.mark.parametrize("sync", ["interval", "off"])
def test_what_is_to_be_sealed_is_synced_before(tmp_path, disk, sync):
    batches = writer(tmp_path, sync=sync, files=disk)
    batches.sync()
    assert disk.calls["sync"] == 0
    batches.commit([fact("a")])
    batches.sync()
    assert disk.calls["sync"] == 2
    assert batches.patience() == PULSE


def test_off_leaves_syncs_to_the_system(tmp_path, disk):
    clock = FakeClock()
    off = writer(tmp_path, sync="off", clock=clock, files=disk)
    for _ in range(10):
        off.commit([fact("a")])
        clock.advance(5)
        assert off.patience() == PULSE
    assert disk.calls["sync"] == 1


# The thread.


def test_what_queues_up_during_a_sync_shares_the_next_one(tmp_path, open_journal, disk, reactor):
    disk.halt()
    journal = open_journal()
    first = collect(journal, ["first"])
    assert disk.in_sync.wait(PATIENCE)
    names = [f"n{number}" for number in range(50)]
    written = collect(journal, names)
    assert (first, written) == ([], [])
    disk.go_on()
    reactor.run_until(lambda: len(written) == 50)
    assert (first, written) == (["first"], names)
    # One for the segment, one for the first batch, one for all others.
    assert disk.calls["sync"] == 3
    assert actors(tmp_path) == ["first", *names]


class TurningReactor(FakeReactor):
    """The turns of which are over when the test says so. ``now`` is its time in seconds."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self._turns = Clock()

    def seconds(self):
        return self.now

    def callLater(self, delay, function):
        assert delay == 0
        return self._turns.callLater(1, function)

    def end_turn(self):
        self._turns.advance(1)


@pytest.fixture
def turning(tmp_path, disk):
    reactor = TurningReactor()
    return FileJournal(writer(tmp_path, files=disk), reactor), reactor


def test_entries_are_written_together_after_a_turn_without_any(turning, disk):
    journal, reactor = turning
    for batch in range(1, 4):
        collect(journal, "abc")
        journal.append_fact(note("d"))
        reactor.end_turn()
        collect(journal, "e")
        reactor.end_turn()
        assert journal.waiting == 5
        assert disk.calls["sync"] == (batch if batch > 1 else 0)
        reactor.end_turn()
        reactor.run_until(lambda: not journal.waiting)
        assert disk.calls["sync"] == 1 + batch
    reactor.wait(journal.close())


def test_a_single_entry_is_written_at_the_end_of_its_turn(turning):
    journal, reactor = turning
    written = collect(journal, "a")
    reactor.end_turn()
    reactor.run_until(lambda: written)
    reactor.wait(journal.close())


def test_entries_do_not_wait_long_for_a_turn_without_any(turning, disk):
    journal, reactor = turning
    collect(journal, "ab")
    for _ in range(20):
        reactor.end_turn()
        assert disk.calls["sync"] == 0
        collect(journal, "c")
        reactor.now += writer_module.MOST_COLLECTING / 20
    reactor.end_turn()
    reactor.run_until(lambda: not journal.waiting)
    assert disk.calls["sync"] == 2
    reactor.wait(journal.close())


def test_what_the_last_turn_brought_is_written_before_the_end(tmp_path, turning):
    journal, reactor = turning
    written = collect(journal, "abc")
    journal.append_fact(note("d"))
    closed = journal.close()
    late = journal.append([note("e")])
    reactor.wait(closed)
    assert (written, actors(tmp_path)) == ([*"abc"], [*"abcd"])
    with pytest.raises(JournalUnavailable, match="closed"):
        reactor.wait(late)
    reactor.end_turn()


def test_nothing_is_said_before_it_is_on_the_disk(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    syncs = []
    for number in range(20):
        done = journal.append([note(f"n{number}")])
        done.addCallback(lambda records: syncs.append((disk.calls["sync"], actors(tmp_path)[-1])))
        reactor.run_until(lambda done=done: done.called)
        assert syncs == [(each + 2, f"n{each}") for each in range(number + 1)]


def test_deferreds_fire_in_call_order_in_the_reactor_thread(tmp_path, open_journal, reactor):
    journal = open_journal()
    fired, threads = [], set()

    def note_fired(records, number):
        fired.append((number, records[0].event.actor, records[0].seq))
        threads.add(threading.current_thread())
        if number < 300:
            ask(number + 100)

    def ask(number):
        journal.append([note(f"n{number}"), note("second")]).addCallback(note_fired, number)
        journal.append_fact(note("fact"))

    for number in range(100):
        ask(number)
    reactor.run_until(lambda: len(fired) == 400)
    assert [number for number, _, _ in fired] == list(range(400))
    assert [actor for _, actor, _ in fired] == [f"n{number}" for number in range(400)]
    assert [seq for _, _, seq in fired] == list(range(1, 1200, 3))
    assert threads == {threading.current_thread()}


def test_the_thread_syncs_by_itself_when_the_interval_is_over(tmp_path, open_journal, disk, reactor, monkeypatch):
    monkeypatch.setattr(batch_module, "SYNC_INTERVAL", 0.05)
    journal = open_journal(sync="interval", clock=SystemClock())
    reactor.wait(journal.append([note("a")]))
    disk.halt()
    reactor.wait(journal.append([note("b")]))
    assert disk.in_sync.wait(PATIENCE)


def test_closing_writes_what_is_queued_and_fires_last(tmp_path, open_journal, disk, reactor):
    disk.halt()
    journal = open_journal()
    names = [f"n{number}" for number in range(30)]
    fired = collect(journal, names)
    journal.append_fact(note("last"))
    closed = journal.close()
    closed.addCallback(lambda _: fired.append("closed"))
    disk.go_on()
    reactor.wait(closed)
    assert fired == [*names, "closed"]
    assert actors(tmp_path) == [*names, "last"]
    assert not journal._thread.is_alive()


def test_closing_syncs_what_was_only_written(tmp_path, open_journal, disk, reactor):
    journal = open_journal(sync="interval", clock=FakeClock())
    reactor.wait(journal.append([note("a")]))
    assert disk.calls["sync"] == 1
    reactor.wait(journal.close())
    assert disk.calls["sync"] == 2


def test_what_is_asked_of_a_closed_journal_is_refused(tmp_path, open_journal, reactor):
    journal = open_journal()
    closed = journal.close()
    late = journal.append([note("late")])
    with pytest.raises(JournalUnavailable):
        reactor.wait(late)
    assert closed.called
    with pytest.raises(JournalUnavailable):
        reactor.wait(journal.append([note("later")]))
    assert actors(tmp_path) == []


def test_an_event_that_cannot_be_encoded_fails_for_its_caller(tmp_path, open_journal, reactor):
    journal = open_journal()
    for unwritable in (ev.AuthFailed(actor="\ud800"), ev.SubscriptionAdded(options={"x": object()})):
        with pytest.raises((ValueError, TypeError)):
            journal.append([note("with it"), stamp(unwritable)])
        with pytest.raises((ValueError, TypeError)):
            journal.append_fact(stamp(unwritable))
    assert [record.seq for record in reactor.wait(journal.append([note("after")]))] == [1]
    assert actors(tmp_path) == ["after"]


def test_the_thread_that_writes_does_not_keep_the_process_alive(open_journal):
    journal = open_journal()
    assert isinstance(journal, FileJournal)
    assert journal._thread.daemon


# What waits.


class Failing:
    """Fails when it is told."""

    def callback(self, result):
        raise RuntimeError("a waiter failed")


def test_a_waiter_that_fails_is_logged_and_holds_up_nobody(open_journal, reactor, logged):
    journal = open_journal()
    before, after = journal.append([note("a")]), Deferred()
    journal.append_change([note("b")], Failing())
    journal.append_change([note("c")], after)
    assert [record.seq for record in reactor.wait(before) + reactor.wait(after)] == [1, 3]
    assert reactor.wait(journal.append([note("d")]))[0].seq == 4
    assert "a waiter failed" in "".join(logged)


def test_while_the_disk_fails_the_journal_tells_and_counts_it(tmp_path):
    disk, reactor = Disk(), FakeReactor()
    journal = FileJournal(writer(tmp_path, files=disk), reactor)
    disk.failing = {"write"}
    with pytest.raises(JournalUnavailable):
        reactor.wait(journal.append([note("a")]))
    assert "Input/output error" in str(journal.unavailable)
    journal.refuse()
    journal.refuse()
    disk.failing = set()
    reactor.wait(journal.append([note("b")]))
    assert journal.unavailable is None
    reactor.wait(journal.close())
    restored = [record.event for record in every_record(tmp_path) if isinstance(record.event, ev.JournalRestored)]
    assert [event.refused for event in restored] == [3]


def test_a_disk_that_takes_nothing_is_not_given_more_and_more(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "MOST_WAITING", 10)
    disk, reactor = Disk(), FakeReactor()
    journal = FileJournal(writer(tmp_path, files=disk), reactor)
    disk.halt()
    done = [journal.append([note(f"{number}")]) for number in range(9)]
    assert journal.unavailable is None
    journal.append_fact(note("fact"))
    assert "too slow" in str(journal.unavailable)
    disk.go_on()
    for each in done:
        reactor.wait(each)
    reactor.run_until(lambda: journal.unavailable is None)
    assert journal.waiting <= 1
    reactor.wait(journal.close())
    assert journal.waiting == 0


@pytest.mark.parametrize("together", [1, 2, 3, 100])
def test_followers_get_records_once_in_order_and_before_callers(
    tmp_path, open_journal, disk, reactor, monkeypatch, together
):
    monkeypatch.setattr(writer_module, "TOLD_TOGETHER", together)
    journal = open_journal()
    followed, waited = [], []
    journal.follow(followed.extend)

    def told(records):
        assert followed[followed.index(records[0]) :][: len(records)] == records
        waited.append([each.event.actor for each in records])

    disk.halt()
    asked = [journal.append([note("first")])]
    assert disk.in_sync.wait(PATIENCE)
    asked += [journal.append([note(text) for text in texts]) for texts in ("a", "bc", "d")]
    journal.append_fact(note("fact"))
    asked += [journal.append([note(text) for text in texts]) for texts in ("e", "fg")]
    for each in asked:
        each.addCallback(told)
    disk.go_on()
    reactor.run_until(lambda: len(waited) == len(asked))
    assert waited == [["first"], ["a"], ["b", "c"], ["d"], ["e"], ["f", "g"]]
    assert followed == every_record(tmp_path)
    assert [each.event.actor for each in followed] == ["first", "a", "b", "c", "d", "fact", "e", "f", "g"]
