r"""Objects: JSON metadata, NUL, payload. The framing of Object System (seed 002) and Business Object (seed 000).

::

    object    = metadata NUL [payload]          the same in both directions, -> and <-
    metadata  = a JSON object in UTF-8          at most 64 KiB by default; holds no NUL byte
    NUL       = %x00
    payload   = exactly `size` bytes            absent when the metadata has no `size`, or 0

    -> {"event":"routing/subscribe","id":"1"}\0
    <- {"event":"routing/subscribe/reply","in-reply-to":"1","routing-id":"c1","routing-ids":[]}\0
    -> {"type":"text/plain","size":5}\0hello

What is malformed (the bytes after it have no meaning) raises; what is well framed but has a standard attribute of the
wrong kind becomes a :class:`BadObject`, and the stream goes on. Unknown attributes are never looked at: metadata passes
through as the bytes it came in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import length_hint
from typing import Any

import msgspec
import simplejson
from msgspec import UNSET, Struct

from bussrv.errors import RemoteProtocolError
from bussrv.wire.faults import brief, check_text, parse_int
from bussrv.wire.head import MAX_NATURES as MAX_NATURES
from bussrv.wire.head import MAX_NESTING as MAX_NESTING
from bussrv.wire.head import BadObject as BadObject
from bussrv.wire.head import CommandHead, Fault, decode_head
from bussrv.wire.head import Head as Head
from bussrv.wire.head import decode_raw as decode_raw
from bussrv.wire.head import read_head as read_head
from bussrv.wire.reader import StreamReader

MAX_METADATA = 64 << 10
MAX_PAYLOAD = 16 << 20

MAX_ADDED = 8 << 10
"""The most bytes of metadata that servers add to a client's: ``route`` and ``id``, or the attributes of an answer.

