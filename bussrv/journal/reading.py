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
from bussrv.journal import record
from bussrv.journal.chain import line_hash
from bussrv.journal.header import Header, decode_header, decode_part
from bussrv.journal.record import Record
from bussrv.journal.segment import GARBLED, first_seq, is_compressed, list_segments, open_segment

MAX_LINE = 1 << 24
"""No line is longer, in bytes: what is read into memory of a file that is no journal."""

Keep = Callable[[Record], bool]
Take = Callable[[Raw], None]


class Fold(Protocol):
    """What the records of a journal add up to: the registry. Who reads a journal says what that is."""

    def apply(self, event: Event, time: int) -> None:
        """Take in a record; ``time`` is UTC microseconds."""

    def states(self) -> Sequence[bytes]:
        """Everything that was taken in, as JSON texts of bounded size."""

    def take(self, state: Raw) -> None:
        """Take in one of these texts.

        :raises ValueError: if it is none.
        """


class _NoFold:
    def apply(self, event: Event, time: int) -> None:
        """Forget it."""

    def states(self) -> Sequence[bytes]:
        """Nothing was kept."""
        return ()

    def take(self, state: Raw) -> None:
        """Forget it."""


NO_FOLD: Fold = _NoFold()
"""For who does not want to know."""


class BadLine(JournalError):
    """A line of a segment is not what it should be.

    :ivar line: its number, from 1.
    :ivar seq: the number of the record that should stand there, or of the first one of the segment.
    :ivar what: what is wrong with it, as a sentence without its end.
    """

    def __init__(self, path: Path, line: int, seq: int, what: str) -> None:
        super().__init__(f"{path}, line {line}: {what}")
        self.path = path
        self.line = line
        self.seq = seq
        self.what = what


class Line(Struct, frozen=True):
    """A record, and how it stands in its segment: ``text`` has the newline."""

    text: bytes
    record: Record


class End(Struct, frozen=True):
    """Where a segment ends, and the next one has to go on: the ``seq`` to come and the hash of the last line."""

    next_seq: int
    hash: str


def _unreadable(path: Path, line: int, seq: int, error: Exception) -> JournalError:
    """Says which file the system could not read, or which line could not be decompressed."""
    if isinstance(error, GARBLED):
        return BadLine(path, line, seq, f"it cannot be decompressed: {error}")
    return JournalError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, *GARBLED) as error:
        raise _unreadable(path, 1, first_seq(path), error) from error


class SegmentReader:
    """A segment that is read as far as it goes, and further when it has grown.

    :param after: where the segment before it ends, if that is known.
    :param take: is given the snapshot that the segment begins with, part by part.
    :ivar header: its first line.
    :ivar next_seq: the number of the record that should come next.
    :ivar line: the number of the line that was read last.
    :raises JournalError: if it cannot be opened, or does not begin as it should.
    """

    def __init__(self, path: Path, after: End | None = None, take: Take | None = None) -> None:
        self.path = path
        self.next_seq = first_seq(path)
        self.line = 0
        self._hash: str | None = None if after is None else after.hash
        with _reading(path):
            self._file = open_segment(path)
        try:
            self.header = self._header(after)
            self._snapshot(take)
        except BaseException:
            self._file.close()
            raise

    def _header(self, after: End | None) -> Header:
        text = self._whole_line()
        header = _decode_header(self.path, text)
        if header.salvaged is None:
            if after is not None and after.next_seq != self.next_seq:
                raise self._damage(
                    f"record {after.next_seq} should stand where record {self.next_seq} stands; "
                    "records are missing or repeated"
                )
            self._check_link(header.prev)
        self._hash = line_hash(text)
        return header

    def _snapshot(self, take: Take | None) -> None:
        for number in range(1, self.header.parts + 1):
            text = self._whole_line()
            try:
                part = decode_part(text)
                if take is not None:
                    take(part.state)
            except (JournalError, ValueError) as error:
                raise self._damage(str(error)) from error
            if (part.snapshot, part.part) != (self.header.segment, number):
                raise self._damage(f"it is part {part.part} of the snapshot of segment {part.snapshot}")
            self._check_link(part.prev)
            self._hash = line_hash(text)

    def read(self) -> Iterator[Line]:
        """What stands there behind what was read before; an unfinished line waits for its end.

        :raises JournalError: names the segment and the line of the first one that is not the record to come.
        """
        while (text := self._readline()).endswith(b"\n"):
            self.line += 1
            yield Line(text, self._decode(text))
        if text:
            if is_compressed(self.path):
                self.line += 1
                raise self._damage("it ends in the middle of a line")
            with _reading(self.path):
                self._file.seek(-len(text), os.SEEK_CUR)

    @property
    def position(self) -> int:
        """How many bytes were read, an unfinished line not counted."""
        return self._file.tell()

    def end(self) -> End:
        """Where what was read ends."""
        return End(self.next_seq, self._hash or "")

    def _whole_line(self) -> bytes:
        text = self._readline()
        self.line += 1
        if not text.endswith(b"\n"):
            raise self._damage("header and snapshot are not whole" if text else "it ends where a line should stand")
        return text

    def _readline(self) -> bytes:
        try:
            text = self._file.readline(MAX_LINE)
        except (OSError, *GARBLED) as error:
            raise _unreadable(self.path, self.line + 1, self.next_seq, error) from error
        if len(text) == MAX_LINE:
            self.line += 1
            raise self._damage("not a journal record: the line is too long")
        return text

    def _decode(self, text: bytes) -> Record:
        try:
            found = record.decode(text)
        except JournalError as error:
            raise self._damage(str(error)) from error
        if found.seq != self.next_seq:
            raise self._damage(
                f"record {self.next_seq} should stand where record {found.seq} stands; records are missing or repeated"
            )
        self._check_link(found.prev)
        self._hash = line_hash(text)
        self.next_seq += 1
        return found

    def _check_link(self, prev: str) -> None:
        if self._hash is not None and prev != self._hash:
            raise self._damage("it does not hold the hash of the line before it; that line, or this one, was changed")

    def _damage(self, what: str) -> BadLine:
        return BadLine(self.path, self.line, self.next_seq, what)

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
    with _reading(path), open_segment(path) as file:
        return _decode_header(path, file.readline(MAX_LINE))


def _decode_header(path: Path, text: bytes) -> Header:
    try:
        header = decode_header(text)
    except JournalError as error:
        raise BadLine(path, 1, first_seq(path), str(error)) from error
    if header.segment != first_seq(path):
        raise BadLine(path, 1, first_seq(path), f"the header is that of segment {header.segment}")
    return header


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

    Segments are looked at from the last one back, and no more of them than it takes. What a salvage left behind is not
    looked at: it is known to be damaged.

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
    """What is written behind what ``reader`` has read, in its segment and in those that follow; never ends.

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
