"""The journal on disk: order, numbers, segments, batches, and when it is synced."""

import threading

import pytest
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.clock import SystemClock
from bussrv.errors import JournalUnavailable
from bussrv.journal import writer as writer_module
from bussrv.journal.record import Record, encode
from bussrv.journal.recovery import recover
from bussrv.journal.segment import list_segments, segment_name
from bussrv.journal.writer import FileJournal, make_entry
from tests.journal.support import PATIENCE, FakeClock, actors, every_record, fact, note, stamp, writer


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
    writer(tmp_path, last_seq=6).commit([fact("a"), asked, fact("c")])
    records = every_record(tmp_path)
    assert [record.seq for record in records] == [7, 8, 9, 10]
    assert (records[1].time, records[1].mono, records[1].server, records[1].boot) == (5_000_000, 70, "server", "boot")
    assert actors(tmp_path) == ["a", "config.reloaded", "b", "c"]
    assert asked.records == records[1:3]
    assert list_segments(tmp_path) == [tmp_path / segment_name(7)]


def test_a_boot_without_records_leaves_no_segment(tmp_path):
    idle = writer(tmp_path)
    idle.commit([])
    idle.close()
    assert list(tmp_path.iterdir()) == []


def test_each_boot_begins_a_segment_and_numbers_go_on(tmp_path):
    for number in range(4):
        recovered = recover(tmp_path, lambda event, time: None)
        boot = writer(tmp_path, last_seq=recovered.last_seq, boot=f"boot {number}")
        for _ in range(3):
            boot.commit([fact("x")])
        boot.close()
    assert [path.name for path in list_segments(tmp_path)] == [segment_name(seq) for seq in (1, 4, 7, 10)]
    records = every_record(tmp_path)
    assert [record.seq for record in records] == list(range(1, 13))
    assert [record.boot for record in records] == [f"boot {number}" for number in range(4) for _ in range(3)]


def test_a_segment_that_is_full_is_followed_by_another(tmp_path):
    size = len(encode(Record(1, 0, 0, "server", "boot", note("n0").event)))
    full = writer(tmp_path, segment_bytes=size * 2 + 1)
    names = [f"n{number}" for number in range(8)]
    for name in names:
        full.commit([fact(name)])
    full.close()
    assert [path.name for path in list_segments(tmp_path)] == [segment_name(seq) for seq in (1, 4, 7)]
    assert actors(tmp_path) == names
    assert recover(tmp_path, lambda event, time: None).last_seq == 8


def test_one_batch_stays_in_one_segment(tmp_path):
    small = writer(tmp_path, segment_bytes=1)
    small.commit([fact(f"n{number}") for number in range(50)])
    small.close()
    assert len(list_segments(tmp_path)) == 1


# When it is synced.


def test_always_means_after_every_batch(tmp_path, disk):
    always = writer(tmp_path, sync="always")
    for number in range(1, 4):
        always.commit([fact("a"), fact("b")])
        assert disk.calls["fdatasync"] == disk.calls["write"] == number
        assert always.patience() is None


def test_interval_means_within_a_second(tmp_path, disk):
    clock = FakeClock()
    interval = writer(tmp_path, sync="interval", clock=clock)
    assert interval.patience() is None
    for _ in range(3):
        interval.commit([fact("a")])
        assert interval.patience() == pytest.approx(1.0)
        clock.advance(0.4)
        interval.commit([fact("b")])
        assert interval.patience() == pytest.approx(0.6)
        clock.advance(0.599999)
        interval.commit([])
        syncs = disk.calls["fdatasync"]
        clock.advance(0.000001)
        assert interval.patience() == 0.0
        interval.commit([])
        assert disk.calls["fdatasync"] == syncs + 1
        assert interval.patience() is None
    interval.commit([fact("c")])
    syncs = disk.calls["fdatasync"]
    interval.close()
    assert disk.calls["fdatasync"] == syncs + 1


