"""WebSocket (RFC 6455): the upgrade of an HTTP connection, then messages, each of which carries one object.

::

    -> GET any-path HTTP/1.1, Upgrade: websocket, Host: ..., [Origin: ...], [Sec-WebSocket-Protocol: objects]
    <- 101 Switching Protocols, or a refusal: 4xx or 503 with one sentence as its body

    message   = metadata NUL [payload]      the framing of :mod:`bussrv.wire.objects`, one object a message
              / metadata                    -> only: if there is no payload, the end of the message stands for NUL

    -> messages are binary or text, and may come in fragments
    <- messages are binary, each in one frame
    <> ping, pong and close frames; the text of a close frame of the server is the code of a reason

The server accepts no extension, so no message is compressed. wsproto reads the frames of a client piece by piece, so
that the length which a frame states costs no memory.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from operator import length_hint

import wsproto.utilities
from msgspec import Struct
from wsproto import events as ws
from wsproto.connection import ConnectionType
from wsproto.frame_protocol import CloseReason, Frame, FrameDecoder, MessageDecoder, Opcode, ParseFailed
from wsproto.handshake import H11Handshake

from bussrv.errors import RemoteProtocolError
from bussrv.wire.objects import MAX_METADATA, MAX_NESTING, MAX_PAYLOAD, NUL, BadObject, BusObject, ObjectReader
from bussrv.wire.reader import ReceiveBuffer

MAX_REQUEST = 16 << 10
"""The most bytes of the request for an upgrade."""

PIECE = 16 << 10
"""The bytes that are given to wsproto at a time."""

MOST_FRAGMENTS = 128
"""The most frames that are read before other clients are served. Frames may be empty, so bytes alone limit nothing."""

MOST_SKIPPED = 64 << 10
"""The most unread bytes of a client after the server's close frame. With more, the server waits no longer."""

SUBPROTOCOL = "objects"
"""The name that a client may ask for in ``Sec-WebSocket-Protocol``. It need not ask."""

END_OF_REQUEST = b"\r\n\r\n"
_FINAL = 0x80
_TWO_BYTES, _EIGHT_BYTES = 126, 127

KEY = 16
"""The bytes of a client's key."""

CODES_OF_CLIENTS = (range(1000, 1004), range(1007, 1015), range(3000, 5000))
"""The codes that a close frame may have: those of RFC 6455, section 7.4, and those that were registered since."""

CLOSE_CODES = {
    "client-closed": CloseReason.NORMAL_CLOSURE,
    "server-stopped": CloseReason.GOING_AWAY,
    "bad-frame": CloseReason.PROTOCOL_ERROR,
    "bad-message": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "bad-utf8": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "bad-json": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "not-an-object": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "bad-size": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "nesting-too-deep": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "metadata-too-large": CloseReason.MESSAGE_TOO_BIG,
    "payload-too-large": CloseReason.MESSAGE_TOO_BIG,
    "internal-error": CloseReason.INTERNAL_ERROR,
    "inbound-full": CloseReason.TRY_AGAIN_LATER,
}
"""The code of a close frame, by the reason for which a session ends. Other reasons have 1008, a violation of policy."""


class Upgrade(Struct, frozen=True):
    """A client asks for a WebSocket.

    :ivar host: the header ``Host``: the host that the client believes to have reached, and its port if there is one.
    :ivar origins: the header ``Origin``: the page that asks, according to its browser; empty if it is no browser.
    """

    host: str
    origins: tuple[str, ...]


class Pinged(Struct, frozen=True):
    """The client wants a pong with this payload."""

    payload: bytes


class ClosedByClient(Struct, frozen=True):
    """The client sent a close frame. Nothing follows it."""


class _Unfinished(Struct, frozen=True):
    """A fragment of an unfinished message, or a frame that needs no answer."""


Control = Upgrade | Pinged | ClosedByClient
_UNFINISHED = _Unfinished()


