"""Segments: the files of a journal directory.

A segment is named by the ``seq`` of its first record, in 20 digits, so that names sort as records do::

    bussrv-journal/
        lock                             held by the running server
        manifest                         seals: what the segments were when they were sealed
        00000000000000000001.jsonl.gz    records 1 to 812; closed and compressed
        00000000000000000813.jsonl       records 813 on
        00000000000000000813.jsonl.torn  what a crash left unfinished at its end, kept aside
        00000000000000001700.jsonl.new   a segment that is being made; left by a crash, it is removed

A segment begins with its header and a snapshot (see :mod:`bussrv.journal.header`); records follow. Only the last
segment may end in an unfinished line.
"""

from __future__ import annotations

import errno
import os
import re
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from msgspec import Raw, Struct
from msgspec.structs import replace

from bussrv.errors import JournalError, os_errors_as
from bussrv.journal.bounded import lines_in, open_bounded
from bussrv.journal.bounds import MAX_LINE, TooLarge
from bussrv.journal.chain import line_hash
from bussrv.journal.files import FILES, Files
from bussrv.journal.header import Damage, Header, Part, Previous, decode_header, encode_header, encode_part
from bussrv.journal.outside_changes import Changed, OutsideChange, change, identity, sized
from bussrv.journal.record import Record
from bussrv.journal.record_tree import RecordTree, TreeHead
from bussrv.journal.regular import read_regular

SUFFIX = ".jsonl"
COMPRESSED_SUFFIX = ".jsonl.gz"
TORN_SUFFIX = ".torn"
NEW_SUFFIX = ".new"

CORRUPT = (EOFError, zlib.error, TooLarge)
"""Reading raises one of these if a compressed segment was changed since it was compressed, or one exceeds a bound."""

DIGITS = 20
"""So many digits a segment has in its name."""

LARGEST = (1 << 63) - 1
"""The largest number of a record: tables of records have no larger ones."""

_BLOCK = 1 << 20


def segment_name(first_seq: int) -> str:
    """The file name of the segment that begins with record ``first_seq``."""
    return f"{first_seq:0{DIGITS}d}{SUFFIX}"


def is_segment_name(name: str) -> bool:
    """Whether a file of that name is a segment, compressed or not."""
    found = re.fullmatch(rf"([0-9]{{{DIGITS}}})\.jsonl(\.gz)?", name)
    return found is not None and int(found[1]) <= LARGEST


def first_seq(path: Path) -> int:
    """The number in the name of a segment."""
    return int(path.name.partition(".")[0])


def compressed_path(path: Path) -> Path:
    """The path of a segment that is compressed."""
    return path.with_name(path.name.removesuffix(SUFFIX) + COMPRESSED_SUFFIX)


def is_compressed(path: Path) -> bool:
    """Whether a segment is compressed."""
    return path.name.endswith(COMPRESSED_SUFFIX)


def list_segments(directory: Path) -> list[Path]:
    """The segments of a journal directory, oldest first. One that is there twice, since a crash interrupted its
    compression, is listed as it was before.

    :raises JournalError: if the directory cannot be read.
    """
    with os_errors_as(JournalError, f"cannot read the journal directory {directory}"):
        names = {entry.name for entry in directory.iterdir()}
    found = {}
    for suffix in (COMPRESSED_SUFFIX, SUFFIX):
        for name in names:
            if name.endswith(suffix) and is_segment_name(name):
                found[first_seq(Path(name))] = directory / name
    return [found[number] for number in sorted(found)]


def is_there(directory: Path, number: int) -> bool:
    """Whether there is a segment of that number, compressed or not."""
    plain = directory / segment_name(number)
    # In this order: while one is compressed, the copy is there before it is removed.
    return plain.exists() or compressed_path(plain).exists()


def ended_change(directory: Path, number: int, size: int, files: Files = FILES) -> OutsideChange | None:
    """The change that another program made to a segment that has ended; ``None``: it is there, with so many bytes.

    :raises OSError: if the disk fails.
    """
    path = directory / segment_name(number)
    try:
        return sized(files.look(str(path)), size, size)
    except (FileNotFoundError, NotADirectoryError):
        # A compressed segment was read back.
        return None if is_there(directory, number) else OutsideChange("it was removed or moved away")


