"""What a journal needs beside being written: when it is sealed, when segments end, and what a fault does to that."""

import errno
from contextlib import contextmanager
from shutil import rmtree
from stat import S_IMODE

import pytest
from twisted.logger import LogLevel, capturedLogs

from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation
from bussrv.journal.keys import generate, read_private
from bussrv.journal.manifest import MANIFEST_NAME, KeyEntry
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import MARKER
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from tests.journal.kept import Kept, entries, names, pruned, seals, segments
from tests.journal.support import Disk, FakeClock, actors, fact, replay


@pytest.fixture
def directory(tmp_path):
    """Of a journal; keys go beside it."""
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


@pytest.fixture
def key(tmp_path):
    generate(tmp_path / "key")
    return read_private(tmp_path / "key")


EACH = Rotation(bytes=1)
"""Each batch gets a segment of its own, which ends with the look behind it."""


@contextmanager
def complaints():
    """What is logged that should not be, as it fills."""
    said = []
    with capturedLogs() as logs:
        yield said
    said += [each for each in logs if each["log_level"] >= LogLevel.warn]


# When it is sealed.


def test_a_segment_is_sealed_when_its_first_records_are_in_it(directory):
    kept = Kept(directory)
    kept.write()
    assert seals(directory) == []
    kept.write("a", "b")
    kept.write("c")
    assert seals(directory) == [(1, 2, False)]


def test_it_is_sealed_again_at_the_interval_if_there_is_news(directory):
    kept = Kept(directory, policy=UpkeepPolicy(seal_interval=30.0))
    kept.write("a")
    kept.idle(30)
    kept.idle(30)
    assert seals(directory) == [(1, 1, False)]
    kept.write("b")
    kept.clock.advance(29)
    kept.write("c")
    assert seals(directory) == [(1, 1, False)]
    kept.idle(1)
    assert seals(directory) == [(1, 1, False), (1, 3, False)]


def test_what_is_due_is_looked_at_once_a_second(directory):
    kept = Kept(directory, policy=UpkeepPolicy(seal_interval=0.1))
    kept.write("a")
    for name in "bcd":
        kept.clock.advance(0.3)
        kept.write(name)
    assert seals(directory) == [(1, 1, False)]
    kept.idle(0.1)
    assert seals(directory) == [(1, 1, False), (1, 4, False)]


def test_a_large_segment_is_closed_and_the_next_names_its_seal(directory):
    kept = Kept(directory, rotation=Rotation(bytes=1500))
    for name in "abcdefgh":
        kept.write(name)
    first, second = segments(directory)
    assert seals(directory) == [(1, 1, False), (first, second - 1, True), (second, second, False)]
    kept.end()
    assert seals(directory)[-1] == (second, 8, True)
    assert verify(directory).faults == []


def test_a_segment_that_is_old_is_closed_though_nothing_comes(directory):
    kept = Kept(directory, rotation=Rotation(age=600.0))
    kept.write("a")
    kept.idle(599)
    assert seals(directory) == [(1, 1, False)]
    kept.idle(1)
    assert seals(directory) == [(1, 1, False), (1, 1, True)]
    kept.idle(600)
    assert (segments(directory), len(seals(directory))) == ([1], 2)


def test_a_marker_ends_the_segment_and_goes_when_that_is_sealed(directory):
    kept = Kept(directory)
    kept.write("a", "b")
    (directory / MARKER).touch()
    kept.disk.failing = {"open"}
    kept.idle(1)
    assert (directory / MARKER).exists()
    assert seals(directory) == [(1, 2, False)]
    kept.disk.failing = set()
    kept.idle(1)
    assert not (directory / MARKER).exists()
    assert seals(directory) == [(1, 2, False), (1, 2, True)]
    kept.write("c")
    assert segments(directory) == [1, 3]


def test_a_marker_in_a_journal_without_records_is_removed(directory):
    kept = Kept(directory)
    (directory / MARKER).touch()
    kept.write()
    assert not (directory / MARKER).exists()
    assert segments(directory) == []


def test_a_marker_that_comes_during_a_look_is_for_the_next_one(directory):
    class Meddler(Disk):
        def open(self, path, *args):
            (directory / MARKER).touch()
            return super().open(path, *args)

    kept = Kept(directory, disk=Meddler())
    kept.write("a")
    assert seals(directory) == [(1, 1, False)]
    assert (directory / MARKER).exists()
    kept.idle(1)
    assert seals(directory) == [(1, 1, False), (1, 1, True)]


def test_at_the_end_everything_is_sealed(directory):
    kept = Kept(directory, rotation=EACH)
    kept.write("a")
    kept.writer.commit([])
    kept.write("b")
    kept.end()
    assert {(1, 1, True), (2, 2, True)} <= set(seals(directory))
    report = verify(directory)
    assert (report.faults, report.sealed_seq, report.last_seq) == ([], 2, 2)


def test_what_a_crash_left_unsealed_is_sealed_by_the_next_boot(directory):
    crashed = Kept(directory, rotation=EACH)
    crashed.disk.failing = {"open"}
    crashed.write("a")
    crashed.write("b")
    assert seals(directory) == []
    again = Kept(directory)
    again.write("c")
    assert seals(directory) == [(1, 1, True), (2, 2, True), (3, 3, False)]


