"""The lines of records after one of them, read a page at a time while the server writes the journal.

For programs that send records on as they are written. The chain of hashes is not checked here: see
:mod:`bussrv.journal.reading`. A page takes little time, whatever the size of the journal: records before the wanted one
are passed a block at a time, of which only the last line is decoded.

A line is the next record of its segment, whatever a damaged line says of itself. Only if the line after it agrees,
lines between are missing.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.bounds import MAX_LINE, TooLarge
from bussrv.journal.segment import CORRUPT, first_seq, is_compressed, list_segments, open_segment

PAGE = 64 << 10
"""A page ends when it has so many bytes."""

BLOCK = 64 << 10


class RecordLine(NamedTuple):
    """A record as it is written.

    :ivar event: the name of its event.
    :ivar text: the line, without its end.
    """

    seq: int
    event: str
    text: bytes


class _Head(Struct):
    """Of a record; header and snapshot of a segment have neither."""

    seq: int = 0
    event: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode


_is_event = re.compile("[a-z][a-z.-]*").fullmatch


def _head(text: bytes) -> _Head | None:
    """The head of a line; ``None``: the line is damaged. A sound one can be put into a stream of events as it is."""
    try:
        head = _decode_head(text)
        text.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if b"\r" in text or (head.seq and not _is_event(head.event)) else head


class LinesAfter:
    """The lines of the records after one of them, in order.

    Records that are not there any more are left out, and so are those that cannot be read: a damaged line, and the rest
    of a segment that cannot be read or decompressed.

    :ivar seq: the number of the last record that was read.
    """

    def __init__(self, directory: Path, seq: int) -> None:
        self.seq = seq
        self._directory = directory
        self._path: Path | None = None
        self._first = self._at = 0  # the first record of the segment; the last line that was passed
        self._file: BinaryIO | None = None
        self._rest = b""
        self._fault: Exception | None = None

    def page(self, until: int) -> list[RecordLine]:
        """The next lines, none after the record ``until``; no line if there is no further record up to that.

        It reads files, and blocks the thread.

        :raises JournalError: no further record up to that can be read.
        """
        try:
            found = self._page(until)
            if not found and self.seq < until:
                # The segment may be another one by now, as after its compression.
                self.close()
                found = self._page(until)
        except OSError as error:
            raise self._unreadable(error) from error
        if self._fault is not None and not found:
            raise self._unreadable(self._fault) from self._fault
        return found

    def _unreadable(self, error: Exception) -> JournalError:
        return JournalError(f"the records after {self.seq} cannot be read: {error}")

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()
        self._file, self._rest = None, b""

    def _page(self, until: int) -> list[RecordLine]:
        found: list[RecordLine] = []
        self._fault = None
        is_over = False
        while not is_over and self.seq < until and sum(len(each.text) for each in found) < PAGE:
            text = self._next_lines()
            if not text:
                break
            is_over = not self._pass(text) and self._take(text.split(b"\n"), until, found)
        self._put_back([])
        return found

    def _pass(self, text: bytes) -> bool:
        """Pass a block of which all records were wanted before. :returns: whether it is certainly one."""
        last = _head(text[text.rfind(b"\n") + 1 :])
        number = self._at + 1 + text.count(b"\n")
        if self._at < self._first or last is None or last.seq != number or number > self.seq:
            return False
        self._at = number
        return True

    def _take(self, lines: list[bytes], until: int, found: list[RecordLine]) -> bool:
        """Take the wanted records of some lines. :returns: whether those after ``until`` have come."""
        for index, (head, following) in enumerate(pairwise([*map(_head, lines), None])):
            if head is not None and not (head.seq or head.event) and self._at < self._first:
                continue  # the header of the segment, or its snapshot
            number = self._number(head, following)
            if number > until:
                self._put_back(lines[index:])
                return True
            self._at = number
            if number > self.seq and head is not None and head.seq == number:
                self.seq = number
                found.append(RecordLine(number, head.event, lines[index]))
            elif number > self.seq:
                self._fault = JournalError("a line is damaged")
        return False

    def _number(self, head: _Head | None, following: _Head | None) -> int:
        """The number of the record in a line."""
        expected = self._at + 1
        if head is None or following is None or head.seq < expected:
            return expected
        return head.seq if following.seq == head.seq + 1 else expected

    def _next_lines(self) -> bytes:
        """Further complete lines, of this segment or the next one; empty: there are none yet."""
        if self._file is None and not self._open():
            return b""
        lines = self._block()
        while not lines:
            later = self._later()
            if later is None:
                break
            # The last of this segment may have been written after it was read, and before the next one began.
            lines = self._block()
            if not lines:
                self._begin(later)
                lines = self._block()
        return lines

    def _block(self) -> bytes:
        """Complete lines without the last end; none at the end of the segment, or if the rest of it cannot be read."""
        try:
            return self._readable()
        except (OSError, *CORRUPT) as error:
            self._fault = error
            return b""

    def _readable(self) -> bytes:
        """As :meth:`_block`. An unfinished line waits for its end."""
        while self._file is not None:
            block = self._file.read(BLOCK)
            text = self._rest + block
            complete, newline, rest = text.rpartition(b"\n")
            if newline:
                self._rest = rest
                return complete
            self._rest = text
            if not block:
                return b""
            if len(text) > MAX_LINE:
                raise TooLarge(f"a line has more than {MAX_LINE} bytes, which no server writes")
        return b""

    def _put_back(self, lines: list[bytes]) -> None:
        """Read these lines again later: what is not durable yet may be written anew, as another line."""
        text = b"".join(line + b"\n" for line in lines) + self._rest
        self._rest = b""
        if self._path is not None and is_compressed(self._path):
            self._rest = text
        elif self._file is not None:
            self._file.seek(-len(text), 1)

    def _open(self) -> bool:
        """Open the segment that the next record is in, or else the first one after it."""
        paths = list_segments(self._directory)
        before = [path for path in paths if first_seq(path) <= self.seq + 1]
        if paths:
            self._begin(before[-1] if before else paths[0])
        return bool(paths)

    def _later(self) -> Path | None:
        """The segment after the one that is read."""
        own = -1 if self._path is None else first_seq(self._path)
        return next((path for path in list_segments(self._directory) if first_seq(path) > own), None)

    def _begin(self, path: Path) -> None:
        self.close()
        self._path = path
        self._first = first_seq(path)
        self._at = self._first - 1
        try:
            self._file = open_segment(path)
        except (OSError, *CORRUPT) as error:
            self._fault = error
