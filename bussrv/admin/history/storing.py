"""The file that keeps the history over restarts: beside the journal, named after it.

The file is one line and then compressed MessagePack::

    file  = "bussrv-history 2 " crc LF data
    crc   = 8 hexadecimal digits: the CRC-32 of the data
    data  = zlib of a StoredHistory

It is written under another name, and renamed when it is on the disk. So a crash leaves the file from before. If it is
damaged all the same, the history begins anew. It has figures, and the names of sessions and services, but no payloads
and no secrets.
"""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv.admin.history.levels import StoredLevel
from bussrv.admin.history.packing import Block
from bussrv.journal.files import FILES, Files
from bussrv.journal.regular import read_regular

SUFFIX = ".history"
"""The name of the file is that of the journal with this ending."""

MOST_BYTES = 8 << 20
"""The most bytes of the file, and of the data before it is compressed: twice what the history may take in memory."""

_HEAD = re.compile(rb"bussrv-history 2 ([0-9a-f]{8})\n")
_MODE = 0o600
_STAGED = ".new"


class Mark(Struct, frozen=True):
    """Something that a chart has to tell of.

    :ivar time: UTC microseconds.
    :ivar kind: ``started``, ``reloaded``, ``reload-failed``, or ``clock-set``: the clock of the machine was set.
    """

    time: int
    kind: str


class StoredHistory(Struct, frozen=True, kw_only=True):
    """A history, as the file has it.

    :ivar byte_order: of the numbers in arrays.
    :ivar busiest: of sessions and of services: the intervals of each level.
    """

    byte_order: str = sys.byteorder
    levels: list[StoredLevel]
    busiest: dict[str, list[list[Block]]]
    marks: list[Mark]


_decode = msgspec.msgpack.Decoder(StoredHistory).decode


def write_history(path: Path, stored: StoredHistory, files: Files = FILES) -> None:
    """Replace the file. When this returns, it is on the disk. This blocks the thread.

    :raises OSError: it cannot be written. The one from before is there then.
    """
    data = zlib.compress(msgspec.msgpack.encode(stored), 1)
    staged = path.with_name(path.name + _STAGED)
    descriptor = files.create(staged, _MODE)
    try:
        files.write(descriptor, b"bussrv-history 2 %08x\n" % zlib.crc32(data))
        files.write(descriptor, data)
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(staged, path)
    files.sync_directory(path.parent)


def read_history(path: Path) -> StoredHistory | None:
    """The history in a file; ``None``: there is no file.

    :raises OSError: it cannot be read.
    :raises ValueError: it is damaged, or was not written by this version.
    """
    try:
        with read_regular(path) as file:
            text = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    head = _HEAD.match(text)
    if head is None or len(text) > MOST_BYTES:
        raise ValueError("it is no history of this version")
    data = text[head.end() :]
    if zlib.crc32(data) != int(head[1], 16):
        raise ValueError("it is damaged")
    try:
        unpacked = zlib.decompressobj().decompress(data, MOST_BYTES)
        return _decode(unpacked)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