Readers of a server's objects accept so much more than ``MAX_METADATA``.
"""

NUL = b"\0"

FIRST_BATCH = 32
"""The most objects in the first batch of a chunk. Each later batch may be twice as long as the one before."""

LONGEST_BATCH = 128
"""The most objects in any batch."""


class BusObject(Struct, gc=False):
    """An object as it came: metadata as raw bytes (without the NUL), its decoded head, and the payload."""

    metadata: bytes
    head: Head
    payload: bytes = b""

    def fields(self) -> dict[str, Any]:
        """Every attribute of the metadata, decoded."""
        return decode_fields(self.metadata)

    def name(self, otherwise: Any = UNSET) -> Any:
        """The attribute ``name``, or ``otherwise`` if the metadata has no such key."""
        head = self.head
        if type(head) is not CommandHead:
            return self.fields().get("name", otherwise)
        return otherwise if head.name is UNSET else head.name


_encode = msgspec.json.Encoder().encode


class ObjectReader(StreamReader[BusObject | BadObject]):
    """Reads objects from the chunks of one connection.

    :param max_metadata: the most bytes of metadata.
    :param max_payload: the most bytes of payload.
    :param max_nesting: how deep metadata may nest.
    :ivar limits: these limits, as they are now.
    :ivar last_event: the ``event`` of the last object of the batch that was read last.
    """

    def __init__(
        self, max_metadata: int = MAX_METADATA, max_payload: int = MAX_PAYLOAD, max_nesting: int = MAX_NESTING
    ) -> None:
        super().__init__()
        self._max_metadata = max_metadata
        self._max_payload = max_payload
        self._max_nesting = max_nesting
        self._metadata = b""
        self._size = 0
        self._max_gathered = max_payload
        self._is_gathered = True
        self._waiting: Head | BadObject | None = None
        self._ahead: Iterator[BusObject] = iter(())
        self._singles: deque[BusObject] = deque()
        self.ends: frozenset[str] = frozenset()
        self.last_event: str | None = None
        self._longest = FIRST_BATCH
        self._to_read = 0
        self._longest_read = 1
        self.limits = (max_metadata, max_payload, max_nesting)

    def gather(self, most: int | None = None) -> None:
        """From now on gather payloads of up to ``most`` bytes; by default all that are within the limit.

        A larger payload is skipped as it comes, and its object comes without it.
        """
        self._max_gathered = self._max_payload if most is None else most

    def limit(self, max_metadata: int, max_payload: int) -> None:
        """From now on metadata and payloads have at most so many bytes."""
        self._max_metadata = max_metadata
        self._max_payload = self._max_gathered = max_payload
        self.limits = (max_metadata, max_payload, self._max_nesting)

    def expect_server(self) -> None:
        """From now on read objects of a server, whose metadata may be longer; see :func:`max_relayed`."""
        self._max_metadata = max_relayed(self._max_metadata)
        self.limits = (self._max_metadata, self._max_payload, self._max_nesting)

    def feed(self, data: bytes) -> None:
        """Add a chunk; see :meth:`StreamReader.feed`."""
        super().feed(data)
        self._longest = FIRST_BATCH

    def next_event(self) -> BusObject | BadObject | None:
        """The next object; see :meth:`StreamReader.next_event`."""
        if not self._singles or length_hint(self._ahead):
            for obj in self.batch():
                return obj
        return self._singles.popleft() if self._singles else super().next_event()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left: neither bytes, nor objects that were read already, nor an error."""
        return not (self._has_read or len(self.buffer)) and self._error is None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left, so that the next chunk may be read by :meth:`read_chunk`."""
        return self.is_empty

    @property
    def is_clear(self) -> bool:
        """Whether the bytes that wait are the beginning of an object, which need not be read here; see :meth:`skip`."""
        return not (self._to_read or self._has_read) and self._error is None

    @property
    def _has_read(self) -> bool:
        return self._waiting is not None or bool(self._singles) or length_hint(self._ahead) > 0

    def take_with(self, data: bytes) -> bytes | None:
        """Take the bytes that wait, with a chunk after them, from a reader that is clear.

        :returns: ``None``: that would cost too much, and the chunk is to be fed.
        """
        waiting = len(self.buffer)
        if waiting > len(data):
            return None
        return self.buffer.take(waiting) + data if waiting else data

    def batch(self) -> Iterator[BusObject]:
        """Some of the next objects, all whole and sound. An object that is taken from here is not returned again.

        An empty batch means: ask :meth:`next_event`. ``length_hint`` tells how many objects are left.
        """
        if self._has_read or self._error is not None:
            return self._ahead
        if len(self.buffer):
            self._ahead = iter(self._read_ahead())
        return self._ahead

    def stretch(self) -> tuple[bytes, int, tuple[int, int, int]] | None:
        """The bytes that wait, if some may be skipped: a piece, their place in it, and the limits of ``__init__``."""
        whole = self.buffer.whole() if self.is_clear else None
        return None if whole is None else (*whole, self.limits)

    def skip(self, size: int, *, reads_on: bool, in_vain: bool) -> None:
        """Skip so many bytes of a stretch: whole objects, which were not read here.

        :param reads_on: whether the next object has to be read here. There may be more of that kind: each time that a
            stretch was asked for ``in_vain``, twice as many objects are read before there is another one.
        """
        self.buffer.skip(size)
        if reads_on:
            self._to_read = self._longest_read = min(2 * self._longest_read, LONGEST_BATCH) if in_vain else 1

    def end_batches_at(self, events: frozenset[str]) -> None:
        """From now on batches hold no object of these ``events``: :meth:`next_event` returns each one by itself.

        So it does with objects that were read already.
        """
        self.ends = events
        self._singles.extendleft(reversed(list(self._ahead)))

    def _read_ahead(self) -> list[BusObject]:
        """The next objects, up to one that the plain reader has to look at."""
        whole = self.buffer.whole()
        if whole is None:
            return []
        data, first = whole
        most = min(self._longest, self._to_read or LONGEST_BATCH)
        self._longest = min(2 * self._longest, LONGEST_BATCH)
        objs, end, single = self._read_some(data, first, most)
        if single is not None:
            self._singles.append(single)
            end += len(single.metadata) + 1 + len(single.payload)
        self.buffer.skip(end - first)
        self._to_read -= min(self._to_read, len(objs) + len(self._singles))
        self.last_event = objs[-1].head.event if objs else None
        return objs

    def read_chunk(self, data: bytes) -> tuple[list[BusObject], int]:
        """Read the objects at the beginning of a chunk that comes while nothing is left here, without taking it.

        :returns: as many as a batch has, and the place after them.
        """
        objs, end, _ = self._read_some(data, 0, LONGEST_BATCH)
        self._to_read -= min(self._to_read, len(objs))
        return objs, end

    def _read_some(self, data: bytes, begin: int, most: int) -> tuple[list[BusObject], int, BusObject | None]:
        """:returns: objects, the place after them, and the next one if it ends batches."""
        objs: list[BusObject] = []
        single: BusObject | None = None
        find, length = data.find, len(data)
        max_metadata, max_payload = self._max_metadata, self._max_payload
        max_nesting, short, medium = self._max_nesting, 2 * self._max_nesting, 5 * self._max_nesting - 3
        ends = self.ends
        try:
            while begin < length and len(objs) < most:
                end = find(NUL, begin)
                if end < 0 or end - begin > max_metadata:
                    break
                metadata = data[begin:end]
                head = decode_head(metadata)
                after = end + 1 + head.size
                if not end < after <= length or head.size > max_payload:
                    break
                # An array takes two bytes, and an object in which something nests five: with a key.
                is_flat = end - begin <= short or end - begin + 3 * metadata.count(b"[") <= medium
                if not (is_flat and metadata.isascii()):
                    check_text(metadata, max_nesting)
                obj = BusObject(metadata, head, data[end + 1 : after])
                if head.event is not None and head.event in ends:
                    single = obj
                    break
                begin = after
                objs.append(obj)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RemoteProtocolError):
            pass  # The object is read again by read_event, which raises the exact error or is more tolerant.
        return objs, begin, single

    def read_event(self) -> BusObject | BadObject | None:
        """The next object; see :meth:`StreamReader.read_event`."""
        if self._waiting is None and not self._read_metadata():
            return None
        waiting, size = self._waiting, self._size
        if len(self.buffer) < size:
            if not self._is_gathered:
                self._size -= len(self.buffer)
                self.buffer.skip(len(self.buffer))
            return None
        self._waiting = None
        self._to_read -= self._to_read > 0
        payload = self.buffer.take(size) if size and self._is_gathered else b""
        self.buffer.skip(size - len(payload))
        return BusObject(self._metadata, waiting, payload) if isinstance(waiting, Head) else waiting

    def _read_metadata(self) -> bool:
        buffer = self.buffer
        length = buffer.find(NUL, self._max_metadata + 1)
        if length < 0:
            if len(buffer) > self._max_metadata:
                raise RemoteProtocolError(
                    "metadata-too-large", f"metadata has more than {self._max_metadata} bytes", self._max_metadata
                )
            return False
        self._metadata = metadata = buffer.take(length)
        buffer.skip(1)
        try:
            head = read_head(metadata, self._max_nesting)
            self._waiting, self._size = head, head.size
        except Fault as fault:
            self._waiting, self._size = fault.bad, fault.size
        self._is_gathered = isinstance(self._waiting, Head) and self._size <= self._max_gathered
        if self._size > self._max_payload:
            raise RemoteProtocolError(
                "payload-too-large", f"size is {brief(self._size)}, the most is {self._max_payload} bytes"
            )
        return True


def max_relayed(max_metadata: int) -> int:
    """The most bytes of metadata of an object that one server forwards to another.

    :param max_metadata: the most bytes of metadata that a client may send.
    """
    return max_metadata + MAX_ADDED


def decode_fields(metadata: bytes) -> dict[str, Any]:
    """Every attribute of well-formed metadata, decoded."""
    try:
        fields = msgspec.json.decode(metadata)
    except msgspec.ValidationError:
        # Numbers beyond a double, which the fast decoder refuses.
        fields = simplejson.loads(metadata, parse_int=parse_int)
    return dict(fields)


def encode_json(value: Any) -> bytes:
    """A value as compact JSON, the way metadata is written here."""
    return _encode(value)


def encode_metadata(fields: dict[str, Any], payload: bytes = b"") -> bytes:
    """Metadata of the server's own, with the right ``size`` for ``payload``."""
    return _encode({**fields, "size": len(payload)} if payload or "size" in fields else fields)


def encode(metadata: bytes | dict[str, Any], payload: bytes = b"") -> bytes:
    """The bytes of an object on the wire.

    :param metadata: raw, and then with the right ``size``; or a dict, which is given the right ``size``.
    """
    if isinstance(metadata, dict):
        if not payload and "size" not in metadata:
            return _encode(metadata) + NUL
        metadata = encode_metadata(metadata, payload)
    return b"%b\0%b" % (metadata, payload)