def test_after_being_stopped_it_touches_nothing(directory):
    kept = Kept(directory, rotation=EACH)
    kept.upkeep.stop()
    kept.write("a")
    kept.end()
    assert not (directory / MANIFEST_NAME).exists()


# What is sealed is on the disk.


class Order(Disk):
    """Remembers in which order a segment was synced and the manifest written."""

    def __init__(self):
        super().__init__()
        self.order = []

    def open(self, path, *args):
        self.order.append(path.name)
        return super().open(path, *args)

    def sync(self, descriptor):
        super().sync(descriptor)
        self.order.append("sync")


@pytest.mark.parametrize("sync", ["interval", "off"])
def test_what_is_sealed_is_synced_before(directory, sync):
    kept = Kept(directory, disk=Order(), sync=sync)
    kept.writer.commit([fact("a")])
    kept.disk.order.clear()
    kept.upkeep.do_due_work(kept.writer)
    assert kept.disk.order == ["sync", MANIFEST_NAME, "sync"]
    kept.writer.commit([fact("b")])
    kept.writer.rotate()
    assert kept.disk.order[3:] == ["sync"]
    kept.upkeep.do_due_work(kept.writer)
    assert kept.disk.order[4:] == ["sync", MANIFEST_NAME, "sync"]
    assert seals(directory) == [(1, 1, False), (1, 2, True)]


@pytest.mark.parametrize("sync", ["interval", "off"])
def test_what_cannot_be_synced_is_not_sealed(directory, sync):
    kept = Kept(directory, disk=Order(), sync=sync)
    kept.writer.commit([fact("a")])
    kept.disk.failing = {"sync"}
    with complaints() as said:
        kept.upkeep.do_due_work(kept.writer)
    assert MANIFEST_NAME not in kept.disk.order
    assert len(said) == 1


@pytest.mark.parametrize("sync", ["interval", "off"])
def test_what_was_unsynced_at_its_end_is_synced_before_its_seal(directory, sync):
    kept = Kept(directory, disk=Order(), sync=sync)
    kept.writer.commit([fact("a")])
    (directory / MARKER).touch()
    kept.disk.failing = {"sync"}
    kept.disk.order.clear()
    with complaints():
        kept.upkeep.do_due_work(kept.writer)
        kept.idle(1)
    assert kept.disk.order == []
    kept.disk.failing = set()
    kept.idle(1)
    assert kept.disk.order == ["sync", MANIFEST_NAME, "sync"]
    assert seals(directory) == [(1, 1, True)]
    assert not (directory / MARKER).exists()


def test_what_the_last_boot_did_not_sync_is_synced_before_a_seal(directory):
    crashed = Kept(directory, sync="off")
    crashed.writer.commit([fact("a")])
    kept = Kept(directory, disk=Order())
    kept.disk.order.clear()
    kept.upkeep.do_due_work(kept.writer)
    assert kept.disk.order == ["sync", MANIFEST_NAME, "sync"]
    assert seals(directory) == [(1, 1, True)]


def test_a_segment_that_is_gone_before_it_is_sealed_is_missed(directory):
    kept = Kept(directory)
    kept.write("a")
    kept.writer.rotate()
    list_segments(directory)[0].unlink()
    with complaints() as said:
        kept.idle(1)
    assert [each["event"] for each in said] == ["journal.segment-changed"]
    assert seals(directory) == [(1, 1, False)]
    kept.end()
    assert recover(directory, None).stopped is False
    assert [fault.message for fault in verify(directory).faults] != []


# A manifest that cannot be written.


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("call", ["open", "write", "sync"])
def test_an_unwritable_manifest_is_told_of_once_and_tried_again(directory, number, call):
    class Broken(Disk):
        """Only the manifest cannot be written."""

        manifest = None

        def open(self, path, *args):
            if call == "open":
                self._call("open")
            self.manifest = super(Disk, self).open(path, *args)
            return self.manifest

        def close(self, descriptor):
            self.manifest = None
            super().close(descriptor)

        def write(self, descriptor, data):
            (super() if descriptor == self.manifest else super(Disk, self)).write(descriptor, data)

        def sync(self, descriptor):
            if descriptor == self.manifest:
                super().sync(descriptor)

    kept = Kept(directory, disk=Broken(), rotation=EACH)
    kept.disk.failing, kept.disk.errno = {call}, number
    with complaints() as said:
        for name in "abcdef":
            kept.write(name)
            kept.clock.advance(0.7)
    assert len(said) == 1
    assert seals(directory) == []
    assert actors(directory) == list("abcdef")
    kept.disk.failing = set()
    with complaints() as said:
        kept.idle(1)
        kept.end()
    assert said == []
    assert [each[2] for each in seals(directory)] == [True] * 6
    assert verify(directory).faults == []
    # The next one is said again.
    again = Kept(directory, disk=Broken())
    again.disk.failing = {call}
    with complaints() as said:
        again.write("g")
        again.idle(1)
    assert len(said) == 1


