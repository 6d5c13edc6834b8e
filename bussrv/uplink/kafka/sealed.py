"""The sealed records of a journal, in order, read while the server writes the journal.

A record that is written may still be lost: if the disk refuses a batch, the server cuts it off and gives its numbers to
other records. A sealed record is durable and stays as it is. So nothing is given here before a seal covers it, and the
bytes up to the seal have the digest that the seal says. Every line is held against the line before it, too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

from msgspec import Struct
from msgspec.structs import replace

from bussrv.errors import JournalError
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.segments import judge_end, unreadable, why_unreadable
from bussrv.journal.manifest import Seal, last_seq
from bussrv.journal.reading import read_header, segments
from bussrv.journal.record import Record
from bussrv.journal.segment import CORRUPT, first_seq, list_segments, open_segment
from bussrv.uplink.seals import Seals

PAGE_RECORDS = 500
PAGE_BYTES = 512 << 10
"""A page ends when it has so many records or bytes."""

_BLOCK = 1 << 20


class Mark(Struct, frozen=True):
    """The last record that was sent, as it is known outside the journal.

    :ivar hash: the hash of its line.
    :ivar place: the place where it was found, for people.
    """

    seq: int
    hash: str
    boot: str
    place: str = ""


class SealedRecord(Struct, frozen=True):
    """A record that a seal covers.

    :ivar text: its line, without the end of the line.
    :ivar hash: the hash of the line.
    :ivar missing: the first and the last of the records that should come before this one, and are gone.
    """

    seq: int
    boot: str
    text: bytes
    hash: str
    missing: tuple[int, int] | None = None


class MissingRecords(JournalError):
    """Records that should come next are gone, or cannot be trusted.

    :ivar first, last: their numbers.
    """

    def __init__(self, directory: Path, first: int, last: int, why: str) -> None:
        what = f"record {first}" if first == last else f"records {first} to {last}"
        super().__init__(f"{directory}: {what} cannot be sent: {why}; --from-oldest goes on without them")
        self.first, self.last = first, last


class OtherJournal(JournalError):
    """The journal is not the one of which records were sent before."""


class SealedSegment:
    """A segment, read up to its last seal.

    :ivar fault: the reason for which it is read no further.
    :raises JournalError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = first_seq(path)
        self._judge = LineJudge(self.number)
        self._at = self._good = 0
        self._digest = sha256()
        self.fault: JournalError | None = None
        with _naming(path):
            self._file = open_segment(path)
            try:
                self._whole = open_segment(path, counts_lines=False)
            except BaseException:
                self._file.close()
                raise

    @property
    def next_seq(self) -> int:
        """The number of the record that should come next."""
        return self._judge.next_seq

    @property
    def hash(self) -> str | None:
        """The hash of the last line that was read."""
        return self._judge.hash

    def confirm(self, seal: Seal) -> None:
        """Let the records up to a seal be read, if the segment has the digest that the seal says.

        :raises JournalError: it has another one.
        """
        self._check()
        if seal.bytes <= self._good:
            return
        self._file, self._whole = _unbuffered(self._file, self._at), _unbuffered(self._whole, self._good)
        with _naming(self.path):
            while self._good < seal.bytes and (block := self._whole.read(min(_BLOCK, seal.bytes - self._good))):
                self._digest.update(block)
                self._good += len(block)
        if self._good < seal.bytes or self._digest.hexdigest() != seal.digest:
            self._stop(f"it is not what was sealed up to record {last_seq(seal)}")

    def records(self) -> Iterator[SealedRecord]:
        """The records after those that were read before, up to the last seal.

        :raises JournalError: a line is not what it should be.
        """
        self._check()
        judge = self._judge
        while self._at < self._good:
            with _naming(self.path):
                text = self._file.readline(MAX_LINE)
            self._at += len(text)
            found = judge.pass_line(text)
            if judge.wrong is not None or self._at > self._good or not text:
                wrong = judge.wrong
                self._stop(f"line {judge.lines}: {wrong.message if wrong else 'a seal ends within this line'}")
            if isinstance(found, Record):
                assert judge.hash is not None
                yield SealedRecord(found.seq, found.boot, text[:-1], judge.hash)

    def _stop(self, what: str) -> None:
        self.fault = JournalError(f"{self.path}: {what}")
        raise self.fault

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def close(self) -> None:
        """Read no more."""
        self._file.close()
        self._whole.close()


