"""Digests of segments, as they were before they were compressed."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from bussrv.journal.chain import line_hash
from bussrv.journal.segment import open_segment

MOST_OF_A_LINE = 1 << 16
"""How many bytes of the first line of a segment are kept. A header is shorter."""

_BLOCK = 1 << 20


class Digests(Struct, frozen=True):
    """Digests of a segment, as it was before it was compressed. All are SHA-256, in hexadecimal digits.

    :ivar size: in bytes, and ``digest`` of these.
    :ivar beginnings: the digests of its first bytes, for the sizes that were asked for, as far as it has so many.
    :ivar first_line: its first line without the newline, or the beginning of a very long one.
    :ivar last_hash: the hash of its last whole line.
    """

    size: int
    digest: str
    beginnings: dict[int, str]
    first_line: bytes
    last_hash: str


NO_DIGESTS = Digests(0, sha256().hexdigest(), {}, b"", line_hash(b""))
"""Of an empty segment."""


def digests_of(path: Path, sizes: Iterable[int] = ()) -> Digests:
    """Read a segment once.

    :param sizes: of the beginnings to look at.
    :raises OSError: if it cannot be read; one of ``CORRUPT`` if it is compressed and damaged.
    """
    with open_segment(path, counts_lines=False) as file:
        return digests_in(file, sizes)


def digests_in(file: BinaryIO, sizes: Iterable[int] = ()) -> Digests:
    """The same of a segment that is open, at its beginning."""
    found, beginnings = _Hashing(file), {}
    for size in sorted(set(sizes)):
        found.read(size - found.size)
        if found.size == size:
            beginnings[size] = found.digest.hexdigest()
    found.read()
    digest = found.digest.hexdigest()
    return Digests(found.size, digest, beginnings, found.first_line.partition(b"\n")[0], found.last_hash)


class _Hashing:
    """The digest of what was read of a file up to now, and the hash of the last whole line of that.

    :ivar first_line: the first bytes of it, up to ``MOST_OF_A_LINE``.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.size = 0
        self.digest = sha256()
        self.first_line = b""
        self.last_hash = NO_DIGESTS.last_hash
        self._file = file
        self._line = sha256()

    def read(self, most: int | None = None) -> None:
        """Read on, ``most`` bytes at the most, or to the end."""
        until = None if most is None else self.size + most
        while block := self._file.read(_BLOCK if until is None else min(_BLOCK, until - self.size)):
            self.size += len(block)
            self.digest.update(block)
            if len(self.first_line) < MOST_OF_A_LINE:
                self.first_line += block[: MOST_OF_A_LINE - len(self.first_line)]
            self._pass_lines(memoryview(block), block)

    def _pass_lines(self, view: memoryview, block: bytes) -> None:
        end = block.rfind(b"\n")
        if end >= 0:
            begin = block.rfind(b"\n", 0, end) + 1
            last = self._line if begin == 0 else sha256()
            last.update(view[begin:end])
            self.last_hash, self._line = last.hexdigest(), sha256()
        self._line.update(view[end + 1 :])
