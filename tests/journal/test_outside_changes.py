"""Other programs change the journal of a running server: it says so at once, and nothing that anyone was told of is
missing afterwards."""

import errno
import os
import re
import shutil
from contextlib import suppress
from itertools import count

import pytest
from twisted.logger import LogLevel, capturedLogs

from bussrv import events as ev
from bussrv.errors import JournalError, JournalUnavailable
from bussrv.journal import batch as batch_module
from bussrv.journal import upkeep as upkeep_module
from bussrv.journal import verify as verify_module
from bussrv.journal.batch import BatchWriter
from bussrv.journal.files import PRIVATE, Files
from bussrv.journal.lock import JournalLock, Locked
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import read_header
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import Sealer
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.journal.verify import verify
from bussrv.journal.writer import FileJournal
from bussrv.registry.state.fold import RegistryFold
from bussrv.turns.clock import SystemClock
from tests.counters import KnownCounters
from tests.journal.kept import at_once
from tests.journal.support import FakeReactor, stamp
from tests.tables import check_each

CLOCK = SystemClock()
HOUR = 3_600_000_000


class Manifests(Files):
    """A disk on which the manifest cannot be written if it fails."""

    failing = False

    def open(self, path, mode=PRIVATE):
        if self.failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, mode)


class Running:
    """A server's journal, with its thread, in a directory that other programs change."""

    def __init__(self, directory):
        self.directory = directory
        self.reactor = FakeReactor()
        self.lock = JournalLock(directory)
        fold = RegistryFold()
        recovered = recover(directory, fold)
        manifest = read_manifest(directory / MANIFEST_NAME)
        self.files = Manifests()
        sealer = Sealer(directory, "hall", manifest=manifest, key=None, clock=CLOCK, files=self.files)
        self.writer = BatchWriter(
            directory, "hall", "boot", recovered=recovered, fold=fold, sync="always", clock=CLOCK,
            keep_lock=self.lock.renew, last_seal=lambda: sealer.last_hash,
        )  # fmt: skip
        self.upkeep = Upkeep(
            directory, sealer, manifest=manifest, unsealed=recovered.unsealed, policy=UpkeepPolicy(seal_interval=0.0),
            clock=CLOCK, later=at_once,
        )  # fmt: skip
        self.journal = FileJournal(self.writer, self.reactor, self.upkeep)
        self.counters = KnownCounters()
        self.journal.count_in(self.counters)
        self.told = {"tv"}
        self.change(ev.SessionOpened(session="s", routing_id="r"))
        self.register("tv")

    def change(self, event):
        self.reactor.wait(self.journal.append([stamp(event)]))

    def register(self, service):
        self.change(ev.ServiceRegistered(session="s", service=service))
        self.told.add(service)

    def register_until_it_works(self):
        """Nobody who is refused is told that it worked."""
        for number in count():
            with suppress(JournalUnavailable):
                self.register(f"after {number}")
                return

    def rotate(self):
        """End the first segment, and begin the next one."""
        (self.directory / "rotate").touch()
        self.change_until(lambda: not (self.directory / "rotate").exists())
        self.change_until(lambda: len(list_segments(self.directory)) > 1)

    def wait_for_new_chain(self):
        """A segment that says what was lost, without anybody asking for a change."""
        self.reactor.run_until(self.is_salvaged)
        self.change_until(lambda: not self.writer.degraded)

    def is_salvaged(self):
        if not self.directory.exists():
            return False
        for path in list_segments(self.directory):
            with suppress(JournalError):
                if read_header(path).salvaged:
                    return True
        return False

    def change_until(self, condition):
        """The writer thread works between two changes."""
        while not condition():
            with suppress(JournalUnavailable):
                self.change(ev.AuthSucceeded(actor="ann"))

    def close(self):
        self.reactor.wait(self.journal.close())
        self.lock.release()


