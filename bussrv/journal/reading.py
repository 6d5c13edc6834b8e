"""Reading a journal from outside, while a server may be writing it: nothing is locked, nothing is changed.

Everything here streams: no more than one line is held at a time, or as many as were asked for. Every line is held
against the one before it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Raw, Struct

from bussrv.errors import JournalError
from bussrv.events import Event
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.numbers import out_of_order
from bussrv.journal.evidence.segments import judge_end, unreadable
from bussrv.journal.header import Header, Part
from bussrv.journal.record import Record
from bussrv.journal.segment import CORRUPT, first_seq, is_compressed, list_segments, open_segment
from bussrv.journal.versions import SCHEMA_VERSION

MAX_LINE = 1 << 24
"""No line is longer, in bytes: what is read into memory of a file that is no journal."""

Keep = Callable[[Record], bool]
Take = Callable[[Raw, int], None]


class Fold(Protocol):
    """The sum of the records of a journal: the registry. The reader of a journal provides it."""

    def apply(self, event: Event, time: int) -> None:
        """Take in a record; ``time`` is UTC microseconds."""

    def states(self) -> Sequence[bytes]:
        """Everything that was taken in, as JSON texts of bounded size."""

    def take(self, state: Raw, version: int = SCHEMA_VERSION) -> None:
        """Take in one of these texts.

        :param version: the schema version that it is written in.
        :raises ValueError: if it is none.
        """


class _NoFold:
    def apply(self, event: Event, time: int) -> None:
        """Forget it."""

    def states(self) -> Sequence[bytes]:
        """Nothing was kept."""
        return ()

    def take(self, state: Raw, version: int = SCHEMA_VERSION) -> None:
        """Forget it."""


NO_FOLD: Fold = _NoFold()
"""Null fold."""


class BadLine(JournalError):
    """A line of a segment is not what it should be.

    :ivar finding: what is wrong, and where.
    :ivar line: the number of the line, from 1.
    :ivar seq: the number of the record that should stand there, or of the first one of the segment.
    """

    def __init__(self, path: Path, line: int, seq: int, finding: Finding) -> None:
        super().__init__(f"{path}, line {line}: {finding.message}")
        self.path = path
        self.line = line
        self.seq = seq
        self.finding = finding


class Line(Struct, frozen=True):
    """A record, and how it stands in its segment: ``text`` has the newline."""

    text: bytes
    record: Record


class End(Struct, frozen=True):
    """The end of a segment: its number, the ``seq`` of the record to come, and the hash of the last line."""

    segment: int
    next_seq: int
    hash: str


@contextmanager
def _reading(path: Path, line: int, seq: int) -> Iterator[None]:
    """Say which file the system could not read, or which line could not be decompressed."""
    try:
        yield
    except CORRUPT as error:
        raise BadLine(path, line, seq, unreadable(first_seq(path), error)) from error
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror or error}") from error


class SegmentReader:
    """A segment that is read as far as it goes, and further when it has grown. Reading stops at the first finding.

    :param after: the end of the segment before it, if that is known.
    :param take: is given the snapshot that the segment begins with, part by part.
    :ivar header: its first line.
    :ivar next_seq: the number of the record that should come next.
    :raises JournalError: if it cannot be opened, or does not begin as it should.
    """

    def __init__(self, path: Path, after: End | None = None, take: Take | None = None) -> None:
        self.path = path
        self.next_seq = first_seq(path)
        self._judge = LineJudge(self.next_seq)
        with _reading(path, 1, self.next_seq):
            self._file = open_segment(path)
        try:
            self.header = self._header(after)
            self._snapshot(take)
        except BaseException:
            self._file.close()
            raise

    @property
    def line(self) -> int:
        """The number of the line that was read last."""
        return self._judge.lines

    def _header(self, after: End | None) -> Header:
        text = self._readline()
        header = self._pass(text) if text.endswith(b"\n") else None
        if not isinstance(header, Header):
            raise self._bad(self._judge.headless())
        if after is not None:
            self._stop_at(next(judge_end(header, after.segment, after.next_seq, after.hash), None))
        return header

    def _snapshot(self, take: Take | None) -> None:
        for _ in range(self.header.parts):
            text = self._readline()
            part = self._pass(text) if text.endswith(b"\n") else None
            if not isinstance(part, Part):
                raise self._bad(self._judge.incomplete())
            try:
                if take is not None:
                    take(part.state, part.version)
            except ValueError as error:
                raise self._bad(self._judge.bad(f"not a part of a snapshot: {error}")) from error

    def _pass(self, text: bytes) -> Header | Part | Record | None:
        found = self._judge.pass_line(text)
        self._stop_at(self._judge.first)
        return found

    def _stop_at(self, finding: Finding | None) -> None:
        if finding is not None:
            raise self._bad(finding)

    def _bad(self, finding: Finding) -> BadLine:
        return BadLine(self.path, finding.line or self.line, self.next_seq, finding)

    def read(self) -> Iterator[Line]:
        """The lines after those that were read before; an unfinished line waits for its end.

        :raises JournalError: names the segment and the line of the first one that is not the record to come.
        """
        while (text := self._readline()).endswith(b"\n"):
            yield Line(text, self._record(text))
        if text:
            if is_compressed(self.path):
                self._judge.pass_unreadable("the line has no end")
                self._stop_at(self._judge.first)
            with _reading(self.path, self.line + 1, self.next_seq):
                self._file.seek(-len(text), os.SEEK_CUR)

    def _record(self, text: bytes) -> Record:
        found = self._pass(text)
        if not isinstance(found, Record):
            raise self._bad(self._judge.incomplete())
        if found.seq != self.next_seq:
            raise self._bad(out_of_order(found.server, self.next_seq, found.seq, first_seq(self.path)))
        self.next_seq += 1
        return found

    @property
    def position(self) -> int:
        """How many bytes were read, an unfinished line not counted."""
        return self._file.tell()

    def end(self) -> End:
        """The end of what was read."""
        return End(self.header.segment, self.next_seq, self._judge.hash or "")

    def _readline(self) -> bytes:
        with _reading(self.path, self.line + 1, self.next_seq):
            text = self._file.readline(MAX_LINE)
        if len(text) == MAX_LINE:
            self._judge.pass_unreadable("the line is too long")
            self._stop_at(self._judge.first)
        return text

    def is_of(self, path: Path) -> bool:
        """Whether this reads what is at ``path`` now: a segment may be removed, and another one made in its place."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), path.stat())
        except OSError:
            return False

    def close(self) -> None:
        """Read no more."""
        self._file.close()


