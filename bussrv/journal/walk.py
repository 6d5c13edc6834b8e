"""Through one segment, line by line, past whatever is wrong with it: what was changed, dropped, put in or moved.

A line is vouched for by the one behind it, which holds its hash. So when two lines do not fit, the first one was
changed, unless the second one does not fit the third either: then it was the second.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.chain import line_hash
from bussrv.journal.header import Header, Part, decode_header, decode_part
from bussrv.journal.reading import MAX_LINE
from bussrv.journal.record import Record, decode
from bussrv.journal.segment import Extent, first_seq, is_compressed, open_segment


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is not as it was written.

    :ivar path: the name of the file; ``segment`` is the number of the segment, if it is one.
    :ivar line: the number of the line, from 1.
    :ivar seq: the first record that it is about.
    :ivar message: what is wrong, as a sentence without its end.
    """

    path: str
    message: str
    segment: int | None = None
    line: int | None = None
    seq: int | None = None


class Walk(Struct, kw_only=True):
    """What a segment turned out to be.

    :ivar header: its first line, if it is one.
    :ivar extent: how far its whole lines go; ``bytes`` and ``digest`` are the same.
    :ivar size: its size, an unfinished last line counted.
    :ivar next_seq: the number behind that of its last record.
    :ivar last_hash: the hash of its last whole line.
    """

    path: Path
    number: int
    faults: list[Fault]
    header: Header | None
    extent: Extent
    size: int
    next_seq: int
    last_hash: str

    @property
    def records(self) -> int:
        """How many records it has."""
        return self.extent.records

    @property
    def bytes(self) -> int:
        """How many bytes its whole lines have."""
        return self.extent.bytes

    @property
    def digest(self) -> str:
        """The SHA-256 of these."""
        return self.extent.digest


def walk(path: Path) -> Walk:
    """Go through a segment.

    :raises OSError, EOFError: if it cannot be read.
    """
    walker = _Walker(path)
    with open_segment(path) as file:
        while text := file.readline(MAX_LINE):
            walker.pass_line(text)
    return walker.end()


class _Place(Struct, frozen=True):
    """A line, to be named in a fault; ``seq`` if it is a record."""

    line: int
    seq: int | None

    def __str__(self) -> str:
        return f"line {self.line}" if self.seq is None else f"record {self.seq}"


class _Walker:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = first_seq(path)
        self._faults: list[Fault] = []
        self._header: Header | None = None
        self._parts = 0
        self._digest = sha256()
        self._bytes = 0
        self._torn = 0
        self._here = _Place(0, None)
        self._before = _Place(0, None)
        self._hash: str | None = None
        self._last_hash = ""
        self._doubt: tuple[_Place, _Place] | None = None
        self._seq = self._number - 1
        self._records = 0
        self._first: Record | None = None
        self._last: Record | None = None

    def pass_line(self, text: bytes) -> None:
        self._before, self._here = self._here, _Place(self._here.line + 1, None)
        if not text.endswith(b"\n"):
            self._torn = len(text)
            if is_compressed(self._path) or len(text) == MAX_LINE:
                self._fault("it is not a whole line")
            return
        self._digest.update(text)
        self._bytes += len(text)
        try:
            self._check(self._decode(text))
        except JournalError as error:
            self._bad_line(str(error))
        else:
            self._hash = line_hash(text)
        self._last_hash = line_hash(text)

    def end(self) -> Walk:
        """What it came to."""
        if self._doubt is not None:
            first, second = self._doubt
            self._fault(f"it was changed, or the hash of it in {second}", first)
        if self._here.line == 0:
            self._fault("it is empty")
        first_record, last = self._first, self._last
        extent = Extent(
            segment=self._number,
            bytes=self._bytes,
            digest=self._digest.hexdigest(),
            records=self._records,
            first_seq=None if first_record is None else first_record.seq,
            last_seq=None if last is None else last.seq,
            first_time=None if first_record is None else first_record.time,
            last_time=None if last is None else last.time,
        )
        return Walk(
            path=self._path,
            number=self._number,
            faults=self._faults,
            header=self._header,
            extent=extent,
            size=self._bytes + self._torn,
            next_seq=self._seq + 1,
            last_hash=self._last_hash,
        )

    def _decode(self, text: bytes) -> Header | Part | Record:
        if self._here.line == 1:
            self._header = decode_header(text)
            self._parts = self._header.parts
            return self._header
        return decode_part(text) if self._here.line <= 1 + self._parts else decode(text)

    def _check(self, found: Header | Part | Record) -> None:
        if isinstance(found, Header):
            if found.segment != self._number:
                raise JournalError(f"it is the header of segment {found.segment}")
        elif isinstance(found, Part):
            if (found.snapshot, found.part) != (self._number, self._here.line - 1):
                raise JournalError(f"it is part {found.part} of the snapshot of segment {found.snapshot}")
            self._check_link(found.prev)
        else:
            self._check_record(found)

    def _check_record(self, found: Record) -> None:
        self._here = _Place(self._here.line, found.seq)
        expected = self._seq + 1
        if found.seq == expected:
            self._check_link(found.prev)
        else:
            self._doubt = None
            self._fault(
                f"records {expected} to {found.seq - 1} are missing before it"
                if found.seq > expected
                else f"it stands behind record {self._seq}: it was moved, repeated or put in"
            )
        self._seq = found.seq
        self._records += 1
        self._first = self._first or found
        self._last = found

    def _check_link(self, prev: str) -> None:
        fits = self._hash is None or prev == self._hash
        if self._doubt is not None:
            first, second = self._doubt
            self._fault("it was changed", first if fits else second)
            self._doubt = None
        elif not fits:
            self._doubt = self._before, self._here

    def _bad_line(self, message: str) -> None:
        # Nothing can be said of the line before it any more, nor does the next one have anything to fit.
        self._doubt = self._hash = None
        if self._here.line > 1 + self._parts:
            self._seq += 1
            self._here = _Place(self._here.line, self._seq)
        self._fault(message)

    def _fault(self, message: str, place: _Place | None = None) -> None:
        place = place or self._here
        self._faults.append(
            Fault(path=self._path.name, segment=self._number, line=place.line, seq=place.seq, message=message)
        )