def test_an_error_that_nobody_thought_of_is_treated_alike(directory, monkeypatch):
    kept = Kept(directory)
    with monkeypatch.context() as patch, complaints() as said:
        patch.setattr(kept.sealer, "seal", lambda *_, **__: 1 / 0)
        kept.write("a")
        kept.idle(1)
    assert len(said) == 1
    kept.idle(1)
    assert seals(directory) == [(1, 1, False)]


def test_a_removed_manifest_is_begun_anew_for_what_is_there(directory, key):
    kept = Kept(directory, key=key, rotation=Rotation(age=60.0), policy=UpkeepPolicy(retain_age=60.0))
    kept.write("a")
    kept.idle(60)
    kept.write("b")
    kept.writer.rotate()
    (directory / MANIFEST_NAME).unlink()
    with complaints() as said:
        kept.write("c")
        kept.idle(100)
    assert [each["log_level"] for each in said] == [LogLevel.critical]
    assert len(entries(directory, KeyEntry)) == 1
    # Later records begin a new chain.
    assert seals(directory) == [(2, 2, True), (3, 3, True), (4, 5, False)]
    # The first one is not sealed any more, and so it stays.
    assert (pruned(directory), segments(directory)) == ([], [1, 2, 3, 4])


def test_a_directory_that_is_removed_is_not_vouched_for(directory):
    kept = Kept(directory, rotation=EACH)
    kept.write("a")
    kept.writer.rotate()
    rmtree(directory)
    with complaints() as said:
        kept.idle(1)
        kept.idle(1)
    # The writer says it.
    assert said == []
    directory.mkdir()
    kept.write("b")
    kept.idle(1)
    kept.end()
    assert seals(directory) == [(2, 2, True), (3, 4, True)]


# Who may do what with it, and what it is kept with.


def test_what_is_closed_may_only_be_read(directory):
    kept = Kept(directory)
    kept.write("a")
    kept.writer.rotate()
    kept.write("b")
    closed, active = (S_IMODE(path.stat().st_mode) for path in list_segments(directory))
    assert (closed, active & 0o200) == (0o440, 0o200)
    kept.end()
    assert {S_IMODE(path.stat().st_mode) for path in list_segments(directory)} == {0o440}


def test_a_mode_that_cannot_be_set_is_no_reason_not_to_go_on(directory):
    kept = Kept(directory, rotation=EACH, policy=UpkeepPolicy(compress=True))
    kept.disk.failing = {"set_mode"}
    with complaints() as said:
        kept.write("a")
    assert len(said) == 1
    assert names(directory) == ["1.jsonl"]
    kept.disk.failing = set()
    kept.write("b")
    kept.end()
    Kept(directory, policy=UpkeepPolicy(compress=True))
    assert names(directory) == ["1.jsonl.gz", "2.jsonl.gz"]


def test_compression_that_is_switched_on_later_is_made_up_for(directory):
    for _ in range(2):
        kept = Kept(directory, rotation=EACH)
        kept.write("a")
        kept.end()
    kept = Kept(directory, policy=UpkeepPolicy(compress=True))
    kept.write("b")
    assert names(directory) == ["1.jsonl.gz", "2.jsonl.gz", "3.jsonl"]
    kept.end()
    # What takes long is not done when a server stops, but when it starts again.
    assert names(directory)[-1] == "3.jsonl"
    assert actors(directory) == ["a", "a", "b"]
    assert verify(directory).faults == []


def test_a_first_key_that_comes_later_signs_only_what_follows(directory, tmp_path):
    kept = Kept(directory)
    kept.write("a")
    kept.end()
    public = generate(tmp_path / ("key"))
    key = read_private(tmp_path / ("key"))
    kept = Kept(directory, key=key)
    kept.write("b")
    kept.end()
    signed = [(type(entry.body).__name__, entry.key) for entry in read_manifest(directory / MANIFEST_NAME).entries]
    mark = public.fingerprint
    assert signed == [("Seal", None), ("Seal", None), ("KeyEntry", mark), ("Seal", mark), ("Seal", mark)]
    report = verify(directory, public)
    assert (report.faults, report.is_trusted) == ([], True)


def test_a_journal_is_not_opened_without_its_key_or_with_another(directory, tmp_path):
    for name in ("key", "other"):
        generate(tmp_path / (name))
    kept = Kept(directory, key=read_private(tmp_path / ("key")))
    kept.write("a")
    kept.end()
    before = (directory / MANIFEST_NAME).read_bytes()
    for key in (None, read_private(tmp_path / ("other"))):
        with pytest.raises(JournalError, match="so it cannot go on with"):
            Kept(directory, key=key)
    assert (directory / MANIFEST_NAME).read_bytes() == before
    assert replay(directory) is not None


def test_a_clock_before_1970_writes_what_the_next_start_reads(directory):
    kept = Kept(directory, clock=FakeClock(utc=-1_000_001))
    kept.write("a")
    kept.end()
    assert seals(directory) == [(1, 1, False), (1, 1, True)]
    assert verify(directory).faults == []
    assert recover(directory, None).next_seq == 2
