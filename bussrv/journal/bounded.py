"""Opening segments, so that no more of them is read or inflated than :mod:`bussrv.journal.bounds` allows."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from bussrv.journal import bounds
from bussrv.journal.bounds import MAX_LINE, TooLarge
from bussrv.journal.regular import open_regular

_BLOCK = 1 << 16

_WHOLE = 1 << 18
"""The bytes that are read or inflated at once if all are wanted: about what 64 KiB are inflated to."""

_GZIP = 16 + zlib.MAX_WBITS

Readable = io.FileIO | io.BytesIO


def open_bounded(path: Path, *, compressed: bool, counts_lines: bool = True) -> BinaryIO:
    """Open a segment, to read it as it was before it was compressed.

    :param counts_lines: whether there is a bound of lines, too. Nobody needs one who reads no lines.
    :raises bussrv.journal.regular.NotRegular: it is not a regular file.
    :raises OSError: it cannot be opened. Reading raises :exc:`TooLarge` beyond a bound, and of what is compressed also
        :exc:`EOFError` and :exc:`zlib.error`.
    """
    # Without a buffer of its own, which could hold what is not in the file any more.
    file = os.fdopen(open_regular(path, os.O_RDONLY), "rb", buffering=0)
    return bounded(file, compressed=compressed, counts_lines=counts_lines)


def bounded(file: Readable, *, compressed: bool, counts_lines: bool = True) -> BinaryIO:
    """The same of an open file. It is closed with the result.

    A file that is not compressed can be read again from any place.
    """
    raw = (_Inflated if compressed else _Plain)(file, counts_lines=counts_lines)
    return cast("BinaryIO", io.BufferedReader(raw, _BLOCK))


def lines_in(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an open file, from where it is read next. Longer ones come in pieces of ``MAX_LINE`` bytes."""
    return iter(partial(file.readline, MAX_LINE), b"")


class _Bounded(io.RawIOBase):
    """A file that is read up to the bounds.

    :ivar _seen: how many bytes were read, and ``_lines`` how many lines these are.
    """

    def __init__(self, file: Readable, *, counts_lines: bool) -> None:
        self._file = file
        self._counts_lines = counts_lines
        self._seen = self._lines = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        super().close()
        self._file.close()

    def _block(self, most: int) -> bytes:
        raise NotImplementedError

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._block(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def readall(self) -> bytes:
        # A join of the blocks would take the memory twice.
        whole = io.BytesIO()
        while block := self._block(_WHOLE):
            whole.write(block)
        return whole.getvalue()

    def _count(self, block: bytes) -> None:
        self._seen += len(block)
        if self._seen > bounds.SEGMENT:
            raise TooLarge(f"it has more than {bounds.SEGMENT} bytes, which no server writes")
        if self._counts_lines:
            self._lines += block.count(b"\n")
        if self._lines > bounds.SEGMENT_LINES:
            raise TooLarge(f"it has more than {bounds.SEGMENT_LINES} lines, which no server writes")


class _Plain(_Bounded):
    """A file as it is.

    :ivar _at: the place that is read next.
    """

    def __init__(self, file: Readable, *, counts_lines: bool) -> None:
        super().__init__(file, counts_lines=counts_lines)
        self._at = 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        is_relative = whence == os.SEEK_CUR
        self._at = self._file.seek(self._at + offset) if is_relative else self._file.seek(offset, whence)
        return self._at

    def _block(self, most: int) -> bytes:
        block = self._file.read(most)
        self._at += len(block)
        if self._at > self._seen:
            self._count(block[self._seen - self._at :])
        return block


class _Inflated(_Bounded):
    """The content of a file in the format of gzip: members, and zeros after them.

    :ivar _left: what was read of the file and not inflated yet.
    """

    def __init__(self, file: Readable, *, counts_lines: bool) -> None:
        super().__init__(file, counts_lines=counts_lines)
        self._inflate = zlib.decompressobj(_GZIP)
        self._left = b""
        self._packed = self._members = 0

    def _block(self, most: int) -> bytes:
        while True:
            if self._inflate.eof and not self._begin_member():
                return b""
            block = self._inflate.decompress(self._left, most)
            self._left = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if block:
                self._count(block)
                return block
            if not self._left and not self._inflate.eof and not self._fill():
                if self._packed:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
                return b""

    def _fill(self) -> bool:
        """Read on. :returns: whether there is more."""
        self._left = self._file.read(_BLOCK)
        self._packed += len(self._left)
        if self._packed > bounds.SEGMENT:
            raise TooLarge(f"its file has more than {bounds.SEGMENT} bytes, which no server writes")
        return bool(self._left)

    def _begin_member(self) -> bool:
        """Pass the zeros after a member. :returns: whether another one follows."""
        while not (rest := self._left.lstrip(b"\0")):
            if not self._fill():
                return False
        self._left = rest
        self._members += 1
        if self._members > bounds.MEMBERS:
            raise TooLarge(f"it was compressed in more than {bounds.MEMBERS} pieces, which no server does")
        self._inflate = zlib.decompressobj(_GZIP)
        return True
