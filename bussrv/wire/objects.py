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
from collections.abc import Container, Iterator
from operator import length_hint
from typing import Annotated, Any

import msgspec
import simplejson
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from bussrv.errors import RemoteProtocolError
from bussrv.wire.faults import VeryLarge, bad_json, brief, check_text, half_of_a_pair, json_kind, parse_int
from bussrv.wire.reader import StreamReader

MAX_METADATA = 64 << 10
MAX_PAYLOAD = 16 << 20
MAX_NESTING = 64

MAX_NATURES = 64
"""The most natures of an object: each of them is compared with what every member wants."""

MAX_ADDED = 8 << 10
"""The most bytes of metadata that servers add to a client's: ``route`` and ``id``, or the attributes of an answer.

Readers of a server's objects accept so much more than ``MAX_METADATA``.
"""

NUL = b"\0"

FIRST_BATCH = 32
"""The most objects in the first batch of a chunk. Each later batch may be twice as long as the one before."""

LONGEST_BATCH = 128
"""The most objects in any batch."""

Id = str | int | float | bool


class Head(Struct, gc=False):
    """The attributes of an object that routing needs.

    :ivar id: unset when the metadata has no such key.
    :ivar route: its raw JSON; empty when the metadata has no such key.
    :ivar sender: the empty string when it is there but not a string.
    """

    event: str | None = None
    type: str | None = None
    size: int = 0
    id: str | int | UnsetType | None = UNSET
    to: str | list[str] | None = None
    sender: str | None = None
    natures: Annotated[list[str], Meta(max_length=MAX_NATURES)] | None = None
    route: Raw = Raw(b"")


class BusObject(Struct, gc=False):
    """An object as it came: metadata as raw bytes (without the NUL), its decoded head, and the payload."""

    metadata: bytes
    head: Head
    payload: bytes = b""

    def fields(self) -> dict[str, Any]:
        """Every attribute of the metadata, decoded."""
        return decode_fields(self.metadata)


class BadObject(Struct, frozen=True):
    """A well-framed object that has a standard attribute of the wrong kind.

    :ivar id: the object's id, where it has a usable one.
    :ivar reason: a code of :data:`bussrv.errors.REASONS`.
    """

    id: Id | None
    reason: str
    message: str


class _Fault(Exception):
    """Carries a :class:`BadObject`, and the size of the payload that has to be skipped."""

    def __init__(self, bad: BadObject, size: int) -> None:
        super().__init__(bad.message)
        self.bad = bad
        self.size = size


_decode_head = msgspec.json.Decoder(Head).decode
decode_raw = msgspec.json.Decoder(dict[str, Raw]).decode
"""Decodes metadata into attributes, each value as its raw JSON."""
_encode = msgspec.json.Encoder().encode
# The value of numbers that no double can hold: an id of this value could not be quoted in a reply.
_BEYOND = (float("inf"), float("-inf"))