def _unbuffered(file: BinaryIO, offset: int) -> BinaryIO:
    """The same file, to be read anew from a place: what was buffered after a seal may have been written anew since.

    A compressed segment stays as it is, and is read on.
    """
    if not file.seekable():
        return file
    fresh = io.BufferedReader(cast("io.BufferedReader", file).detach())
    fresh.seek(offset)
    return cast("BinaryIO", fresh)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn errors of the system while a segment is read into sentences that name it."""
    try:
        yield
    except CORRUPT as error:
        raise JournalError(f"{path}: {unreadable(first_seq(path), why_unreadable(error)).message}") from error
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error


class SealedJournal:
    """The sealed records of a journal after a mark.

    It reads files, and blocks the thread. No more than a page is in memory.

    :param skips_missing: whether reading goes on after records that are gone or cannot be trusted.
    :ivar server: the id of the server that writes the journal.
    :ivar last_sealed: the number of the last sealed record that is known.
    :raises JournalError: there is no journal.
    """

    def __init__(self, directory: Path, *, skips_missing: bool = False) -> None:
        self._directory = directory
        self._skips_missing = skips_missing
        self._seals = Seals(directory)
        self._segment: SealedSegment | None = None
        self._next_seq = 1
        self._missing: tuple[int, int] | None = None
        self.last_sealed = 0
        self.server = read_header(segments(directory)[-1]).server

    def begin(self, mark: Mark | None) -> None:
        """Go on after a mark.

        :param mark: ``None``: begin with the oldest record.
        :raises OtherJournal: the journal does not have the record of the mark.
        :raises MissingRecords: records after the mark are gone.
        :raises JournalError: the journal cannot be read, or is damaged.
        """
        self.close()
        self._missing = None
        self._seals.look()
        paths = segments(self._directory)
        if mark is None:
            self._next_seq = first_seq(paths[0])
            self._open(paths[0])
            return
        self._next_seq = mark.seq + 1
        older = [path for path in paths if first_seq(path) <= mark.seq]
        if older:
            self._open(older[-1])
            self._pass_or_skip(mark)
        elif first_seq(paths[0]) > self._next_seq:
            self._leave_out(first_seq(paths[0]), "retention has removed them")
            self._open(paths[0])
        else:
            self._check_link(paths[0], mark)
            self._open(paths[0])

    def _pass_or_skip(self, mark: Mark) -> None:
        try:
            self._pass(mark)
        except OtherJournal:
            raise
        except JournalError as error:
            if not (self._skips_missing and self._go_on(str(error))):
                raise

    def _pass(self, mark: Mark) -> None:
        """Pass the records up to the mark, the last of which it has to be."""
        segment = self._segment
        assert segment is not None
        seal = self._seals.of(segment.number)
        if seal is None or last_seq(seal) < mark.seq:
            end = "has no seal" if seal is None else f"is sealed up to record {last_seq(seal)}"
            raise OtherJournal(
                f"{mark.place} has record {mark.seq} of server {self.server}, and {segment.path} {end}: this is "
                "another journal, or an older copy of it"
            )
        segment.confirm(seal)
        for record in segment.records():
            if record.seq == mark.seq:
                self._hold_against(mark, record.hash, record.boot)
                return

    def _check_link(self, path: Path, mark: Mark) -> None:
        """The oldest segment begins with the record after the mark: its header has the hash of the mark."""
        header = read_header(path)
        if header.salvaged is None:
            self._hold_against(mark, header.prev, header.boot)

    def _hold_against(self, mark: Mark, found: str, boot: str) -> None:
        if found != mark.hash:
            raise OtherJournal(
                f"record {mark.seq} of server {self.server} at {mark.place} (boot {mark.boot}, hash {mark.hash[:16]}…) "
                f"is not record {mark.seq} of {self._directory} (boot {boot}, hash {found[:16]}…): this is another "
                "journal"
            )

    def page(self) -> list[SealedRecord]:
        """The next sealed records; none if there are no more for now.

        :raises MissingRecords: records that should come next are gone.
        :raises JournalError: the journal cannot be read, or is damaged. A later call raises it again.
        """
        self._seals.look()
        newest = self._seals.of(self._seals.newest)
        self.last_sealed = self.last_sealed if newest is None else last_seq(newest)
        while True:
            try:
                found = self._take()
            except JournalError as error:
                if not (self._skips_missing and self._go_on(str(error))):
                    raise
                continue
            if found or not self._is_over() or not self._go_on("no seal covers them"):
                return found

    def _take(self) -> list[SealedRecord]:
        """Sealed records of this segment."""
        segment = self._segment
        assert segment is not None
        seal = self._seals.of(segment.number)
        if seal is not None:
            segment.confirm(seal)
        found: list[SealedRecord] = []
        size = 0
        try:
            for record in segment.records():
                if record.seq < self._next_seq:
                    continue
                self._next_seq = record.seq + 1
                found.append(record if self._missing is None else replace(record, missing=self._missing))
                self._missing = None
                size += len(record.text)
                if len(found) == PAGE_RECORDS or size >= PAGE_BYTES:
                    break
        except JournalError:
            # What was good before comes first.
            if not found:
                raise
        return found

    def _is_over(self) -> bool:
        """Whether no further record of this segment will be sealed."""
        segment = self._segment
        assert segment is not None
        seal = self._seals.of(segment.number)
        # A server seals segments that have ended before it seals later ones.
        return (seal is not None and seal.closed) or self._seals.newest > segment.number

    def _go_on(self, why: str) -> bool:
        """Go on with the next segment. :returns: whether there is one.

        :param why: the reason for which records before it are missing, if they are.
        """
        segment = self._segment
        assert segment is not None
        path = next((each for each in list_segments(self._directory) if first_seq(each) > segment.number), None)
        if path is None:
            return False
        header = read_header(path)
        if header.server != self.server:
            raise JournalError(f"{path} is of server {header.server}, and the segments before of {self.server}")
        if first_seq(path) > self._next_seq:
            self._leave_out(first_seq(path), why)
        elif segment.fault is None:
            for finding in judge_end(header, segment.number, segment.next_seq, segment.hash):
                raise JournalError(f"{path}: {finding.message}")
        self._open(path)
        return True

    def _leave_out(self, first: int, why: str) -> None:
        """Go on with the record ``first``, before which others are missing."""
        if not self._skips_missing:
            raise MissingRecords(self._directory, self._next_seq, first - 1, why)
        self._missing = (self._next_seq if self._missing is None else self._missing[0], first - 1)
        self._next_seq = first

    def _open(self, path: Path) -> None:
        self.close()
        self._segment = SealedSegment(path)

    def close(self) -> None:
        """Read no more."""
        if self._segment is not None:
            self._segment.close()
        self._segment = None
