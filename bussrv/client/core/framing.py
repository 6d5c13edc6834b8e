"""How objects travel: as they are, or in messages of a WebSocket (RFC 6455)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct
from wsproto import ConnectionType, WSConnection
from wsproto import events as ws
from wsproto.connection import ConnectionState
from wsproto.utilities import LocalProtocolError
from wsproto.utilities import RemoteProtocolError as WsProtocolError

from bussrv.client.address import Address
from bussrv.errors import RemoteProtocolError
from bussrv.wire.faults import check_text
from bussrv.wire.head import MAX_NESTING, Fault, read_head
from bussrv.wire.objects import MAX_ADDED, MAX_METADATA, NUL, decode_fields
from bussrv.wire.websocket import SUBPROTOCOL

_MOST_METADATA = MAX_METADATA + MAX_ADDED
# Whatever an object has by the last two names is written over.
_NAMES = {"in_reply_to": "in-reply-to", "raw": "~raw", "payload": "~payload"}
_MOST_EMPTY = 1000
"""The most frames of a chunk that carry no object. A chunk may hold a hundred thousand, which take seconds to read."""


class Arrived(Struct, gc=False, rename=_NAMES):
    """An object of the server, with the attributes that a client needs.

    :ivar raw: its metadata.
    """

    event: str | None = None
    type: str | None = None
    size: int = 0
    sender: str | None = None
    name: str | None = None
    in_reply_to: str | int | None = None
    raw: bytes = b""
    payload: bytes = b""


_decode = msgspec.json.Decoder(Arrived).decode


class PlainFraming:
    """Objects one after the other. Makes bytes of objects, and objects of bytes, over one connection.

    :param max_payload: the most bytes of a payload.
    :ivar rest: the beginning of an object that is not whole.
    """

    def __init__(self, max_payload: int) -> None:
        self._max_payload = max_payload
        self.rest = bytearray()
        self._needed = 0

    def greeting(self) -> bytes:
        """The bytes to send before everything else: none."""
        return b""

    def frame(self, data: bytes) -> bytes:
        """The bytes that carry an object: the object itself."""
        return data

    def farewell(self) -> bytes:
        """The bytes to send before the connection is closed: none."""
        return b""

    def feed(self, data: bytes, found: list[Arrived]) -> bytes:
        """Bytes came. :returns: what is to be sent.

        :param found: is given the objects in them; also those before something malformed.
        :raises RemoteProtocolError: they are malformed.
        """
        if self.rest:
            self.rest += data
            if len(self.rest) < self._needed:
                return b""
            data = bytes(self.rest)
        begin = self._read(data, found)
        self.rest = bytearray(data[begin:]) if begin < len(data) else bytearray()
        return b""

    def _read(self, data: bytes, found: list[Arrived]) -> int:
        """:returns: where the rest begins."""
        find, length, begin = data.find, len(data), 0
        while begin < length:
            end = find(NUL, begin)
            if (end if end >= 0 else length) - begin > _MOST_METADATA:
                raise RemoteProtocolError("metadata-too-large", f"metadata has more than {_MOST_METADATA} bytes")
            if end < 0:
                self._needed = 0
                break
            raw = data[begin:end]
            arrived = read(raw)
            after = end + 1 + arrived.size
            if arrived.size > self._max_payload:
                raise RemoteProtocolError(
                    "payload-too-large", f"a payload has {arrived.size} bytes, the most is {self._max_payload}"
                )
            if after > length:
                self._needed = after - begin
                break
            arrived.raw, arrived.payload = raw, data[end + 1 : after]
            found.append(arrived)
            begin = after
        return begin


def read(raw: bytes) -> Arrived:
    """Read metadata, except that the object gets its parts later. :raises RemoteProtocolError: it is malformed."""
    # Metadata that nests deeper than is allowed has as many brackets.
    if not raw.isascii() or raw.count(b"[") + raw.count(b"{") > MAX_NESTING:
        check_text(raw, MAX_NESTING)
    try:
        arrived = _decode(raw)
        if arrived.size >= 0:
            return arrived
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return _read_tolerantly(raw)


def _read_tolerantly(raw: bytes) -> Arrived:
    """Attributes of unexpected kinds count as absent. Only the size has to be right."""
    try:
        size = read_head(raw).size
    except Fault as fault:
        size = fault.size
    fields = decode_fields(raw)
    event, content_type, sender, name = (
        value if isinstance(value := fields.get(each), str) else None for each in ("event", "type", "sender", "name")
    )
    answered = fields.get("in-reply-to")
    return Arrived(event, content_type, size, sender, name, answered if isinstance(answered, (str, int)) else None)


class WebSocketFraming:
    """One object in each message. Objects that are sent before the server has accepted the upgrade wait for that."""

    def __init__(self, address: Address, max_payload: int) -> None:
        self._address = address
        self._most = _MOST_METADATA + len(NUL) + max_payload
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._waiting: list[bytes] | None = []
        self._message = bytearray()
        self._reader = PlainFraming(max_payload)
        self._refusal: str | None = None

    def greeting(self) -> bytes:
        """The request for the upgrade."""
        return self._connection.send(ws.Request(str(self._address), self._address.path, subprotocols=[SUBPROTOCOL]))

    def frame(self, data: bytes) -> bytes:
        """A message; nothing after a close frame. Before the upgrade: it comes later, with :meth:`feed`."""
        if self._waiting is not None:
            self._waiting.append(data)
        elif self._connection.state is ConnectionState.OPEN:
            return self._connection.send(ws.BytesMessage(data))
        return b""

    def farewell(self) -> bytes:
        """A close frame."""
        try:
            return self._connection.send(ws.CloseConnection(1000)) if self._waiting is None else b""
        except LocalProtocolError:
            return b""  # It was sent already, in answer to the server's.

    def feed(self, data: bytes, found: list[Arrived]) -> bytes:
        """See :class:`PlainFraming`."""
        output: list[bytes] = []
        try:
            self._connection.receive_data(data)
            for number, event in enumerate(self._connection.events(), 1):
                output.append(self._take(event, found))
                if number > len(found) + _MOST_EMPTY:
                    raise RemoteProtocolError("bad-frame", f"over {_MOST_EMPTY} frames in one go carry no object")
        except (WsProtocolError, LocalProtocolError) as error:
            raise _bad_frame(error) from error
        return b"".join(output)

    def _take(self, event: ws.Event, found: list[Arrived]) -> bytes:
        if isinstance(event, (ws.BytesMessage, ws.TextMessage)):
            data = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
            self._take_part(data, event.message_finished, found)
        elif isinstance(event, ws.Ping):
            return self._connection.send(event.response())
        elif isinstance(event, ws.AcceptConnection):
            waiting, self._waiting = self._waiting or [], None
            return b"".join(map(self.frame, waiting))
        elif isinstance(event, ws.RejectConnection):
            self._refusal = f"the server refused the upgrade with {event.status_code}"
            if not event.has_body:
                raise RemoteProtocolError("bad-upgrade", self._refusal)
        elif isinstance(event, ws.RejectData) and event.body_finished:
            raise RemoteProtocolError("bad-upgrade", self._refusal or "the server refused the upgrade")
        elif isinstance(event, ws.CloseConnection):
            if self._connection.state is ConnectionState.OPEN:
                # That is no close frame. So wsproto says that a frame is malformed.
                raise _bad_frame(event.reason)
            raise RemoteProtocolError(event.reason or "connection-lost", "the server closed the WebSocket")
        return b""

    def _take_part(self, data: bytes, is_last: bool, found: list[Arrived]) -> None:
        self._message += data
        if len(self._message) > self._most:
            raise RemoteProtocolError("payload-too-large", f"a message has over {self._most} bytes")
        if is_last:
            message, self._message = bytes(self._message), bytearray()
            objects: list[Arrived] = []
            self._reader.feed(message if NUL in message else message + NUL, objects)
            if len(objects) != 1 or self._reader.rest:
                raise RemoteProtocolError("bad-message", "a message of the server is not one whole object")
            found += objects


Framing: TypeAlias = PlainFraming | WebSocketFraming


def _bad_frame(why: object) -> RemoteProtocolError:
    return RemoteProtocolError("bad-frame", f"the server does not speak as a WebSocket does: {why}")