class ObjectReader(StreamReader[BusObject | BadObject]):
    """Reads objects from the chunks of one connection.

    :param max_metadata: the most bytes of metadata.
    :param max_payload: the most bytes of payload.
    :param max_nesting: how deep metadata may nest.
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
        self._ends: Container[str] = ()
        self._longest = FIRST_BATCH

    def gather(self, most: int | None = None) -> None:
        """From now on gather payloads of up to ``most`` bytes; by default all that are within the limit.

        A larger payload is skipped as it comes, and its object comes without it.
        """
        self._max_gathered = self._max_payload if most is None else most

    def limit(self, max_metadata: int, max_payload: int) -> None:
        """From now on metadata and payloads have at most so many bytes."""
        self._max_metadata = max_metadata
        self._max_payload = self._max_gathered = max_payload

    def expect_server(self) -> None:
        """From now on read objects of a server, whose metadata may be longer; see :func:`max_relayed`."""
        self._max_metadata = max_relayed(self._max_metadata)

    def feed(self, data: bytes) -> None:
        """Add a chunk; see :meth:`StreamReader.feed`."""
        super().feed(data)
        self._longest = FIRST_BATCH

    def next_event(self) -> BusObject | BadObject | None:
        """The next object; see :meth:`StreamReader.next_event`."""
        for obj in self.batch():
            return obj
        return self._singles.popleft() if self._singles else super().next_event()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left: neither bytes, nor objects that were read already, nor an error."""
        is_whole = self._waiting is None and self._error is None and not self._singles
        return is_whole and not (len(self._buffer) or length_hint(self._ahead))

    def batch(self) -> Iterator[BusObject]:
        """Some of the next objects, all whole and sound. An object that is taken from here is not returned again.

        An empty batch means: ask :meth:`next_event`. ``length_hint`` tells how many objects are left.
        """
        if length_hint(self._ahead) or self._singles or self._waiting is not None or self._error is not None:
            return self._ahead
        if len(self._buffer):
            self._ahead = iter(self._read_ahead())
        return self._ahead

    def end_batches_at(self, events: Container[str]) -> None:
        """From now on batches hold no object of these ``events``: :meth:`next_event` returns each one by itself.

        So it does with objects that were read already.
        """
        self._ends = events
        self._singles.extendleft(reversed(list(self._ahead)))

    def _read_ahead(self) -> list[BusObject]:
        """The next objects, up to one that the plain reader has to look at."""
        objs: list[BusObject] = []
        whole = self._buffer.whole()
        if whole is None:
            return objs
        data, first = whole
        most, self._longest = self._longest, min(2 * self._longest, LONGEST_BATCH)
        find, length, begin = data.find, len(data), first
        max_metadata, max_payload = self._max_metadata, self._max_payload
        max_nesting, short, medium = self._max_nesting, 2 * self._max_nesting, 5 * self._max_nesting - 3
        ends = self._ends
        try:
            while begin < length and len(objs) < most:
                end = find(NUL, begin)
                if end < 0 or end - begin > max_metadata:
                    break
                metadata = data[begin:end]
                head = _decode_head(metadata)
                after = end + 1 + head.size
                if not end < after <= length or head.size > max_payload:
                    break
                # An array takes two bytes, and an object in which something nests five: with a key.
                is_flat = end - begin <= short or end - begin + 3 * metadata.count(b"[") <= medium
                if not (is_flat and metadata.isascii()):
                    check_text(metadata, max_nesting)
                begin = after
                if head.event is not None and head.event in ends:
                    self._singles.append(BusObject(metadata, head, data[end + 1 : after]))
                    break
                objs.append(BusObject(metadata, head, data[end + 1 : after]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RemoteProtocolError):
            pass  # The object is read again by _read_event, which raises the exact error or is more tolerant.
        self._buffer.skip(begin - first)
        return objs

    def _read_event(self) -> BusObject | BadObject | None:
        if self._waiting is None and not self._read_metadata():
            return None
        waiting, size = self._waiting, self._size
        if len(self._buffer) < size:
            if not self._is_gathered:
                self._size -= len(self._buffer)
                self._buffer.skip(len(self._buffer))
            return None
        self._waiting = None
        payload = self._buffer.take(size) if size and self._is_gathered else b""
        self._buffer.skip(size - len(payload))
        return BusObject(self._metadata, waiting, payload) if isinstance(waiting, Head) else waiting

    def _read_metadata(self) -> bool:
        buffer = self._buffer
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
        except _Fault as fault:
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


def read_head(metadata: bytes, max_nesting: int = MAX_NESTING) -> Head:
    """Decode the attributes that routing needs.

    :raises RemoteProtocolError: the metadata is malformed.
    """
    check_text(metadata, max_nesting)
    try:
        head = _decode_head(metadata)
    except (msgspec.DecodeError, RecursionError):
        return _read_head_tolerantly(metadata)
    if head.size < 0:
        raise _bad_size(head.size)
    return head


def _read_head_tolerantly(metadata: bytes) -> Head:
    """The tolerant reader, for metadata that is not as strict as :class:`Head`. Its errors are exact."""
    text = metadata.decode()
    # simplejson would skip a byte order mark, even one that was encoded twice; JSON on a network has none (RFC 8259).
    if text[:1] in ("\ufeff", "\xef"):
        raise RemoteProtocolError("bad-json", "metadata is not JSON: a byte order mark at byte 0", 0)
    try:
        fields = simplejson.loads(text, parse_int=parse_int, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise bad_json(text, error) from error
    if not isinstance(fields, dict):
        raise RemoteProtocolError("not-an-object", f"metadata is {json_kind(fields)}, not a JSON object", 0)
    try:
        decode_raw(metadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise half_of_a_pair(metadata) or bad_json(text, error) from error
    return _head_from_fields(fields, metadata)


def _bad_size(size: Any) -> RemoteProtocolError:
    return RemoteProtocolError("bad-size", f"size is {brief(size)}, not a non-negative integer")


def _head_from_fields(fields: dict[str, Any], metadata: bytes) -> Head:
    size = fields.get("size", 0)
    if isinstance(size, VeryLarge) and size > 0:
        raise RemoteProtocolError("payload-too-large", "size is a very large number")
    if type(size) is not int or size < 0:
        raise _bad_size(size)
    identifier = fields.get("id", UNSET)
    if isinstance(identifier, (list, dict)) or identifier in _BEYOND:
        raise _fault(None, size, "id", "a string or a number", identifier)
    head = Head(size=size, id=identifier)
    for key in ("event", "type"):
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            raise _fault(identifier, size, key, "a string", value)
        setattr(head, key, value)
    head.to = _strings(fields, "to", identifier, size)
    natures = _strings(fields, "natures", identifier, size)
    if isinstance(natures, list) and len(natures) > MAX_NATURES:
        known = None if identifier is UNSET else identifier
        message = f"natures has at most {MAX_NATURES} elements, not {len(natures)}"
        raise _Fault(BadObject(known, "bad-attribute", message), size)
    head.natures = [natures] if isinstance(natures, str) else natures
    sender = fields.get("sender")
    head.sender = sender if sender is None or isinstance(sender, str) else ""
    if "route" in fields:
        head.route = decode_raw(metadata)["route"]
    return head


def _strings(fields: dict[str, Any], key: str, identifier: Any, size: int) -> str | list[str] | None:
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _fault(identifier, size, key, "a string or an array of strings", value)
    return value


def _fault(identifier: Any, size: int, key: str, wanted: str, value: Any) -> _Fault:
    known = None if identifier is UNSET else identifier
    return _Fault(BadObject(known, "bad-attribute", f"{key} must be {wanted}, not {brief(value)}"), size)


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
        metadata = encode_metadata(metadata, payload)
    return b"%b\0%b" % (metadata, payload)