def segments(directory: Path) -> list[Path]:
    """The segments of a journal, oldest first.

    :raises JournalError: if the directory cannot be read, or holds none.
    """
    found = list_segments(directory)
    if not found:
        raise JournalError(f"{directory} holds no journal: there is no segment in it")
    return found


def read_header(path: Path) -> Header:
    """The header of a segment; what follows is not looked at.

    :raises BadLine: if it has none.
    :raises JournalError: if it cannot be read.
    """
    judge = LineJudge(first_seq(path))
    with _reading(path, 1, first_seq(path)), open_segment(path) as file:
        text = file.readline(MAX_LINE)
    found = judge.pass_line(text) if text.endswith(b"\n") else None
    if not isinstance(found, Header):
        raise BadLine(path, 1, first_seq(path), judge.first or judge.headless())
    return found


def read_segments(paths: Iterable[Path], take: Take | None = None) -> Iterator[Record]:
    """The records of segments that follow each other, in order.

    :param take: is given the snapshot that comes before the first record, part by part.
    :raises JournalError: names the segment and the line of the first record that is damaged or missing.
    """
    end = None
    for path in paths:
        reader = SegmentReader(path, end, take)
        take = None
        try:
            for line in reader.read():
                yield line.record
            end = reader.end()
        finally:
            reader.close()


def read_journal(directory: Path) -> Iterator[Record]:
    """Every record of a journal, in order.

    :raises JournalError: as :func:`read_segments`, or if there is no segment.
    """
    return read_segments(segments(directory))


def read_end(directory: Path, count: int, keep: Keep) -> tuple[list[Line], SegmentReader]:
    """The last ``count`` lines with records that are to ``keep``, and the reader of the last segment, to go on from.

    Segments are read from the last one back, and no more of them than it takes. Segments before a salvage are not read:
    they are known to be damaged.

    :raises JournalError: as :func:`read_journal`, for the segments that were looked at.
    """
    *older, last = segments(directory)
    before = reader = SegmentReader(last)
    found = deque((line for line in reader.read() if keep(line.record)), maxlen=count)
    while older and len(found) < count and before.header.salvaged is None:
        before = SegmentReader(older.pop())
        try:
            wanted = count - len(found)
            found.extendleft(reversed(deque((line for line in before.read() if keep(line.record)), maxlen=wanted)))
        finally:
            before.close()
    return list(found), reader


def follow(directory: Path, reader: SegmentReader, pause: Callable[[], None]) -> Iterator[Line]:
    """The lines that are written after those that ``reader`` has read, also in later segments; never ends.

    :param pause: is called, and is to wait, whenever there is nothing more for now.
    :raises JournalError: names the segment and the line of the first record that is damaged or missing.
    """
    while True:
        yield from reader.read()
        path = _successor(directory, reader)
        if path is None:
            pause()
            continue
        # The last of this segment may have been written after it was read, and before the next one began.
        yield from reader.read()
        successor = SegmentReader(path)
        if successor.next_seq > reader.next_seq:
            raise JournalError(f"{path} follows record {reader.next_seq - 1}; records are missing in between")
        # It may begin earlier than that: a batch that the disk did not take is cut off, and its numbers are used again.
        reader.close()
        reader = successor


def _successor(directory: Path, reader: SegmentReader) -> Path | None:
    for path in list_segments(directory):
        number, own = first_seq(path), first_seq(reader.path)
        if number > own or (number == own and not is_compressed(path) and not reader.is_of(path)):
            return path
    return None