def test_a_second_server_finds_the_first_without_a_lock_file(tmp_path):
    first = JournalLock(tmp_path)
    (tmp_path / "lock").unlink()
    with pytest.raises(Locked, match=f"^another server is using the journal directory {tmp_path}$"):
        JournalLock(tmp_path)
    # The refused one leaves nothing, and the first one makes the file again.
    assert not (tmp_path / "lock").exists()
    first.renew()
    assert (tmp_path / "lock").exists()
    first.release()
    JournalLock(tmp_path).release()


def test_a_released_lock_is_not_renewed(tmp_path):
    """The numbers of its descriptors belong to other files by then."""
    lock = JournalLock(tmp_path / "journal")
    lock.release()
    with (tmp_path / "one").open("wb") as one, (tmp_path / "two").open("wb") as two:
        lock.renew()
        assert [one.write(b"1"), two.write(b"2")] == [1, 1]
        one.flush()
        two.flush()
    JournalLock(tmp_path / "journal").release()


def test_a_server_that_lost_its_directory_writes_nothing_more(tmp_path, monkeypatch):
    for module in (batch_module, upkeep_module):
        monkeypatch.setattr(module, "PULSE", 0.01)
    directory = tmp_path / "journal"
    late = Running(directory)
    with capturedLogs() as logs:
        directory.rename(tmp_path / "swapped")
        other = Running(directory)
        late.reactor.run_until(lambda: late.writer.is_locked_out)
        with pytest.raises(JournalUnavailable, match="another server is using the journal directory"):
            late.change(ev.AuthSucceeded(actor="ann"))
        # Also when the other one has stopped: what it wrote is not what this one knows.
        other.close()
        before = {path.name: path.read_bytes() for path in directory.iterdir()}
        with pytest.raises(JournalUnavailable, match="another server is using the journal directory"):
            late.change(ev.AuthSucceeded(actor="ann"))
        late.close()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert "journal.locked-out" in [each["event"] for each in logs if each["log_level"] is LogLevel.critical]
    assert verify(directory).faults == []


def test_the_manifest_of_another_server_stays_where_it_is(tmp_path, monkeypatch):
    """Also if the upkeep looks at it before the writer looks at the lock, which it does once a second."""
    monkeypatch.setattr(batch_module, "PULSE", HOUR)
    monkeypatch.setattr(upkeep_module, "PULSE", 0.0)
    directory = tmp_path / "journal"
    late = Running(directory)
    late.change_until((directory / MANIFEST_NAME).exists)
    with capturedLogs() as logs:
        directory.rename(tmp_path / "swapped")
        other = Running(directory)
        other.change_until((directory / MANIFEST_NAME).exists)
        late.upkeep.do_due_work(late.writer)
        assert late.writer.is_locked_out
        late.close()
        other.close()
    assert not list(directory.glob("manifest.changed*"))
    events = {each["event"] for each in logs}
    assert "journal.locked-out" in events
    assert not {"journal.manifest-removed", "journal.upkeep-failed"} & events
    assert verify(directory).faults == []


@pytest.fixture
def fast(monkeypatch):
    """A second is short."""
    for module in (batch_module, upkeep_module):
        monkeypatch.setattr(module, "PULSE", 0.01)


def test_a_directory_moved_away_is_made_again_with_mode_and_lock(tmp_path, fast):
    directory = tmp_path / "journal"
    running = Running(directory)
    running.change_until((directory / MANIFEST_NAME).exists)
    directory.chmod(0o2770)
    with capturedLogs() as logs:
        directory.rename(tmp_path / "away")
        running.wait_for_new_chain()
        running.change_until((directory / MANIFEST_NAME).exists)
        with pytest.raises(Locked):
            JournalLock(directory)
    assert directory.stat().st_mode & 0o7777 == 0o2770
    said = [each for each in logs if each["event"] == "journal.directory-removed"]
    assert [(each["log_level"], each["directory"]) for each in said] == [(LogLevel.critical, directory)]
    running.close()


