"""A disk that fails: what was asked for is refused, what happened is kept, and everything goes on by itself."""

import os
import subprocess
from contextlib import suppress

import pytest
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.errors import JournalUnavailable
from bussrv.journal import writer as writer_module
from bussrv.journal.recovery import recover
from bussrv.journal.segment import SegmentFile
from bussrv.journal.writer import make_entry
from tests.journal.support import PATIENCE, FakeClock, actors, every_record, fact, fold, note, replay, stamp, writer


def refused(reactor, deferred, said="the journal cannot be written"):
    with pytest.raises(JournalUnavailable, match=said) as caught:
        reactor.wait(deferred)
    return caught.value


def check_numbers(directory):
    records = every_record(directory)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert recover(directory, lambda event, time: None).last_seq == len(records)
    return records


# With one record a segment, a new segment has to be made when the disk fails.
every_fault = pytest.mark.parametrize(
    ("call", "segment_bytes"), [("write", 1 << 20), ("fdatasync", 1 << 20), ("write", 1), ("open", 1), ("fsync", 1)]
)


@every_fault
def test_changes_are_refused_and_facts_kept_until_the_disk_works(
    tmp_path, open_journal, disk, reactor, call, segment_bytes
):
    journal = open_journal(segment_bytes=segment_bytes)
    reactor.wait(journal.append([note("before")]))
    disk.failing = {call}
    error = refused(reactor, journal.append([note("refused 1"), note("refused 1")]), "Input/output error")
    assert error.reason == "journal-unavailable"
    journal.note(note("fact 1"))
    refused(reactor, journal.append([note("refused 2")]))
    journal.note(note("fact 2"))
    refused(reactor, journal.append([note("refused 3")]))
    assert actors(tmp_path) == ["before"]
    disk.failing = set()
    reactor.wait(journal.append([note("after")]))
    order = ["before", "journal.degraded", "fact 1", "fact 2", "journal.restored", "after"]
    assert actors(tmp_path) == order
    reactor.wait(journal.append([note("later")]))
    reactor.wait(journal.close())
    assert actors(tmp_path) == [*order, "later"]
    records = check_numbers(tmp_path)
    assert records[1].event == ev.JournalDegraded(message="[Errno 5] Input/output error")
    assert records[4].event == ev.JournalRestored(refused=3)


def test_a_disk_that_works_again_is_noticed_without_anybody_asking(tmp_path, open_journal, disk, reactor, monkeypatch):
    monkeypatch.setattr(writer_module, "RETRY_INTERVAL", 0.01)
    journal = open_journal()
    disk.failing = {"write"}
    journal.note(note("fact"))
    reactor.run_until(lambda: disk.calls["write"] >= 5)
    assert actors(tmp_path) == []
    disk.failing = set()
    reactor.run_until(lambda: actors(tmp_path))
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored"]
    assert check_numbers(tmp_path)[2].event == ev.JournalRestored(refused=0)