def test_a_busy_journal_is_synced_within_a_second_too(tmp_path, disk):
    clock = FakeClock()
    interval = writer(tmp_path, sync="interval", clock=clock)
    for _ in range(50):
        interval.commit([fact("a")])
        clock.advance(0.1)
    assert disk.calls["fdatasync"] == 4


def test_a_full_segment_is_synced_before_it_is_left(tmp_path, disk):
    interval = writer(tmp_path, sync="interval", segment_bytes=1)
    interval.commit([fact("a")])
    assert disk.calls["fdatasync"] == 0
    interval.commit([fact("b")])
    assert disk.calls["fdatasync"] == 1


def test_off_never_syncs(tmp_path, disk):
    clock = FakeClock()
    off = writer(tmp_path, sync="off", clock=clock, segment_bytes=300)
    for _ in range(10):
        off.commit([fact("a")])
        clock.advance(5)
        assert off.patience() is None
    off.close()
    assert len(list_segments(tmp_path)) > 2
    assert disk.calls["fdatasync"] == 0


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
    assert disk.calls["fdatasync"] == 2
    assert actors(tmp_path) == ["first", *names]


def test_nothing_is_said_before_it_is_on_the_disk(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    syncs = []
    for number in range(20):
        done = journal.append([note(f"n{number}")])
        done.addCallback(lambda records: syncs.append((disk.calls["fdatasync"], actors(tmp_path)[-1])))
        reactor.run_until(lambda done=done: done.called)
        assert syncs == [(each + 1, f"n{each}") for each in range(number + 1)]


def test_deferreds_fire_in_the_order_of_the_calls_in_the_thread_of_the_reactor(tmp_path, open_journal, reactor):
    journal = open_journal()
    fired, threads = [], set()

    def note_fired(records, number):
        fired.append((number, records[0].event.actor, records[0].seq))
        threads.add(threading.current_thread())
        if number < 300:
            ask(number + 100)

    def ask(number):
        journal.append([note(f"n{number}"), note("second")]).addCallback(note_fired, number)
        journal.note(note("fact"))

    for number in range(100):
        ask(number)
    reactor.run_until(lambda: len(fired) == 400)
    assert [number for number, _, _ in fired] == list(range(400))
    assert [actor for _, actor, _ in fired] == [f"n{number}" for number in range(400)]
    assert [seq for _, _, seq in fired] == list(range(1, 1200, 3))
    assert threads == {threading.current_thread()}


def test_the_thread_syncs_by_itself_when_the_interval_is_over(tmp_path, open_journal, disk, reactor, monkeypatch):
    monkeypatch.setattr(writer_module, "SYNC_INTERVAL", 0.05)
    journal = open_journal(sync="interval", clock=SystemClock())
    disk.halt()
    reactor.wait(journal.append([note("a")]))
    assert disk.in_sync.wait(PATIENCE)


def test_closing_writes_what_is_queued_and_fires_last(tmp_path, open_journal, disk, reactor):
    disk.halt()
    journal = open_journal()
    names = [f"n{number}" for number in range(30)]
    fired = collect(journal, names)
    journal.note(note("last"))
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
    assert disk.calls["fdatasync"] == 0
    reactor.wait(journal.close())
    assert disk.calls["fdatasync"] == 1


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


def test_an_event_that_cannot_be_encoded_is_the_business_of_who_wrote_it(tmp_path, open_journal, reactor):
    journal = open_journal()
    for unwritable in (ev.AuthFailed(actor="\ud800"), ev.SubscriptionAdded(options={"x": object()})):
        with pytest.raises((ValueError, TypeError)):
            journal.append([note("with it"), stamp(unwritable)])
        with pytest.raises((ValueError, TypeError)):
            journal.note(stamp(unwritable))
    assert [record.seq for record in reactor.wait(journal.append([note("after")]))] == [1]
    assert actors(tmp_path) == ["after"]


def test_a_journal_is_written_by_a_thread_that_does_not_keep_the_process(open_journal):
    journal = open_journal()
    assert isinstance(journal, FileJournal)
    assert journal._thread.daemon