def test_a_directory_whose_parent_is_gone_is_waited_for(tmp_path, fast):
    """Nothing is said to be begun meanwhile, and what comes back is what was there."""
    parent = tmp_path / "volume"
    directory = parent / "journal"
    running = Running(directory)
    running.change_until((directory / MANIFEST_NAME).exists)
    with capturedLogs() as logs:
        # Not while the upkeep looks at what is there.
        with running.upkeep._working:
            parent.rename(tmp_path / "away")
        running.change_until(lambda: running.writer.is_failing)
        # The upkeep looks as well.
        until = CLOCK.mono() + 200_000
        running.reactor.run_until(lambda: CLOCK.mono() > until)
        (tmp_path / "away").rename(parent)
        running.change_until(lambda: not running.writer.degraded)
        running.close()
    assert running.counters["journal-changed"] == 1
    assert verify(directory).faults == []
    events = {each["event"]: each for each in logs}
    assert str(events["journal.failing"]["error"]) == (
        f"the journal directory {directory} was removed or moved away, and cannot be made again: "
        f"{parent}, which it was in, is gone as well"
    )
    assert not {"journal.manifest-removed", "journal.upkeep-failed", "journal.directory-removed"} & events.keys()
    assert not (directory / "manifest.changed").exists()


def test_a_manifest_put_back_before_another_was_begun_goes_on(tmp_path, fast):
    directory = tmp_path / "journal"
    running = Running(directory)
    running.rotate()
    sealed = read_manifest(directory / MANIFEST_NAME).seals[1]
    with capturedLogs() as logs:
        # Nothing can be sealed meanwhile.
        with running.upkeep._working:
            (directory / MANIFEST_NAME).rename(directory / "away")
            running.files.failing = True
        running.reactor.run_until(lambda: running.upkeep._is_failing)
        with running.upkeep._working:
            (directory / "away").rename(directory / MANIFEST_NAME)
            running.files.failing = False
        running.change_until(lambda: not running.upkeep._is_failing)
        running.close()
    assert [each["event"] for each in logs].count("journal.manifest-removed") == 1
    assert "journal.manifest-back" in [each["event"] for each in logs]
    assert not (directory / "manifest.changed").exists()
    manifest = read_manifest(directory / MANIFEST_NAME)
    assert manifest.findings == []
    assert manifest.seals[1] == sealed
    assert running.upkeep._closed.keys() == set(manifest.seals)


def active(directory):
    return list_segments(directory)[-1]


def truncate_to_nothing(directory):
    os.truncate(active(directory), 0)


