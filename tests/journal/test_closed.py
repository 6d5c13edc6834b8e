"""Putting a closed segment away: whatever happens on the way, it is there once for those who read."""

import gc
import gzip
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from stat import S_IMODE

import pytest

from bussrv.errors import JournalError
from bussrv.journal import closed
from bussrv.journal.batch import Rotation
from bussrv.journal.reading import segments as readable
from bussrv.journal.segment import COMPRESSED_SUFFIX, list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from bussrv.journal.writer import FileJournal
from tests.journal.kept import Kept, names, seals, segments
from tests.journal.support import PATIENCE, Disk, FakeReactor, actors, digest_of, note

COMPRESS = UpkeepPolicy(compress=True)


class Crash(BaseException):
    """The process is gone."""


class Doomed(Disk):
    """Looks at the journal before each call; at one of them it is gone, for good, or that call fails.

    :param at: the number of that call, from 0.
    """

    def __init__(self, directory, at, error=Crash):
        super().__init__()
        self.seen = []
        self.is_armed = False
        self.is_over = False
        self._directory = directory
        self._left = at
        self._error = error

    def _call(self, name):
        if not self.is_armed:
            return
        self.seen.append(actors(self._directory))
        if self._left == 0 or (self.is_over and self._error is Crash):
            self.is_over = True
            self._left -= 1
            raise self._error
        self._left -= 1


def two_segments(directory, **options):
    """A journal that ended in an orderly way."""
    kept = Kept(directory, rotation=Rotation(bytes=1), **options)
    kept.write("a", "b")
    kept.write("c")
    kept.end()


def test_a_compressed_segment_has_the_same_bytes_is_read_only(tmp_path):
    two_segments(tmp_path)
    path = list_segments(tmp_path)[0]
    text, before = path.read_bytes(), digest_of(path)
    copy = closed.compress(path, before[1])
    assert copy == path.with_name("00000000000000000001" + COMPRESSED_SUFFIX)
    assert gzip.decompress(copy.read_bytes()) == text
    assert digest_of(copy) == before
    assert S_IMODE(copy.stat().st_mode) == 0o440
    assert not path.exists()


def test_the_same_segment_gives_the_same_file(tmp_path):
    two_segments(tmp_path)
    path = list_segments(tmp_path)[0]
    text, (_, digest) = path.read_bytes(), digest_of(path)
    first = closed.compress(path, digest).read_bytes()
    path.write_bytes(text)
    assert closed.compress(path, digest).read_bytes() == first


@pytest.mark.parametrize("error", [Crash, OSError])
def test_at_no_moment_is_a_segment_lost_or_there_twice(tmp_path, error):
    number, is_over = 0, True
    while is_over:
        directory = tmp_path / f"{number}"
        directory.mkdir()
        two_segments(directory)
        disk = Doomed(directory, number, error)
        waiting = []
        Kept(directory, disk=disk, policy=COMPRESS, later=waiting.append)
        disk.is_armed = True
        try:
            for function in waiting:
                function()
        except Crash:
            pass
        is_over = disk.is_over
        assert disk.seen == [["a", "b", "c"]] * len(disk.seen)
        assert actors(directory) == ["a", "b", "c"]
        assert len(readable(directory)) == 2
        report = verify(directory)
        assert (report.faults, report.records) == ([], 3)
        again = Kept(directory, policy=COMPRESS)
        assert names(directory) == ["1.jsonl.gz", "3.jsonl.gz"]
        again.write("d")
        again.end()
        assert actors(directory) == ["a", "b", "c", "d"]
        assert verify(directory).faults == []
        number += 1
    assert number > 12


def test_a_segment_that_is_not_what_was_sealed_stays_as_it_is(tmp_path):
    two_segments(tmp_path)
    path = list_segments(tmp_path)[0]
    with pytest.raises(JournalError, match="it is left as it is"):
        closed.compress(path, "0" * 64)
    assert names(tmp_path) == ["1.jsonl", "3.jsonl"]


