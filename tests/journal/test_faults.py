"""A disk that fails: what was asked for is refused, what happened is kept, and everything goes on by itself."""

import errno
import os
import shutil
from contextlib import suppress

import pytest
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.errors import JournalError, JournalUnavailable
from bussrv.journal import batch as batch_module
from bussrv.journal.batch import Rotation, make_entry
from bussrv.journal.chain import START
from bussrv.journal.lock import JournalLock
from bussrv.journal.outside_changes import Changed
from bussrv.journal.reading import read_header
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.segment import SegmentFile, list_segments, segment_name
from bussrv.journal.writer import FileJournal
from tests.journal.support import (
    PATIENCE,
    FakeClock,
    actors,
    every_record,
    fact,
    fold,
    lines_of,
    note,
    replay,
    stamp,
    writer,
)
from tests.small_disk import fill, small_disk


def refused(reactor, deferred, said="the journal cannot be written"):
    with pytest.raises(JournalUnavailable, match=said) as caught:
        reactor.wait(deferred)
    return caught.value


def check_numbers(directory):
    records = every_record(directory)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert recover(directory, None).next_seq == len(records) + 1
    return records


ANYWHERE, EVERY_BATCH = Rotation(), Rotation(bytes=1)

# With one batch a segment, a new segment has to be made when the disk fails.
every_fault = pytest.mark.parametrize(
    ("calls", "rotation"),
    [
        ({"write"}, ANYWHERE),
        ({"sync"}, ANYWHERE),
        ({"write", "truncate"}, ANYWHERE),
        ({"sync", "truncate"}, ANYWHERE),
        ({"write"}, EVERY_BATCH),
        ({"sync"}, EVERY_BATCH),
        ({"create"}, EVERY_BATCH),
        ({"reopen"}, EVERY_BATCH),
        ({"rename"}, EVERY_BATCH),
        ({"sync_directory"}, EVERY_BATCH),
        ({"sync_directory", "remove"}, EVERY_BATCH),
        ({"write", "remove"}, EVERY_BATCH),
    ],
    ids=lambda value: "-".join(sorted(value)) if isinstance(value, set) else f"{value.bytes}",
)


@every_fault
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_changes_are_refused_and_facts_kept_until_the_disk_works(
    tmp_path, open_journal, disk, reactor, calls, rotation, number
):
    journal = open_journal(rotation=rotation)
    reactor.wait(journal.append([note("before")]))
    disk.failing, disk.errno = calls, number
    error = refused(reactor, journal.append([note("refused 1"), note("refused 1")]), os.strerror(number))
    assert error.reason == "journal-unavailable"
    journal.append_fact(note("fact 1"))
    refused(reactor, journal.append([note("refused 2")]))
    journal.append_fact(note("fact 2"))
    refused(reactor, journal.append([note("refused 3")]))
    if "truncate" not in calls:
        assert actors(tmp_path) == ["before"]
    disk.failing = set()
    reactor.wait(journal.append([note("after")]))
    order = ["before", "journal.degraded", "fact 1", "fact 2", "journal.restored", "after"]
    assert actors(tmp_path) == order
    reactor.wait(journal.append([note("later")]))
    reactor.wait(journal.close())
    assert actors(tmp_path) == [*order, "later"]
    records = check_numbers(tmp_path)
    assert records[1].event == ev.JournalDegraded(message=f"[Errno {number}] {os.strerror(number)}")
    assert records[4].event == ev.JournalRestored(refused=3)
    assert not any(read_header(path).salvaged for path in list_segments(tmp_path))


def test_a_disk_that_works_again_is_noticed_without_a_request(tmp_path, open_journal, disk, reactor, monkeypatch):
    monkeypatch.setattr(batch_module, "PULSE", 0.01)
    journal = open_journal()
    disk.failing = {"write"}
    journal.append_fact(note("fact"))
    reactor.run_until(lambda: disk.calls["create"] >= 5)
    assert actors(tmp_path) == []
    disk.failing = set()
    reactor.run_until(lambda: actors(tmp_path))
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored"]
    assert check_numbers(tmp_path)[2].event == ev.JournalRestored(refused=0)