def truncate_to_half(directory):
    os.truncate(active(directory), active(directory).stat().st_size // 2)


def move_away(directory):
    active(directory).rename(directory / "moved")


def link_and_remove(directory):
    os.link(active(directory), directory / "link")
    active(directory).unlink()


def remove(directory):
    active(directory).unlink()


def append(directory):
    with active(directory).open("ab") as file:
        file.write(b'{"v":4}\n')


def replace(directory):
    path = active(directory)
    shutil.copy2(path, directory / "copy")
    (directory / "copy").rename(path)


def swap_the_directory(directory):
    directory.rename(directory.with_name("swapped"))
    directory.mkdir()


def move_the_directory(directory):
    directory.rename(directory.with_name("away"))


def copy_the_directory(directory):
    directory.rename(directory.with_name("swapped"))
    shutil.copytree(directory.with_name("swapped"), directory)


def remove_manifest(directory):
    (directory / MANIFEST_NAME).unlink()


def truncate_manifest(directory):
    os.truncate(directory / MANIFEST_NAME, 0)


def halve_manifest(directory):
    os.truncate(directory / MANIFEST_NAME, (directory / MANIFEST_NAME).stat().st_size // 2)


def replace_manifest(directory):
    shutil.copy2(directory / MANIFEST_NAME, directory / "copy")
    (directory / "copy").rename(directory / MANIFEST_NAME)


def append_to_manifest(directory):
    with (directory / MANIFEST_NAME).open("ab") as file:
        file.write(b"{}\n")


def manifest_as_directory(directory):
    (directory / MANIFEST_NAME).unlink()
    (directory / MANIFEST_NAME).mkdir()


# What is done to the journal, and what `verify` says of it besides that a new chain begins.
KINDS = [
    (truncate_to_nothing, "in segment 1, line 1: it was cut to 0 of", "it was cut: "),
    (truncate_to_half, r"in segment 1, line \d: it was cut to \d+ of", "it was cut: "),
    (move_away, "it was removed or moved away", "the segment is missing, with the records 1 to "),
    (link_and_remove, "it was removed or moved away", "the segment is missing, with the records 1 to "),
    (remove, "it was removed or moved away", "the segment is missing, with the records 1 to "),
    (append, r"in segment 1, line \d: 8 bytes were added to it", "not a journal record"),
    (replace, "another file was put in its place", "and not as closed, though another one follows"),
    (swap_the_directory, "it was removed or moved away", "a new chain begins here"),
    (move_the_directory, "it was removed or moved away", "a new chain begins here"),
    (copy_the_directory, "another file was put in its place", "a new chain begins here"),
    (remove_manifest, "in the manifest, line 1: it was removed or moved away", "is not there, which segment"),
    (truncate_manifest, "in the manifest, line 1: it was cut to 0 of", "is not there, which segment"),
    (halve_manifest, r"in the manifest, line 1: it was cut to \d+ of", "is not there, which segment"),
    (replace_manifest, "in the manifest, line 1: another file was put in its place", "is not there, which segment"),
    (append_to_manifest, "in the manifest, line 1: 3 bytes were added to it", "is not there, which segment"),
    (manifest_as_directory, "in the manifest, line 1: another file was put in its place", "is not there, which segm"),
]


@pytest.mark.dear
@pytest.mark.parametrize("noticed", ["before a change", "after a change", "while nobody asks"])
def test_what_other_programs_do_is_said_and_takes_nothing_away(tmp_path, monkeypatch, noticed):
    for module in (batch_module, upkeep_module):
        monkeypatch.setattr(module, "PULSE", 0.01)
    # Nobody is about to seal anything when the journal is verified.
    monkeypatch.setattr(verify_module, "PATIENCE", 0.0)
    monkeypatch.setattr(batch_module, "CHECKED", HOUR if noticed == "after a change" else 0)

    def check(row):
        spoil, reason, missing = row
        directory = tmp_path / spoil.__name__ / "journal"
        running = Running(directory)
        # The second segment refers to a seal.
        if "manifest" in spoil.__name__:
            running.rotate()
        running.change_until((directory / MANIFEST_NAME).exists)
        with capturedLogs() as logs:
            # Between two seals: one that is being written would follow what was cut, and change its size.
            with running.upkeep._working:
                spoil(directory)
            if noticed != "while nobody asks" and "manifest" not in spoil.__name__:
                running.register_until_it_works()
            running.wait_for_new_chain()
            running.register_until_it_works()
            running.close()
        # A manifest that went with the directory may be missed later.
        assert running.counters["journal-changed"] in ((1, 2) if spoil.__name__.endswith("directory") else (1,))
        critical = [each for each in logs if each["log_level"] is LogLevel.critical]
        assert critical, "nothing critical is logged"
        text = b"".join(path.read_bytes() for path in list_segments(directory))
        assert b'"event":"journal.degraded"' in text
        assert b'"event":"journal.restored"' in text
        faults = "\n".join(each.message for each in verify(directory).faults)
        # Lines that follow a cut stand in the place of what was cut off, and are said to be no records.
        for pattern in (reason,) if noticed == "after a change" else (reason, missing):
            assert re.search(pattern, faults), faults
        fold = RegistryFold()
        recover(directory, fold)
        assert running.told <= fold.state.services.keys()
        again = Running(directory)
        again.close()

    check_each([(row[0].__name__, row) for row in KINDS], check)
