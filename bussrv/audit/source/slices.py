"""Reads a part of a segment, and checks that it follows what was read before. Spark's workers run this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from bussrv.audit.fold.lines import FoldLine, decode_line, of_today
from bussrv.audit.source.columns import table_of
from bussrv.audit.source.positions import REMEDY, Slice, unreadable
from bussrv.errors import JournalError
from bussrv.journal.bounded import lines_in
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.chain import line_hash
from bussrv.journal.header import Header, Part, decode_header, decode_part
from bussrv.journal.reading import read_header
from bussrv.journal.record import parse_time
from bussrv.journal.segment import CORRUPT, open_segment
from bussrv.journal.versions import FIRST_WITH_CLAIMS

ROWS, BYTES = 10_000, 8 << 20
"""At most so many rows are handed over at once, and those of about so many bytes of lines."""

_BLOCK = 1 << 20


def read_slice(part: Slice, *, fail_on_loss: bool) -> Iterator[pa.RecordBatch]:
    """The records of a part of a segment, as rows.

    :param fail_on_loss: whether to fail at records that are missing, damaged or were taken back. Otherwise they are
        left out.
    :raises JournalError: if the segment cannot be read.
    """
    some: list[FoldLine] = []
    size = 0
    for record, length in _SliceReader(part, fail_on_loss).records():
        some.append(record)
        size += length
        if len(some) >= ROWS or size >= BYTES:
            yield table_of(part.journal, some)
            some, size = [], 0
    if some:
        yield table_of(part.journal, some)


class _SliceReader:
    """Reads the lines of a part of a segment.

    :ivar _at: the byte after the last line, and ``_hash`` the hash of that; empty: not known.
    """

    def __init__(self, part: Slice, fail_on_loss: bool) -> None:
        self._part = part
        self._fail_on_loss = fail_on_loss
        self._at, self._hash = part.begin, part.hash

    def records(self) -> Iterator[tuple[FoldLine, int]]:
        """The records, and how long their lines are."""
        path = Path(self._part.path)
        try:
            with open_segment(path) as file:
                _pass(file, self._part.begin)
                yield from self._in(file)
        except (OSError, *CORRUPT) as error:
            raise unreadable(path, error) from error
        if self._part.end is not None and self._at < self._part.end:
            self._lose("the segment has lost its end, which was there before")
        if self._part.following is not None:
            self._check_next(read_header(Path(self._part.following)))

    def _in(self, file: BinaryIO) -> Iterator[tuple[FoldLine, int]]:
        for text in lines_in(file):
            is_unfinished = not text.endswith(b"\n") and len(text) < MAX_LINE
            if self._at == self._part.end or is_unfinished:
                return
            found = self._judged(text)
            self._at += len(text)
            self._hash = line_hash(text)
            if isinstance(found, FoldLine):
                yield found, len(text)

    def _judged(self, text: bytes) -> FoldLine | Header | Part | None:
        """The meaning of a line; ``None``: it is no line of a journal."""
        found = _decoded(text)
        if found is None:
            self._lose("this line is damaged")
        elif isinstance(found, Header):
            self._check_next(found)
        elif self._hash and found.prev != self._hash:
            self._lose("this line does not follow the line before it, which was changed, removed or taken back")
        return found

    def _check_next(self, header: Header) -> None:
        """Check that a header follows the last line, unless a new chain begins with it."""
        if header.salvaged is None and self._hash and header.prev != self._hash:
            self._lose(f"segment {header.segment} does not follow the line before it: records are missing")

    def _lose(self, what: str) -> None:
        if self._fail_on_loss:
            raise JournalError(
                f"{self._part.path}, at byte {self._at}: {what}; `bussrv journal verify` says more; {REMEDY}"
            )


def _pass(file: BinaryIO, size: int) -> None:
    """Pass the first bytes of a segment."""
    if file.seekable():
        file.seek(size)
        return
    while size and (block := file.read(min(size, _BLOCK))):
        size -= len(block)


def _decoded(text: bytes) -> FoldLine | Header | Part | None:
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        record: FoldLine = decode_line(text)
        parse_time(record.time)
        if record.v < FIRST_WITH_CLAIMS:
            of_today(record)
        return record
    for decode in (decode_header, decode_part):
        with suppress(JournalError):
            return decode(text)
    return None