def open_segment(path: Path, *, counts_lines: bool = True) -> BinaryIO:
    """A segment, to be read from its beginning as it was before it was compressed, which it may be by now.

    :param counts_lines: see :func:`bussrv.journal.bounded.open_bounded`.
    :raises OSError: if it cannot be read. Reading raises that or one of ``CORRUPT`` later, too.
    """
    try:
        return open_bounded(path, compressed=is_compressed(path), counts_lines=counts_lines)
    except FileNotFoundError:
        if is_compressed(path) or not compressed_path(path).exists():
            raise
        return open_bounded(compressed_path(path), compressed=True, counts_lines=counts_lines)


def torn_size(path: Path) -> int:
    """How many bytes follow the last newline of a segment that is not compressed: a line that was never finished."""
    with read_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        return size - begin_of_line(file, size)


def begin_of_line(file: BinaryIO, end: int) -> int:
    """The offset at which the line begins that goes on before the offset ``end``."""
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def set_end_aside(path: Path, size: int, files: Files = FILES) -> None:
    """Cut a segment off after ``size`` bytes and keep the rest beside it."""
    with read_regular(path) as file:
        file.seek(size)
        write_file(path.with_name(path.name + TORN_SUFFIX), iter(lambda: file.read(_BLOCK), b""), files)
    files.sync_directory(path.parent)
    descriptor = files.reopen(path)
    try:
        files.truncate(descriptor, size)
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def write_file(path: Path, parts: Iterable[bytes], files: Files) -> None:
    """Make a file of some parts, and return when it is on the disk.

    :raises OSError: if the disk fails. The file may be there all the same.
    """
    descriptor = files.create(path)
    try:
        for part in parts:
            files.write(descriptor, part)
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def _is_without_records(path: Path) -> bool:
    """Whether a segment has a header and a snapshot, and nothing else."""
    try:
        with open_segment(path) as file:
            parts = decode_header(file.readline(MAX_LINE)).parts
            return sum(1 for _ in lines_in(file)) == parts
    except (JournalError, *CORRUPT):
        return False


def count_lines(path: Path, size: int) -> int:
    """How many whole lines the first ``size`` bytes of a file are; as far as it can be read."""
    lines = 0
    with suppress(OSError), read_regular(path) as file:
        while size > 0 and (block := file.read(min(_BLOCK, size))):
            lines += block.count(b"\n")
            size -= len(block)
    return lines


class Counts(Struct, frozen=True, kw_only=True):
    """How many records a segment has, and the first and the last of them. Without any, the rest is ``None``. Times are
    UTC microseconds; also ``None`` if they are not known.
    """

    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    first_time: int | None = None
    last_time: int | None = None


class Extent(Counts, frozen=True, kw_only=True):
    """How far a segment goes: what is said of it in seals and in the header of the next one.

    :ivar segment: the number in its name.
    :ivar bytes: its size, of which ``digest`` is the SHA-256.
    :ivar tree: the tree of all records up to its end, ``None`` if its header has none.
    """

    segment: int
    bytes: int
    digest: str
    tree: TreeHead | None = None

    def as_previous(self) -> Previous:
        """The same, as the header of the next segment says it."""
        return Previous(self.segment, self.bytes, self.digest)


class Measure:
    """The extent of a segment, as it grows.

    :ivar bytes: how large it is, and ``records`` how many records it has.
    :ivar hash: the hash of its last line.
    :ivar tree: the tree of all records up to its end; to be set before the first of its records is added.
    """

    def __init__(self, segment: int, tree: RecordTree | None = None) -> None:
        self.bytes = self.records = 0
        self.hash = ""
        self.tree = tree
        self._segment = segment
        self._digest = sha256()
        self._first: Record | None = None
        self._last: Record | None = None

    def add(self, data: bytes, last_hash: str, records: Sequence[Record] = (), lines: bytes = b"") -> None:
        """Take in further lines.

        :param last_hash: the hash of the last of them.
        :param records: those among them, and ``lines`` the lines of these.
        """
        if self.tree is not None:
            self.tree.add(lines)
        self._digest.update(data)
        self.bytes += len(data)
        self.hash = last_hash
        if records:
            if not self.records:
                self._first = records[0]
            self.records += len(records)
            self._last = records[-1]

    def digest(self) -> str:
        """The SHA-256 of it."""
        return self._digest.hexdigest()

    def extent(self) -> Extent:
        """How far it goes now."""
        tree = None if self.tree is None else self.tree.head()
        extent = Extent(segment=self._segment, bytes=self.bytes, digest=self.digest(), records=self.records, tree=tree)
        first, last = self._first, self._last
        if first is None or last is None:
            return extent
        return replace(extent, first_seq=first.seq, last_seq=last.seq, first_time=first.time, last_time=last.time)


