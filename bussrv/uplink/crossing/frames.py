"""Frames: objects on their way through an engine, many in one message. Pure.

::

    frame   = "b1" flags origin-length boot number count origin lengths objects
    flags   = %x00 / %x01               %x01: a part of one object
    boot    = 8 bytes                   of this run of the uplink that sent it
    number  = 8 bytes                   of the first object, from 1 to 2^53, among those of this boot on one subject
    count   = 4 bytes                   of objects, 0 too; of a part: which part it is, from 0
    lengths = count times 4 bytes       of each object; of a part: once, the length of the whole object
    objects = as they are on a link     of a part: so many bytes of it, in order

Numbers are big-endian. The number of each object tells the receiver what it has twice, and what it lost. A frame
without objects has the number of the next one: who did not get those before it learns so, when nothing follows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from bussrv.errors import RemoteProtocolError

MAGIC = b"b1"

MOST_NUMBER = 1 << 53
"""The highest number of an object: higher ones are no numbers that all programs can read."""

_HEADER = struct.Struct(">2sBB8sQI")
_PART = 1
_LENGTH = 4


class Frame(Struct, gc=False):
    """A frame that came.

    :ivar origin: the routing id of the server that it comes from.
    :ivar boot: the run of the uplink that sent it.
    :ivar number: the number of the first object.
    :ivar count: how many objects it has, 1 for a part.
    :ivar part: which part of one object it is; ``None``: it has whole objects.
    :ivar lengths: the length of each object; of a part, that of the whole object.
    :ivar body: the objects, or the part.
    """

    origin: str
    boot: bytes
    number: int
    count: int
    part: int | None
    lengths: Sequence[int]
    body: bytes

    def after(self, number: int) -> bytes:
        """The objects from this number on."""
        return self.body[sum(self.lengths[: max(0, number - self.number)]) :]

    def ends(self) -> Iterator[int]:
        """The places in ``body`` at which objects end."""
        return accumulate(self.lengths)


def pack(origin: str, boot: bytes, number: int, objects: Sequence[bytes]) -> bytes:
    """A frame of whole objects."""
    name = origin.encode()
    header = _HEADER.pack(MAGIC, 0, len(name), boot, number, len(objects))
    lengths = struct.pack(f">{len(objects)}I", *map(len, objects))
    return b"".join((header, name, lengths, *objects))


def pack_parts(origin: str, boot: bytes, number: int, whole: bytes, most: int) -> Iterator[bytes]:
    """The frames of an object that is too large for one.

    :param most: the most bytes of a frame.
    """
    name = origin.encode()
    size = most - _HEADER.size - len(name) - _LENGTH
    for part, begin in enumerate(range(0, len(whole), size)):
        header = _HEADER.pack(MAGIC, _PART, len(name), boot, number, part)
        yield b"".join((header, name, len(whole).to_bytes(_LENGTH, "big"), whole[begin : begin + size]))


def overhead(origin: str, count: int) -> int:
    """The bytes of a frame of so many objects, without them."""
    return _HEADER.size + len(origin.encode()) + _LENGTH * count


def unpack(data: bytes) -> Frame:
    """Read a frame.

    :raises RemoteProtocolError: ``bad-frame``: it is none.
    """
    try:
        magic, flags, named, boot, number, count = _HEADER.unpack_from(data)
        begin = _HEADER.size + named
        origin = data[_HEADER.size : begin].decode()
        is_part = flags == _PART
        lengths = struct.unpack_from(f">{1 if is_part else count}I", data, begin)
    except (struct.error, UnicodeDecodeError) as error:
        raise _bad("it is cut off, or no frame") from error
    body = data[begin + _LENGTH * len(lengths) :]
    if magic != MAGIC or flags > _PART or not (origin and 0 < number <= MOST_NUMBER):
        raise _bad("it does not begin as one")
    if not 0 < len(body) <= lengths[0] if is_part else len(body) != sum(lengths):
        raise _bad(f"it has {len(body)} bytes of objects, and says {sum(lengths)}")
    return Frame(origin, boot, number, 1 if is_part else count, count if is_part else None, lengths, body)


def _bad(what: str) -> RemoteProtocolError:
    return RemoteProtocolError("bad-frame", f"a message of the engine is no frame: {what}")
