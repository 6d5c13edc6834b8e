"""Through one segment, line by line, past whatever is wrong with it: what was changed, dropped, put in or moved.

A line is vouched for by the one behind it, which holds its hash. So when two lines do not fit, the first one was
changed, unless the second one does not fit the third either: then it was the second.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.chain import line_hash
from bussrv.journal.header import Header, Part, decode_header, decode_part
from bussrv.journal.reading import MAX_LINE
from bussrv.journal.record import Record, decode
from bussrv.journal.segment import GARBLED, Extent, extent_of, first_seq, is_compressed, open_segment

_KIND_WITHIN = 120
"""In how many bytes of a line it shows whether it is a part of a snapshot or a record."""


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
    :ivar beginnings: the SHA-256 of its beginnings that were asked for, by their sizes, if a line ends there.
    :ivar next_seq: the number behind that of its last record.
    :ivar last_hash: the hash of its last whole line, and ``lines`` the number of that line.
    """

    path: Path
    number: int
    faults: list[Fault]
    header: Header | None
    extent: Extent
    size: int
    beginnings: dict[int, str]
    next_seq: int
    last_hash: str
    lines: int

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


def walk(path: Path, sealed: Iterable[int] = ()) -> Walk:
    """Go through a segment.

    :param sealed: how many bytes of it its seals are about.
    :raises OSError: if it cannot be read.
    """
    walker = _Walker(path, sealed)
    with open_segment(path) as file:
        try:
            while (text := file.readline(MAX_LINE)) and walker.pass_text(text):
                pass
        except GARBLED as error:
            walker.end_garbled(error)
    return walker.end()


class _Place(Struct, frozen=True):
    """A line, to be named in a fault; ``seq`` if it is a record."""

    line: int
    seq: int | None

    def __str__(self) -> str:
        return f"line {self.line}" if self.seq is None else f"record {self.seq}"


class _Link(Struct, frozen=True):
    """What the next record holds if it follows: the number behind ``seq``, and the ``hash`` as its ``prev``."""

    seq: int
    hash: str | None

    def is_followed_by(self, record: Record) -> bool:
        return record.seq == self.seq + 1 and record.prev == self.hash