class WebSocketReader(ObjectReader):
    """Reads objects from the messages of one connection, and control frames; see :meth:`take_control`.

    :ivar has_close: whether the client sent a close frame, sound or not.
    :ivar has_more: whether reading stopped so that other clients are served, although there are more bytes.
    """

    def __init__(
        self, max_metadata: int = MAX_METADATA, max_payload: int = MAX_PAYLOAD, max_nesting: int = MAX_NESTING
    ) -> None:
        super().__init__(max_metadata, max_payload, max_nesting)
        self._raw = ReceiveBuffer()
        self._handshake: H11Handshake | None = None
        self._subprotocols: list[str] = []
        self._frames: FrameDecoder | None = None
        self._messages = MessageDecoder()
        self._control: Control | None = None
        self._whole: BusObject | BadObject | None = None
        self._bad: BadObject | None = None
        self.has_more = self._is_asked = self._is_closed = self._has_closed = self.has_close = False

    @property
    def is_clear(self) -> bool:
        """Chunks are made of frames: all of them have to be read here."""
        return False

    @property
    def is_idle(self) -> bool:
        """See :class:`ObjectReader`. Chunks are no objects."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether the upgrade was granted."""
        return self._frames is not None

    def __len__(self) -> int:
        """How many bytes wait to be read."""
        return len(self._raw) + len(self._buffer)

    def skip_to_close(self) -> bool:
        """Look for the close frame of the client, after the server has sent its own.

        :returns: whether the client has sent it, or never will.
        """
        if self._frames is None or self._is_closed or len(self._raw) > MOST_SKIPPED:
            return True
        try:
            for _ in range(MOST_FRAGMENTS):
                frame = self._next_frame(self._frames)
                if frame is None:
                    return False
                if frame.opcode is Opcode.CLOSE:
                    return True
        except ParseFailed:
            return True
        return False

    def stretch(self) -> None:
        """Messages are not in one piece."""

    def feed(self, data: bytes) -> None:
        """Add a chunk."""
        self._raw.feed(data)

    def take_control(self) -> Control | None:
        """Take the upgrade, ping or close frame that is next; ``None``: another thing is next.

        No further object is read before it is taken.
        """
        control, self._control = self._control, None
        return control

    def next_event(self) -> BusObject | BadObject | None:
        """The next object; ``None``: more bytes are needed, or :meth:`take_control` or :attr:`has_more` says why."""
        for obj in self.batch():
            return obj
        if self._singles:
            return self._singles.popleft()
        bad, self._bad = self._bad, None
        if bad is None and self._control is None and self._error is not None:
            raise self._error
        return bad

    def batch(self) -> Iterator[BusObject]:
        """Some of the next objects; see :meth:`ObjectReader.batch`."""
        stops = self._singles or self._bad is not None or self._control is not None or self._error is not None
        if not (stops or length_hint(self._ahead)):
            self._ahead = iter(self._read_messages())
        return self._ahead

    def _read_messages(self) -> list[BusObject]:
        objs: list[BusObject] = []
        self.has_more = False
        try:
            for _ in range(MOST_FRAGMENTS):
                found = self._read_something()
                if found is None:
                    return objs
                if isinstance(found, BusObject) and found.head.event not in self.ends:
                    objs.append(found)
                elif not isinstance(found, _Unfinished):
                    if isinstance(found, BusObject):
                        self._singles.append(found)
                    elif isinstance(found, BadObject):
                        self._bad = found
                    else:
                        self._control = found
                    return objs
            self.has_more = True
        except RemoteProtocolError as error:
            self._error = error
        return objs

    def _read_something(self) -> BusObject | BadObject | Control | _Unfinished | None:
        """An object, a control frame or a fragment; ``None``: more bytes are needed."""
        if self._frames is None:
            return None if self._is_asked else self._read_request()
        if self._is_closed:
            self._raw.skip(len(self._raw))
            return None
        try:
            frame = self._next_frame(self._frames)
            return None if frame is None else self._read_frame(frame)
        except ParseFailed as error:
            self._is_closed = True
            raise _bad_frame(error) from error

    def _next_frame(self, frames: FrameDecoder) -> Frame | None:
        """The next frame, or the part of a large one that is there."""
        frame = frames.process_buffer()
        while frame is None and len(self._raw):
            frames.receive_bytes(self._raw.take(min(PIECE, len(self._raw))))
            frame = frames.process_buffer()
        self._check_length(frames)
        return frame

    def _check_length(self, frames: FrameDecoder) -> None:
        """Refuse a frame that no message has room for as soon as its header is there."""
        most = self._max_metadata + len(NUL) + self._max_payload
        if frames.header is not None and frames.header.payload_len > most and not self._has_closed:
            self._is_closed = True
            length = frames.header.payload_len
            raise RemoteProtocolError("payload-too-large", f"a frame has {length} bytes, the most is {most} bytes")

    def _read_request(self) -> Upgrade | None:
        length = self._raw.find(END_OF_REQUEST, MAX_REQUEST)
        if length < 0:
            if len(self._raw) >= MAX_REQUEST:
                raise RemoteProtocolError("bad-upgrade", f"the request has more than {MAX_REQUEST} bytes")
            return None
        self._handshake = handshake = H11Handshake(ConnectionType.SERVER)
        head = self._raw.take(length + len(END_OF_REQUEST))
        try:
            handshake.receive_data(head)
            request = next(handshake.events(), None)
        except wsproto.utilities.RemoteProtocolError as error:
            if getattr(error.event_hint, "status_code", None) == HTTPStatus.UPGRADE_REQUIRED:
                message = "this server speaks version 13 of WebSocket, and the request is for another"
                raise RemoteProtocolError("bad-upgrade", message) from error
            raise RemoteProtocolError("bad-upgrade", f"that is no request for a WebSocket: {error}") from error
        except ValueError as error:
            # wsproto cannot decode the bytes of a header.
            raise RemoteProtocolError("bad-upgrade", "that is no request for a WebSocket: bad header") from error
        if not isinstance(request, ws.Request):
            raise RemoteProtocolError("bad-upgrade", "that is no request for a WebSocket")
        _check_request(head, [value for name, value in request.extra_headers if name == b"sec-websocket-key"])
        self._is_asked = True
        self._subprotocols = request.subprotocols
        origins = tuple(value.decode("latin-1") for name, value in request.extra_headers if name == b"origin")
        return Upgrade(request.host, origins)

    def _read_frame(self, frame: Frame) -> BusObject | BadObject | Control | _Unfinished:
        if not frame.opcode.iscontrol():
            return self._read_fragment(self._messages.process_frame(frame))
        if frame.opcode is Opcode.PING:
            return Pinged(_bytes(frame))
        if frame.opcode is Opcode.CLOSE:
            self._is_closed = self.has_close = True
            _check_close(_bytes(frame))
            return ClosedByClient()
        return _UNFINISHED  # a pong

    def _read_fragment(self, fragment: Frame) -> BusObject | BadObject | _Unfinished:
        self._buffer.feed(_bytes(fragment))
        if self._whole is None:
            self._whole = self._read_event()
        if fragment.message_finished and self._whole is self._waiting is None and len(self._buffer):
            # Metadata without a payload may end with the message.
            self._buffer.feed(NUL)
            self._whole = self._read_event()
        if self._whole is not None and len(self._buffer):
            raise RemoteProtocolError("bad-message", "a message holds more than one object")
        if not fragment.message_finished:
            return _UNFINISHED
        found, self._whole = self._whole, None
        if found is None:
            raise RemoteProtocolError("bad-message", "a message ends before its object does")
        return found

    # Bytes of the server that are no objects.

    def accept(self) -> bytes:
        """Grant the upgrade. :returns: the response."""
        handshake, self._handshake = self._handshake, None
        assert handshake is not None, "an upgrade is granted once, after it was asked for"
        chosen = SUBPROTOCOL if SUBPROTOCOL in self._subprotocols else None
        response = handshake.send(ws.AcceptConnection(subprotocol=chosen))
        self._frames = FrameDecoder(client=False)
        return response

    def close(self, reason: str) -> bytes:
        """The close frame for a reason; empty if there is no WebSocket, or it was sent before."""
        if self._frames is None or self._has_closed:
            return b""
        self._has_closed = True
        code = CLOSE_CODES.get(reason, CloseReason.POLICY_VIOLATION)
        return _frame(Opcode.CLOSE, code.to_bytes(2, "big") + reason.encode())


