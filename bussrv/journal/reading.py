"""Reading a journal from outside, while a server may be writing it: nothing is locked, nothing is changed.

Everything here streams: no more than one line is held at a time, or as many as were asked for.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.record import Record
from bussrv.journal.segment import decode_line, list_segments

MAX_LINE = 1 << 24
"""No record is longer, in bytes: what is read into memory of a file that is no journal."""

Keep = Callable[[Record], bool]


class Line(Struct, frozen=True):
    """A record, and how it stands in its segment: ``text`` has the newline."""

    text: bytes
    record: Record


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say which file the system could not read."""
    try:
        yield
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error


class SegmentReader:
    """A segment that is read as far as it goes, and further when it has grown.

    :param next_seq: the number of the record it should begin with, by default the one in its name.
    :ivar next_seq: the number of the record that should come next.
    :raises JournalError: if it cannot be opened.
    """

    def __init__(self, path: Path, next_seq: int | None = None) -> None:
        self.path = path
        self.next_seq = int(path.stem) if next_seq is None else next_seq
        self._number = 0
        with _reading(path):
            self._file = path.open("rb")

    def read(self) -> Iterator[Line]:
        """What stands there behind what was read before; an unfinished line waits for its end.

        :raises JournalError: names the segment and the line of the first one that is not the record to come.
        """
        while (text := self._readline()).endswith(b"\n"):
            self._number += 1
            yield Line(text, self._decode(text))
        with _reading(self.path):
            self._file.seek(-len(text), os.SEEK_CUR)

    def _readline(self) -> bytes:
        with _reading(self.path):
            text = self._file.readline(MAX_LINE)
        if len(text) == MAX_LINE:
            raise JournalError(f"{self.path}, line {self._number + 1}: not a journal record: the line is too long")
        return text

    def _decode(self, text: bytes) -> Record:
        found = decode_line(text, self.path, self._number)
        if found.seq != self.next_seq:
            raise JournalError(
                f"{self.path}, line {self._number}: record {self.next_seq} should stand where record {found.seq} "
                "stands; records are missing or repeated"
            )
        self.next_seq += 1
        return found

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


def read_journal(directory: Path) -> Iterator[Record]:
    """Every record of a journal, in order.

    :raises JournalError: names the segment and the line of the first record that is damaged or missing.
    """
    next_seq = None
    for path in segments(directory):
        reader = SegmentReader(path, next_seq)
        try:
            for line in reader.read():
                yield line.record
                next_seq = line.record.seq + 1
        finally:
            reader.close()


def read_end(directory: Path, count: int, keep: Keep) -> tuple[list[Line], SegmentReader]:
    """The last ``count`` lines with records that are to ``keep``, and the reader of the last segment, to go on from.

    Segments are looked at from the last one back, and no more of them than it takes.

    :raises JournalError: as :func:`read_journal`, for the segments that were looked at.
    """
    *older, last = segments(directory)
    reader = SegmentReader(last)
    found = deque((line for line in reader.read() if keep(line.record)), maxlen=count)
    while older and len(found) < count:
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
        if path.name > reader.path.name or (path.name == reader.path.name and not reader.is_of(path)):
            return path
    return None