def test_a_disk_that_fails_twice_is_journaled_twice(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    for _ in range(2):
        disk.failing = {"fdatasync"}
        refused(reactor, journal.append([note("refused")]))
        disk.failing = set()
        reactor.wait(journal.append([note("made")]))
    assert actors(tmp_path) == ["journal.degraded", "journal.restored", "made"] * 2
    assert [r.event.refused for r in every_record(tmp_path) if isinstance(r.event, ev.JournalRestored)] == [1, 1]


def test_what_was_asked_for_before_a_refusal_was_known_is_refused_as_well(tmp_path, open_journal, disk, reactor):
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
    journal.note(note("fact"))
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


def test_facts_that_cannot_be_written_do_not_touch_what_is_asked_for(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    disk.halt()
    journal.note(note("fact"))
    assert disk.in_sync.wait(PATIENCE)
    done = journal.append([note("asked")])
    disk.fail_at([0])
    disk.go_on()
    reactor.wait(done)
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored", "asked"]


def test_an_error_that_nobody_thought_of_is_treated_alike(tmp_path, open_journal, reactor, monkeypatch):
    journal = open_journal()
    with monkeypatch.context() as patch:
        patch.setattr(SegmentFile, "write", lambda self, data: 1 / 0)
        refused(reactor, journal.append([note("refused")]), "division by zero")
        journal.note(note("fact"))
        refused(reactor, journal.append([note("refused")]), "division by zero")
    reactor.wait(journal.append([note("after")]))
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored", "after"]
    check_numbers(tmp_path)


def test_what_is_kept_is_written_when_the_journal_closes(tmp_path, open_journal, disk, reactor):
    journal = open_journal()
    disk.failing = {"write"}
    journal.note(note("fact"))
    refused(reactor, journal.append([note("refused")]))
    disk.failing = set()
    reactor.wait(journal.close())
    assert actors(tmp_path) == ["journal.degraded", "fact", "journal.restored"]


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_a_journal_closes_even_when_the_disk_fails(tmp_path, open_journal, disk, reactor, call):
    journal = open_journal(sync="interval")
    reactor.wait(journal.append([note("before")]))
    disk.failing = {call}
    journal.note(note("fact"))
    reactor.wait(journal.close())
    assert actors(tmp_path)[0] == "before"
    check_numbers(tmp_path)


def test_a_sync_that_fails_later_takes_nothing_away_that_was_said(tmp_path, disk):
    clock = FakeClock()
    interval = writer(tmp_path, sync="interval", clock=clock)
    interval.commit([fact("said")])
    clock.advance(2)
    disk.failing = {"fdatasync"}
    with pytest.raises(OSError, match="Input/output"):
        interval.commit([make_entry([note("refused")], Deferred()), fact("fact")])
    assert actors(tmp_path) == ["said"]
    disk.failing = set()
    interval.commit([])
    assert actors(tmp_path) == ["said", "journal.degraded", "fact", "journal.restored"]
    check_numbers(tmp_path)


# Every call of the disk fails once, and the next ones with it.

ROUNDS = 5


def run_rounds(directory, disk, boot, sync, segment_bytes, state):
    """Some rounds of a fact and a change each; what the journal has to hold afterwards, and may hold."""
    clock = FakeClock()
    batches = writer(
        directory, sync=sync, clock=clock, segment_bytes=segment_bytes, last_seq=state["last_seq"], boot=boot
    )
    for number in range(ROUNDS):
        name = f"{boot}.{number}"
        state["expected"].append(f"fact {name}")
        asked = make_entry([note(f"asked {name}"), note(f"with {name}")], Deferred())
        with suppress(OSError):
            batches.commit([fact(f"fact {name}"), asked])
            state["expected"] += [f"asked {name}", f"with {name}"]
        clock.advance(0.7)
    while batches.degraded:
        with suppress(OSError):
            batches.commit([])
    with suppress(OSError):
        batches.close()


@pytest.mark.parametrize("segment_bytes", [1, 700, 1 << 20])
@pytest.mark.parametrize("sync", ["always", "interval", "off"])
def test_whatever_call_fails_the_journal_holds_what_was_said(tmp_path, disk, sync, segment_bytes):
    number, failed = 0, True
    while failed:
        for span in (1, 2, 4):
            directory = tmp_path / f"{number}.{span}"
            directory.mkdir()
            calls = disk.calls.total()
            disk.fail_at(range(number, number + span))
            state = {"last_seq": 0, "expected": []}
            run_rounds(directory, disk, "a", sync, segment_bytes, state)
            failed = disk.calls.total() - calls > number
            disk.fail_at([])
            state["last_seq"] = len(check_numbers(directory))
            run_rounds(directory, disk, "b", sync, segment_bytes, state)
            check_numbers(directory)
            names = [name for name in actors(directory) if not name.startswith("journal.")]
            assert names == state["expected"]
        number += 1
    assert number > ROUNDS


# A disk that is really full.


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_full_disk(small_disk, reactor):
    """No stand-in for the disk here."""
    registered = [
        stamp(ev.SessionOpened(session="s", routing_id="r")),
        stamp(ev.ServiceRegistered(session="s", service="tv")),
    ]
    journal = writer_module.FileJournal(writer(small_disk), reactor)
    reactor.wait(journal.append(registered))
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 512):
            pass
    # What is left of the last page of the segment takes a few records more.
    failures = []
    filling = [journal.append([note("x" * 500)]).addErrback(failures.append) for _ in range(20)]
    reactor.run_until(lambda: filling[-1].called)
    assert failures[-1].check(JournalUnavailable)
    assert "No space left on device" in failures[-1].getErrorMessage()
    journal.note(stamp(ev.ServiceUnregistered(session="s", service="tv")))
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
