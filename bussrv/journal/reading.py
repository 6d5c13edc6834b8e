"""Reading a journal from outside, while a server may be writing it: nothing is locked, nothing is changed.

Everything here streams: no more than one line is held at a time, or as many as were asked for. Every line is held
against the one before it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Raw, Struct

from bussrv.errors import JournalError
from bussrv.events import Event
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.segments import judge_end, unreadable, why_unreadable
from bussrv.journal.header import Header, Part
from bussrv.journal.record import Record
from bussrv.journal.segment import CORRUPT, first_seq, is_compressed, list_segments, open_segment
from bussrv.journal.versions import SCHEMA_VERSION

Keep = Callable[[Record], bool]
Take = Callable[[Raw, int], None]


class Fold(Protocol):
    """The sum of the records of a journal: the registry. The reader of a journal provides it."""

    def apply(self, event: Event, time: int) -> None:
        """Take in a record; ``time`` is UTC microseconds."""

    def apply_all(self, records: Iterable[Record]) -> None:
        """Take in records in a row."""

    def states(self) -> Sequence[bytes]:
        """Everything that was taken in, as JSON texts of bounded size."""

    def take(self, state: Raw, version: int = SCHEMA_VERSION) -> None:
        """Take in one of these texts.

        :param version: the schema version that it is written in.
        :raises ValueError: if it is none.
        """


class BadLine(JournalError):
    """A line of a segment is not what it should be."""

    def __init__(self, path: Path, line: int, finding: Finding) -> None:
        super().__init__(f"{path}, line {finding.line or line}: {finding.message}")


class Line(Struct, frozen=True):
    """A record, and how it stands in its segment: ``text`` has the newline."""

    text: bytes
    record: Record


def _unreadable(path: Path, line: int, error: Exception) -> JournalError:
    """Says which file the system could not read, or which line could not be decompressed."""
    if isinstance(error, CORRUPT):
        return BadLine(path, line, unreadable(first_seq(path), why_unreadable(error)))
    return JournalError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


class SegmentReader:
    """A segment that is read as far as it goes, and further when it has grown. Reading stops at the first finding.

    :param before: has read the segment before it.
    :param take: is given the snapshot that the segment begins with, part by part.
    :ivar header: its first line.
    :raises JournalError: if it cannot be opened, or does not begin with its header.
    """

    def __init__(self, path: Path, before: SegmentReader | None = None, take: Take | None = None) -> None:
        self.path = path
        self._take = take
        self._judge = LineJudge(first_seq(path))
        try:
            self._file = open_segment(path)
        except (OSError, *CORRUPT) as error:
            raise _unreadable(path, 1, error) from error
        try:
            self.header = self._header(before)
        except BaseException:
            self._file.close()
            raise

    @property
    def line(self) -> int:
        """The number of the line that was read last."""
        return self._judge.lines

    @property
    def next_seq(self) -> int:
        """The number of the record that should come next."""
        return self._judge.next_seq

    def _header(self, before: SegmentReader | None) -> Header:
        text = self._readline()
        header = self._judge.pass_line(text) if text.endswith(b"\n") else None
        self._stop_if_wrong()
        if not isinstance(header, Header):
            raise BadLine(self.path, 1, self._judge.unfinished())
        if before is not None:
            for finding in judge_end(header, before.header.segment, before.next_seq, before._judge.hash):
                raise BadLine(self.path, 1, finding)
        return header

    def _stop_if_wrong(self) -> None:
        if self._judge.wrong is not None:
            raise BadLine(self.path, self.line, self._judge.wrong)

    def read(self) -> Iterator[Line]:
        """The lines after those that were read before; an unfinished line waits for its end.

        :raises JournalError: names the segment and the line of the first one that is not the record to come.
        """
        judge = self._judge
        while (text := self._readline()).endswith(b"\n"):
            found = judge.pass_line(text)
            if judge.wrong is not None:
                raise BadLine(self.path, self.line, judge.wrong)
            if isinstance(found, Record):
                yield Line(text, found)
            elif isinstance(found, Part):
                self._take_in(found)
        if judge.parts < self.header.parts:
            raise BadLine(self.path, self.line, judge.unfinished())
        if text:
            if is_compressed(self.path):
                judge.pass_unreadable("the line has no end")
                self._stop_if_wrong()
            self._file.seek(-len(text), os.SEEK_CUR)

    def _take_in(self, part: Part) -> None:
        try:
            if self._take is not None:
                self._take(part.state, part.version)
        except ValueError as error:
            self._judge.reject(f"not a part of a snapshot: {error}")
            self._stop_if_wrong()

    def _readline(self) -> bytes:
        try:
            text = self._file.readline(MAX_LINE)
        except (OSError, *CORRUPT) as error:
            raise _unreadable(self.path, self.line + 1, error) from error
        if len(text) == MAX_LINE:
            self._judge.pass_unreadable("the line is too long")
            self._stop_if_wrong()
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
    with closing(SegmentReader(path)) as reader:
        return reader.header


def read_segments(paths: Iterable[Path], take: Take | None = None) -> Iterator[Record]:
    """The records of segments that follow each other, in order.

    :param take: is given the snapshot that comes before the first record, part by part.
    :raises JournalError: names the segment and the line of the first record that is damaged or missing.
    """
    reader = None
    for path in paths:
        with closing(SegmentReader(path, reader, take)) as reader:
            take = None
            for line in reader.read():
                yield line.record


def read_journal(directory: Path) -> Iterator[Record]:
    """Every record of a journal, in order.

    :raises JournalError: as :func:`read_segments`, or if there is no segment.
    """
    return read_segments(segments(directory))


class End(NamedTuple):
    """The last lines of a journal.

    :ivar reader: of the last segment, to go on from.
    :ivar salvage: the header before which nothing was read, although there is more: it begins a new chain.
    """

    lines: list[Line]
    reader: SegmentReader
    salvage: Header | None


def read_end(directory: Path, count: int, keep: Keep, since: int | None = None) -> End:
    """The last ``count`` lines with records that are to ``keep``.

    Segments are read from the last one back, and no more of them than it takes. Segments before a salvage are not read:
    they are known to be damaged.

    :param since: UTC microseconds. Segments before the one in which this time is are not read either.
    :raises JournalError: as :func:`read_journal`, for the segments that were looked at.
    """
    *older, last = segments(directory)
    before = reader = SegmentReader(last)
    found = deque((line for line in reader.read() if keep(line.record)), maxlen=count)
    while older and len(found) < count and before.header.salvaged is None and not _is_begun(before.header, since):
        with closing(SegmentReader(older.pop())) as before:
            wanted = count - len(found)
            found.extendleft(reversed(deque((line for line in before.read() if keep(line.record)), maxlen=wanted)))
    is_cut = older and len(found) < count and not _is_begun(before.header, since)
    return End(list(found), reader, before.header if is_cut else None)


def _is_begun(header: Header, moment: int | None) -> bool:
    """Whether a segment was begun before a moment, so that no earlier segment has a record after it."""
    return moment is not None and header.time <= moment


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