class SegmentFile:
    """A segment that is being written: it only grows, and knows how much of it is known to be good.

    It appears under its name when header and snapshot are on the disk.

    :ivar header: its first line.
    :ivar good: how far the lines go that are known to be good.
    :param states: the snapshot, one JSON text for each of the ``header.parts`` lines.
    :raises OSError: if it cannot be made, or if there is one of that name that has records.
    """

    def __init__(self, directory: Path, header: Header, states: Iterable[bytes], files: Files = FILES) -> None:
        self.path = directory / segment_name(header.segment)
        self.header = header
        self._files = files
        tree = None if header.tree is None else RecordTree.of_header(header.tree, header.segment)
        self.good = Measure(header.segment, tree)
        self._pending: tuple[bytes, str, list[Record]] | None = None
        self._text_path = str(self.path)
        if self.path.exists() and not _is_without_records(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
        new = self.path.with_name(self.path.name + NEW_SUFFIX)
        try:
            write_file(new, self._beginning(header, states), files)
            files.rename(new, self.path)
            files.sync_directory(directory)
            self._descriptor = files.reopen(self.path)
            self._identity = identity(self._descriptor, files)
        except OSError:
            # Left there, they are in nobody's way: without records, it is replaced or removed at the next start.
            with suppress(OSError):
                files.remove(new)
                files.remove(self.path)
            raise
        # Bytes that it has at least, and at most: a write that failed may have left a part.
        self._least = self._most = self.good.bytes

    def _beginning(self, header: Header, states: Iterable[bytes]) -> Iterable[bytes]:
        line = encode_header(header)
        hashed = line_hash(line)
        self.good.add(line, hashed)
        yield line
        for number, state in enumerate(states, start=1):
            line = encode_part(Part(hashed, header.segment, number, Raw(state)))
            hashed = line_hash(line)
            self.good.add(line, hashed)
            yield line

    def write(self, data: bytes, last_hash: str, records: list[Record]) -> None:
        """Append lines; on an error the file may end in a part of them. Nobody is told of them before :meth:`check`.

        :param last_hash: the hash of the last of them.
        :raises OSError: if the disk fails.
        """
        self._most += len(data)
        self._files.write(self._descriptor, data)
        self._least = self._most
        self._pending = (data, last_hash, records)

    def change(self) -> OutsideChange | None:
        """The change that another program made to it, if there is one."""
        doubtful = self._most - self.good.bytes
        found = change(self._text_path, self._identity, self._least, self._most, self._files, doubtful)
        if found is None and self._least != self._most and not self._has_good_end():
            # The part of a write that failed may be as long as what was cut off before it.
            return OutsideChange("it was cut", max(0, self.good.bytes - doubtful))
        return found

    def _has_good_end(self) -> bool:
        with read_regular(self.path) as file:
            begin = begin_of_line(file, self.good.bytes - 1)
            file.seek(begin)
            line = file.read(self.good.bytes - begin)
        return line.endswith(b"\n") and line_hash(line) == self.good.hash

    def check(self) -> None:
        """See that it is the file that this one writes to, and holds what was written.

        :raises Changed: another program changed it.
        :raises OSError: if the disk fails.
        """
        found = self.change()
        if found is not None:
            raise Changed(self.path, found)

    def damage(self, found: OutsideChange) -> Damage:
        """The place from which on it is in doubt, for the header of the next segment."""
        lines = count_lines(self.path, min(found.left, self.good.bytes))
        first = self.header.segment + max(0, lines - 1 - self.header.parts)
        return Damage(self.header.segment, lines + 1, f"{found.what} while the server was running", first)

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        self._files.sync(self._descriptor)

    def mark_good(self) -> None:
        """All that has been written so far is to stay."""
        if self._pending is not None:
            self.good.add(*self._pending, self._pending[0])
            self._pending = None

    def close(self) -> None:
        """Write no more."""
        self._files.close(self._descriptor)

    def cut_back(self) -> None:
        """Cut off what was not marked good; a segment without records is removed. Only if :meth:`change` finds nothing.

        :raises OSError: if the disk fails; it may be called again then.
        """
        if self.good.records:
            self._least = self.good.bytes
            self._files.truncate(self._descriptor, self.good.bytes)
            self._files.sync(self._descriptor)
        else:
            self._files.remove(self.path)