class Garbling(Disk):
    """Writes something else than it was given."""

    def __init__(self, garble):
        super().__init__()
        self._garble = garble

    def write(self, descriptor, data):
        super().write(descriptor, self._garble(data))


@pytest.mark.parametrize(
    "garble", [lambda data: data[:-1], lambda data: data + b"x", lambda data: bytes(len(data)), lambda data: data[::-1]]
)
def test_a_copy_that_cannot_be_read_back_does_not_take_its_place(tmp_path, garble):
    two_segments(tmp_path)
    path = list_segments(tmp_path)[0]
    with pytest.raises(JournalError, match="it is left as it is"):
        closed.compress(path, digest_of(path)[1], Garbling(garble))
    assert names(tmp_path) == ["1.jsonl", "3.jsonl"]
    assert actors(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("left", [".jsonl.gz", ".jsonl.gz.new"])
def test_a_copy_that_a_crash_left_is_made_anew(tmp_path, left):
    two_segments(tmp_path)
    (tmp_path / ("0" * 19 + "1" + left)).write_bytes(b"half of it")
    assert actors(tmp_path) == ["a", "b", "c"]
    kept = Kept(tmp_path)
    assert names(tmp_path) == ["1.jsonl", "3.jsonl"]
    kept.end()
    Kept(tmp_path, policy=COMPRESS)
    assert names(tmp_path) == ["1.jsonl.gz", "3.jsonl.gz"]
    assert actors(tmp_path) == ["a", "b", "c"]


def test_a_segment_that_is_gone_is_not_finished(tmp_path):
    waiting = []
    kept = Kept(tmp_path, rotation=Rotation(bytes=1), policy=COMPRESS, later=waiting.append)
    kept.write("a")
    for _ in range(2):
        for function in waiting:
            function()
    assert names(tmp_path) == ["1.jsonl.gz"]


def test_a_segment_is_removed_whether_it_is_compressed_or_not(tmp_path):
    two_segments(tmp_path)
    first, second = list_segments(tmp_path)
    closed.compress(first, digest_of(first)[1])
    closed.remove(tmp_path, 1)
    closed.remove(tmp_path, 3)
    closed.remove(tmp_path, 3)
    assert list_segments(tmp_path) == []
    assert closed.stored_size(second) == 0


def test_the_writer_does_not_wait_for_what_takes_long(tmp_path):
    """The background is busy for as long as the test wants."""
    is_free = threading.Event()
    background = ThreadPoolExecutor(1)
    background.submit(is_free.wait, PATIENCE)
    policy = UpkeepPolicy(compress=True, retain_bytes=3000)
    kept = Kept(tmp_path, rotation=Rotation(bytes=1000), policy=policy, later=background.submit)
    reactor = FakeReactor()
    journal = FileJournal(kept.writer, reactor, kept.upkeep)
    for number in range(20):
        reactor.wait(journal.append([note(f"{number}")]))
        kept.clock.advance(1)
    written = [record for record in actors(tmp_path) if record.isdecimal()]
    assert written == [str(number) for number in range(20)]
    assert not list(tmp_path.glob("*.gz"))
    is_free.set()
    reactor.wait(journal.close())
    background.shutdown()
    assert segments(tmp_path)[0] > 1
    assert seals(tmp_path)[-1][2]
    assert "19" in actors(tmp_path)
    assert verify(tmp_path).faults == []


@pytest.mark.dear
def test_a_copy_that_could_not_begin_ends_in_no_other_file(tmp_path):
    """Its descriptor may be that of a segment by then."""
    two_segments(tmp_path)
    path = list_segments(tmp_path)[0]
    disk = Disk()
    disk.failing = {"write"}
    errors = []
    try:
        closed.compress(path, digest_of(path)[1], disk)
    except OSError as error:
        errors.append(error)
    with (tmp_path / "other").open("wb") as other:
        assert errors
        errors.clear()
        gc.collect()
        assert os.fstat(other.fileno()).st_size == 0