def test_a_disk_that_fails_twice_is_journaled_twice(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    for _ in range(2):
        disk.failing = {"sync"}
        refused(reactor, journal.append([note("refused")]))
        disk.failing = set()
        reactor.wait(journal.append([note("made")]))
    assert actors(tmp_path) == ["journal.degraded", "journal.restored", "made"] * 2
    assert [r.event.refused for r in every_record(tmp_path) if isinstance(r.event, ev.JournalRestored)] == [1, 1]


def test_what_was_asked_before_a_refusal_is_known_is_refused_too(tmp_path, open_journal, disk, reactor):
    """It was checked as if what was refused were there."""
    journal = open_journal()
    disk.halt()
    outcomes = []

    def ask(name):
        return journal.append([note(name)]).addCallbacks(
            lambda _: outcomes.append(f"{name} made"), lambda _: outcomes.append(f"{name} refused")
        )

    ask("first")
    assert disk.in_sync.wait(PATIENCE)
    ask("second")
    journal.append_fact(note("fact"))
    # Only the sync of the first one fails.
    disk.fail_at([0])
    disk.go_on()
    reactor.run_until(lambda: len(outcomes) == 1)
    # The second one may be on its way to being told; a third one knows.
    ask("third")
    reactor.run_until(lambda: len(outcomes) == 3)
    assert outcomes == ["first refused", "second refused", "third made"]
    assert actors(tmp_path) == ["journal.degraded", "journal.restored", "fact", "third"]
    assert check_numbers(tmp_path)[1].event == ev.JournalRestored(refused=2)


def test_facts_that_cannot_be_written_do_not_touch_changes(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    disk.halt()
    journal.append_fact(note("fact"))
    assert disk.in_sync.wait(PATIENCE)
    done = journal.append([note("asked")])
    disk.fail_at([0])
    disk.go_on()
    reactor.wait(done)
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored", "asked"]


def test_an_error_that_nobody_thought_of_is_treated_alike(tmp_path, open_journal, reactor, monkeypatch):
    journal = open_journal()
    with monkeypatch.context() as patch:
        patch.setattr(SegmentFile, "write", lambda self, *data: 1 / 0)
        refused(reactor, journal.append([note("refused")]))
        assert journal.trouble == "the journal cannot be written: division by zero"
        journal.append_fact(note("fact"))
        refused(reactor, journal.append([note("refused")]))
    reactor.wait(journal.append([note("after")]))
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored", "after"]
    check_numbers(tmp_path)


def test_what_is_kept_is_written_when_the_journal_closes(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    disk.failing = {"write"}
    journal.append_fact(note("fact"))
    refused(reactor, journal.append([note("refused")]))
    disk.failing = set()
    reactor.wait(journal.close())
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored"]


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_journal_closes_even_when_the_disk_fails(tmp_path, open_journal, disk, reactor, call):
    journal = open_journal(sync="interval")
    reactor.wait(journal.append([note("before")]))
    disk.failing = {call}
    journal.append_fact(note("fact"))
    reactor.wait(journal.close())
    assert actors(tmp_path)[0] == "before"
    check_numbers(tmp_path)


def test_a_sync_that_fails_later_takes_back_nothing_said(tmp_path, disk):
    clock = FakeClock()
    interval = writer(tmp_path, sync="interval", clock=clock, files=disk)
    interval.commit([fact("said")])
    clock.advance(2)
    disk.failing = {"sync"}
    with pytest.raises(OSError, match="Input/output"):
        interval.commit([make_entry([note("refused")], Deferred()), fact("fact")])
    assert actors(tmp_path) == ["said"]
    disk.failing = set()
    interval.commit([])
    assert actors(tmp_path) == ["said", "journal.degraded", "fact", "journal.restored"]
    check_numbers(tmp_path)


# Every call of the disk fails once, and the next ones with it.

ROUNDS = 4


def run_rounds(directory, disk, boot, sync, rotation, expected):
    """Some rounds of a fact and a change each; what the journal has to hold afterwards is added to ``expected``."""
    clock = FakeClock()
    batches = writer(directory, sync=sync, clock=clock, rotation=rotation, boot=boot, files=disk)
    for number in range(ROUNDS):
        name = f"{boot}.{number}"
        expected.append(f"fact {name}")
        asked = make_entry([note(f"asked {name}"), note(f"with {name}")], Deferred())
        with suppress(OSError):
            batches.commit([fact(f"fact {name}"), asked])
            expected += [f"asked {name}", f"with {name}"]
        clock.advance(0.7)
    while batches.degraded:
        with suppress(OSError):
            batches.commit([])
    with suppress(OSError):
        batches.close()


@pytest.mark.parametrize("rotation", [Rotation(bytes=1), Rotation(bytes=1200), Rotation()], ids=lambda each: each.bytes)
@pytest.mark.parametrize("sync", ["always", "interval", "off"])
def test_whatever_call_fails_the_journal_holds_what_was_said(tmp_path, disk, sync, rotation):
    number, failed = 0, True
    while failed:
        for span in (1, 2, 4):
            directory = tmp_path / f"{number}.{span}"
            directory.mkdir()
            calls = disk.calls.total()
            disk.fail_at(range(number, number + span))
            expected = []
            run_rounds(directory, disk, "a", sync, rotation, expected)
            failed = disk.calls.total() - calls > number
            disk.fail_at([])
            check_numbers(directory)
            run_rounds(directory, disk, "b", sync, rotation, expected)
            check_numbers(directory)
            names = [name for name in actors(directory) if not name.startswith("journal.")]
            assert names == expected
        number += 1
    assert number > ROUNDS


# What could not be cut back, and a crash before it was.


def test_what_could_not_be_cut_back_is_cut_before_more_follows(tmp_path, disk):
    batches = writer(tmp_path, files=disk)
    batches.commit([fact("before")])
    good = (tmp_path / segment_name(1)).read_bytes()
    disk.failing = {"sync", "truncate"}
    with pytest.raises(OSError, match="Input/output"):
        batches.commit([make_entry([note("refused")], Deferred())])
    # It is not closed, and so not sealed as closed, while something stands behind its end.
    assert len(lines_of(tmp_path / segment_name(1))) == 3
    assert batches.closed == []
    disk.failing = set()
    batches.commit([])
    assert (tmp_path / segment_name(1)).read_bytes() == good
    assert [(extent.segment, extent.bytes) for extent in batches.closed] == [(1, len(good))]
    assert actors(tmp_path) == ["before", "journal.degraded", "journal.restored"]
    batches.close()
    check_numbers(tmp_path)


def test_half_a_line_left_by_a_crash_before_its_cut_is_set_aside(tmp_path, disk):
    batches = writer(tmp_path, files=disk)
    batches.commit([fact("before")])
    good = (tmp_path / segment_name(1)).read_bytes()
    disk.failing = {"write", "truncate"}
    with pytest.raises(OSError, match="Input/output"):
        batches.commit([make_entry([note("refused")], Deferred())])
    assert recover(tmp_path, None).torn_bytes > 0
    assert (tmp_path / segment_name(1)).read_bytes() == good
    after = writer(tmp_path)
    after.commit([fact("after")])
    after.close()
    assert actors(tmp_path) == ["before", "after"]
    check_numbers(tmp_path)


def test_an_empty_segment_that_cannot_be_removed_is_no_obstacle(tmp_path, disk):
    batches = writer(tmp_path, files=disk)
    disk.fail_at([7, 8])
    # create, write, sync, rename, sync_directory, reopen, write, sync; then remove.
    with pytest.raises(OSError, match="Input/output"):
        batches.commit([make_entry([note("refused")], Deferred())])
    assert list_segments(tmp_path) == [tmp_path / segment_name(1)]
    batches.commit([])
    batches.close()
    assert actors(tmp_path) == ["journal.degraded", "journal.restored"]
    check_numbers(tmp_path)


def test_clients_are_not_told_paths_of_the_server(tmp_path, disk, reactor):
    journal = FileJournal(writer(tmp_path, files=disk), reactor)
    reactor.wait(journal.append([note("before")]))
    (tmp_path / segment_name(1)).write_bytes(b"")
    caught = refused(reactor, journal.append([note("refused")]))
    assert caught.message == "the journal cannot be written: another program changed it"
    assert f"{tmp_path}" in journal.trouble
    disk.failing = {"create"}
    caught = refused(reactor, journal.append([note("refused")]))
    assert caught.message == "the journal cannot be written: Input/output error"
    disk.failing = set()
    reactor.wait(journal.append([note("after")]))
    assert journal.trouble is None
    reactor.wait(journal.close())


# Somebody removes what is being written.


REGISTERED = [
    stamp(ev.SessionOpened(session="s", routing_id="r")),
    stamp(ev.ServiceRegistered(session="s", service="tv")),
]


def test_a_directory_that_is_removed_and_made_again(tmp_path, disk, reactor):
    directory = tmp_path / "volume" / "journal"
    lock = JournalLock(directory)
    journal = FileJournal(writer(directory, keep_lock=lock.renew, files=disk), reactor)
    reactor.wait(journal.append(REGISTERED))
    shutil.rmtree(directory.parent)
    for _ in range(2):
        journal.append_fact(note("fact"))
        refused(reactor, journal.append([note("refused")]))
        assert journal.trouble.endswith(f"cannot be made again: {directory.parent}, which it was in, is gone as well")
    directory.parent.mkdir()
    reactor.wait(journal.append([note("after")]))
    with pytest.raises(JournalError, match="another server"):
        JournalLock(directory)
    reactor.wait(journal.close())
    lock.release()
    JournalLock(directory).release()
    assert actors(directory) == ["journal.degraded", "fact", "fact", "journal.restored", "after"]
    records = every_record(directory)
    assert [record.seq for record in records] == [3, 4, 5, 6, 7]
    assert records[3].event == ev.JournalRestored(refused=2)
    header = read_header(directory / segment_name(3))
    damage = header.salvaged
    assert (damage.segment, damage.line, damage.seq) == (1, 1, 1)
    assert damage.reason == "it was removed or moved away while the server was running"
    assert (header.previous.segment, header.parts) == (1, 1)
    # The snapshot holds what was lost.
    assert replay(directory).services == {"tv": {"s": REGISTERED[1].time}}
    again = writer(directory)
    again.commit([fact("again")])
    again.close()
    assert recover(directory, None).next_seq == 9


@pytest.mark.parametrize("has_segment", [False, True])
def test_a_directory_that_is_removed_while_no_segment_is_written(tmp_path, disk, has_segment):
    """Nothing that is written would be lost, but what follows does not follow from anything that is there."""
    directory = tmp_path / "journal"
    lock = JournalLock(directory)
    seals = ["fc" * 32]
    batches = writer(directory, keep_lock=lock.renew, last_seal=lambda: seals[0], files=disk)
    if has_segment:
        batches.commit([make_entry(REGISTERED)])
        batches.rotate()
    shutil.rmtree(directory)
    batches.commit([fact("fact")])
    batches.close()
    lock.release()
    header = read_header(list_segments(directory)[0])
    assert (header.salvaged is not None) == has_segment
    if has_segment:
        # The seals are gone as well, and nobody asks for them.
        assert recover(directory, None).next_seq == 4
        assert replay(directory).services.keys() == {"tv"}


@pytest.mark.parametrize("rotation", [Rotation(), Rotation(bytes=1)], ids=lambda each: each.bytes)
def test_a_segment_that_is_removed(tmp_path, disk, rotation):
    batches = writer(tmp_path, rotation=rotation, files=disk)
    batches.commit([make_entry([each]) for each in REGISTERED])
    batches.rotate()
    batches.commit([fact("lost")])
    tmp_path.joinpath(segment_name(3)).unlink()
    with pytest.raises(Changed, match="it was removed or moved away"):
        batches.commit([make_entry([note("refused")], Deferred()), fact("fact")])
    # It cannot be sealed as closed, since it is not there.
    assert [extent.segment for extent in batches.closed] == [1]
    batches.commit([fact("after")])
    batches.close()
    header = read_header(tmp_path / segment_name(4))
    assert (header.salvaged.segment, header.salvaged.line, header.salvaged.seq) == (3, 1, 3)
    assert recover(tmp_path, None).salvaged is None
    assert replay(tmp_path).services.keys() == {"tv"}
    # What was written before is still there, and so is everything behind; what is missing can be seen.
    names = ["session.opened", "service.registered"]
    assert actors(tmp_path) == [*names, "journal.degraded", "fact", "journal.restored", "after"]


def test_a_segment_removed_before_its_first_record_loses_nothing(tmp_path, disk):
    batches = writer(tmp_path, files=disk)
    batches.commit([fact("before")])
    batches.rotate()
    batches.commit([make_entry([])])
    tmp_path.joinpath(segment_name(2)).unlink()
    with pytest.raises(Changed, match="it was removed or moved away"):
        batches.commit([fact("fact")])
    batches.commit([])
    batches.close()
    assert read_header(tmp_path / segment_name(2)).salvaged is None
    assert actors(tmp_path) == ["before", "journal.degraded", "fact", "journal.restored"]
    check_numbers(tmp_path)


def test_a_removed_older_segment_is_missed_at_the_next_start(tmp_path):
    batches = writer(tmp_path, rotation=Rotation(bytes=1))
    for name in "abc":
        batches.commit([fact(name)])
    batches.close()
    tmp_path.joinpath(segment_name(2)).unlink()
    with pytest.raises(Damaged, match=f"{segment_name(2)}: segment 3 should follow segment 2, not segment 1"):
        recover(tmp_path, None)


def test_a_salvage_that_could_not_make_its_segment_does_so_later(tmp_path, disk):
    batches = writer(tmp_path, files=disk)
    batches.commit([fact("lost")])
    tmp_path.joinpath(segment_name(1)).unlink()
    disk.failing = {"write", "sync"}
    for _ in range(2):
        with pytest.raises(OSError, match=r"Input/output|another program changed"):
            batches.commit([fact("fact")])
    disk.failing = set()
    # The segment is begun, but its first record does not get through.
    disk.fail_at([7])
    with pytest.raises(OSError, match="Input/output"):
        batches.commit([])
    batches.commit([])
    batches.close()
    header = read_header(tmp_path / segment_name(2))
    assert header.salvaged.segment == 1
    assert header.prev != START
    assert actors(tmp_path) == ["journal.degraded", "fact", "fact", "journal.restored"]
    assert recover(tmp_path, None).next_seq == 6


def test_two_servers_on_one_directory(tmp_path):
    first = JournalLock(tmp_path)
    batches = writer(tmp_path, keep_lock=first.renew)
    batches.commit([fact("a")])
    for _ in range(2):
        with pytest.raises(JournalError, match=f"^another server is using the journal directory {tmp_path}$"):
            JournalLock(tmp_path)
    batches.commit([fact("b")])
    batches.close()
    first.release()
    second = JournalLock(tmp_path)
    assert recover(tmp_path, None).next_seq == 3
    second.release()


def test_a_second_server_in_a_directory_made_again_is_left_alone(tmp_path):
    directory = tmp_path / "journal"
    first = JournalLock(directory)
    batches = writer(directory, keep_lock=first.renew)
    batches.commit([fact("lost")])
    shutil.rmtree(directory)
    second = JournalLock(directory)
    other = writer(directory, keep_lock=second.renew)
    other.commit([fact("other")])
    for _ in range(2):
        with pytest.raises((OSError, JournalError), match=r"another program changed|another server"):
            batches.commit([fact("fact")])
    other.close()
    assert actors(directory) == ["other"]
    second.release()
    first.release()


# A disk that is really full.


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path):
    with small_disk(tmp_path / "small", "64k") as directory:
        yield directory


@pytest.mark.processes
def test_a_full_disk(small_disk, reactor):
    """No stand-in for the disk here."""
    journal = FileJournal(writer(small_disk), reactor)
    reactor.wait(journal.append(REGISTERED))
    ballast = fill(small_disk)
    # What is left of the last page of the segment takes a few records more.
    failures = []
    filling = [journal.append([note("x" * 500)]).addErrback(failures.append) for _ in range(20)]
    reactor.run_until(lambda: filling[-1].called)
    assert failures[-1].check(JournalUnavailable)
    assert "No space left on device" in failures[-1].getErrorMessage()
    journal.append_fact(stamp(ev.ServiceUnregistered(session="s", service="tv")))
    refused(reactor, journal.append([stamp(ev.ServiceRegistered(session="s", service="radio"))]))
    before = every_record(small_disk)
    ballast.unlink()
    reactor.wait(journal.append([stamp(ev.ServiceRegistered(session="s", service="clock"))]))
    reactor.wait(journal.close())
    records = check_numbers(small_disk)
    assert records[: len(before)] == before
    names = [ev.event_name(record.event) for record in records[len(before) :]]
    assert names == ["journal.degraded", "service.unregistered", "journal.restored", "service.registered"]
    assert records[-2].event == ev.JournalRestored(refused=len(failures) + 1)
    assert replay(small_disk) == fold(records)
    assert replay(small_disk).services.keys() == {"clock"}


# How long the oldest entry has waited.


def test_the_oldest_waiting_entry_is_known_until_it_is_settled(tmp_path, disk, reactor):
    clock = FakeClock(mono=5)
    batches = writer(tmp_path, files=disk, clock=clock)
    journal = FileJournal(batches, reactor)
    reactor.wait(journal.append([stamp(ev.ConfigReloaded(), clock)]))
    assert (journal.waiting, journal.waiting_since, sum(batches.syncs.counts)) == (0, None, 1)
    disk.halt()
    asked = journal.append([stamp(ev.ConfigReloaded(), clock)])
    clock.advance(1)
    later = journal.append([stamp(ev.ConfigReloaded(), clock)])
    assert (journal.waiting, journal.waiting_since) == (2, 5)
    disk.go_on()
    reactor.wait(asked)
    reactor.wait(later)
    assert (journal.waiting, journal.waiting_since) == (0, None)
    # Of a disk that fails, facts wait on; changes do not.
    disk.failing = {"write"}
    journal.append_fact(stamp(ev.ServerStopped(), clock))
    refused(reactor, journal.append([stamp(ev.ConfigReloaded(), clock)]))
    clock.advance(1)
    journal.append_fact(stamp(ev.ServerStopped(), clock))
    refused(reactor, journal.append([stamp(ev.ConfigReloaded(), clock)]))
    assert (journal.waiting, journal.waiting_since) == (2, 1_000_005)
    disk.failing = set()
    reactor.wait(journal.append([stamp(ev.ConfigReloaded(), clock)]))
    assert (journal.waiting, journal.waiting_since) == (0, None)
    reactor.wait(journal.close())
    assert batches.syncs.total >= 0