def _check_request(head: bytes, keys: Sequence[bytes]) -> None:
    """Check what wsproto does not look at.

    :raises RemoteProtocolError: ``bad-upgrade``.
    """
    if not head.partition(b"\r\n")[0].endswith(b" HTTP/1.1"):
        raise RemoteProtocolError("bad-upgrade", "a WebSocket is asked for in HTTP/1.1")
    try:
        sizes = [len(b64decode(key, validate=True)) for key in keys]
    except ValueError:
        sizes = []
    if sizes != [KEY]:
        raise RemoteProtocolError("bad-upgrade", f"Sec-WebSocket-Key is not one key of {KEY} bytes in base64")


def _check_close(payload: bytes) -> None:
    """Check the payload of a close frame: nothing, or a code and a text.

    :raises RemoteProtocolError: ``bad-frame`` or ``bad-utf8``.
    """
    if not payload:
        return
    code = int.from_bytes(payload[:2], "big")
    if len(payload) < 2 or not any(code in codes for codes in CODES_OF_CLIENTS):
        what = f"the code {code}" if len(payload) > 1 else "half a code"
        raise RemoteProtocolError("bad-frame", f"a close frame has {what}, which no close frame may have")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("bad-utf8", "the text of a close frame is not UTF-8") from None


def _bytes(frame: Frame) -> bytes:
    payload = frame.payload
    assert not isinstance(payload, tuple), "the decoder of frames takes no close frame apart"
    return payload.encode() if isinstance(payload, str) else bytes(payload)


def _bad_frame(error: ParseFailed) -> RemoteProtocolError:
    if error.code == CloseReason.INVALID_FRAME_PAYLOAD_DATA:
        return RemoteProtocolError("bad-utf8", f"a text message is not UTF-8: {error}")
    return RemoteProtocolError("bad-frame", f"that is no frame of WebSocket: {error}")


def _frame(opcode: Opcode, payload: bytes) -> bytes:
    """A whole frame of the server. It is not masked, so that clients can share its bytes."""
    size, first = len(payload), _FINAL | opcode
    if size < _TWO_BYTES:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, _TWO_BYTES)) + size.to_bytes(2, "big") + payload
    return bytes((first, _EIGHT_BYTES)) + size.to_bytes(8, "big") + payload


PING = _frame(Opcode.PING, b"")


def pong(payload: bytes) -> bytes:
    """The pong frame that answers a ping."""
    return _frame(Opcode.PONG, payload)


def as_messages(frames: Sequence[bytes]) -> list[bytes]:
    """Objects as binary messages of the server."""
    return [_frame(Opcode.BINARY, frame) for frame in frames]


def refusal(status: HTTPStatus, sentence: str) -> bytes:
    """A response that refuses a WebSocket to a client."""
    body = f"{sentence}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
    )
    if status is HTTPStatus.UPGRADE_REQUIRED:
        head += "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    return f"{head}\r\n".encode() + body