class _Walker:
    """
    :ivar _seq: the last record that stands where it should; ``_hash`` is the hash of the last such line, if known, and
        ``_hash_of`` that line.
    :ivar _bad: how many lines since are no records; ``_is_begun_badly``: a line before the records is nothing at all.
    :ivar _other: what else the next record may follow: what stood before records that seem to be missing, or a record
        whose number is wrong.
    :ivar _stray: the last record, if it does not stand where it should.
    """

    def __init__(self, path: Path, sealed: Iterable[int]) -> None:
        self._path = path
        self._number = first_seq(path)
        self._sealed = frozenset(sealed)
        self._beginnings: dict[int, str] = {}
        self._faults: list[Fault] = []
        self._header: Header | None = None
        self._parts = 0
        self._digest = sha256()
        self._bytes = 0
        self._torn = 0
        self._is_within = False
        self._here = _Place(0, None)
        self._hash: str | None = None
        self._hash_of = self._here
        self._last_hash = ""
        self._doubt: tuple[_Place, _Place] | None = None
        self._seq = self._number - 1
        self._bad = 0
        self._is_begun_badly = False
        self._bad_line_before = -1
        self._other: _Link | None = None
        self._stray: int | None = None
        self._records = 0
        self._first: Record | None = None
        self._last: Record | None = None

    def pass_text(self, text: bytes) -> bool:
        """The next line, or as much of it as is looked at at once. :returns: whether more may follow."""
        is_whole = text.endswith(b"\n")
        if not is_whole and len(text) < MAX_LINE and not is_compressed(self._path):
            # It may be whole in a moment, and is not looked at before.
            self._torn = len(text)
            return False
        self._digest.update(text)
        self._bytes += len(text)
        if not self._is_within:
            self._here = _Place(self._here.line + 1, None)
            if is_whole:
                self._pass_line(text)
            else:
                self._bad_line("it is too long" if len(text) == MAX_LINE else "it has no end")
        self._is_within = not is_whole
        if self._bytes in self._sealed and is_whole:
            self._beginnings[self._bytes] = self._digest.hexdigest()
        return True

    def _pass_line(self, text: bytes) -> None:
        hashed = line_hash(text)
        try:
            self._check(self._decode(text), hashed)
        except JournalError as error:
            self._bad_line(str(error))
        self._last_hash = hashed

    def end_garbled(self, error: Exception) -> None:
        """What comes behind cannot be read."""
        self._here = _Place(self._here.line + 1, self._seq + self._bad + 1 if self._records else None)
        self._fault(f"it cannot be decompressed from here on: {error}")

    def end(self) -> Walk:
        """What it came to."""
        self._settle()
        if self._here.line == 0:
            self._here = _Place(1, None)
            self._fault("its header is not whole" if self._torn else "it is empty")
        if not self._records:
            self._check_parts()
        whole = self._bytes, self._digest.hexdigest()
        extent = extent_of(self._number, whole, self._records, self._first, self._last)
        return Walk(
            path=self._path,
            number=self._number,
            faults=self._faults,
            header=self._header,
            extent=extent,
            size=self._bytes + self._torn,
            beginnings=self._beginnings,
            next_seq=self._seq + self._bad + 1,
            last_hash=self._last_hash,
            lines=self._here.line,
        )

    def _decode(self, text: bytes) -> Header | Part | Record:
        if self._here.line == 1:
            return decode_header(text)
        beginning = text[:_KIND_WITHIN]
        if b',"snapshot":' in beginning or (b',"seq":' not in beginning and self._is_in_snapshot()):
            return decode_part(text)
        return decode(text)

    def _is_in_snapshot(self) -> bool:
        return self._header is not None and self._here.line <= 1 + self._header.parts

    def _check(self, found: Header | Part | Record, hashed: str) -> None:
        if isinstance(found, Header):
            self._check_header(found)
        elif isinstance(found, Part):
            self._check_part(found)
        elif not self._is_in_place(found, hashed):
            return
        self._hash, self._hash_of = hashed, self._here

    def _check_header(self, header: Header) -> None:
        self._header = header
        if header.segment != self._number:
            self._fault(f"it is the header of segment {header.segment}")

    def _believe_header(self, number: int) -> None:
        """What is of the same segment as the header has no fault of its own, whatever the file is called."""
        if self._here.line == 2 and self._header is not None and self._header.segment == number:
            self._number, self._seq = number, number - 1

    def _check_part(self, found: Part) -> None:
        self._believe_header(found.snapshot)
        if found.snapshot != self._number or self._records:
            raise JournalError(f"it is part {found.part} of the snapshot of segment {found.snapshot}")
        if found.part == self._parts + 1:
            self._check_link(found.prev)
        elif not self._is_begun_badly:
            self._settle()
            self._fault(f"it is part {found.part} of the snapshot, and part {self._parts + 1} should stand here")
        self._parts = found.part

    def _check_parts(self) -> None:
        header = self._header
        if header is not None and header.parts != self._parts and not self._is_begun_badly:
            self._fault(f"the snapshot before it has {self._parts} parts, and {header.parts} by the header")

    def _is_in_place(self, found: Record, hashed: str) -> bool:
        """Whether a record stands where it should, as far as can be told; says so if not."""
        self._here = _Place(self._here.line, found.seq)
        self._believe_header(found.seq)
        if not self._records:
            self._check_parts()
        self._records += 1
        self._first = self._first or found
        self._last = found
        expected, other, is_stray = self._seq + 1, self._other, False
        self._other = None
        if found.seq == expected:
            self._check_link(found.prev)
        elif expected < found.seq <= expected + self._bad or (other is not None and other.is_followed_by(found)):
            self._settle()
        elif found.prev == self._hash:
            self._settle()
            self._fault(f"record {expected} should stand here")
            self._other = _Link(found.seq, hashed)
            self._go_on(expected)
            self._hash = None
            return False
        elif found.seq > expected:
            self._settle()
            self._fault(f"records {expected} to {found.seq - 1} are missing before it")
            self._other = _Link(self._seq, self._hash)
        else:
            is_stray = True
            if self._stray is None or found.seq != self._stray + 1:
                self._fault(f"it stands behind record {self._seq}: it was moved, repeated or put in")
        self._stray = found.seq if is_stray else None
        if not is_stray:
            self._go_on(found.seq)
        return not is_stray

    def _go_on(self, seq: int) -> None:
        self._seq = seq
        self._bad = 0

    def _check_link(self, prev: str) -> None:
        fits = self._hash is None or prev == self._hash
        if self._doubt is not None:
            first, second = self._doubt
            self._fault("it was changed", first if fits else second)
            self._doubt = None
        elif not fits:
            self._doubt = self._hash_of, self._here

    def _settle(self) -> None:
        """Nothing will tell any more which one of two lines was changed."""
        if self._doubt is not None:
            first, second = self._doubt
            self._fault(f"it was changed, or the hash of it in {second}", first)
            self._doubt = None

    def _bad_line(self, message: str) -> None:
        self._settle()
        if not self._records:
            self._hash = None
        if self._here.line == 1 or self._is_in_snapshot():
            self._is_begun_badly = True
        else:
            self._bad += 1
            self._here = _Place(self._here.line, self._seq + self._bad)
        if self._bad_line_before != self._here.line - 1:
            self._fault(message)
        self._bad_line_before = self._here.line

    def _fault(self, message: str, place: _Place | None = None) -> None:
        place = place or self._here
        self._faults.append(
            Fault(path=self._path.name, segment=first_seq(self._path), line=place.line, seq=place.seq, message=message)
        )
