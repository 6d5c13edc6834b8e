"""WebSocket (RFC 6455): the upgrade of an HTTP connection, then frames, whatever their messages carry.

::

    -> GET any-path HTTP/1.1, Upgrade: websocket, Host: ..., [Origin: ...], [Sec-WebSocket-Protocol: name, ...]
    <- 101 Switching Protocols, or a refusal: 4xx or 503 with one sentence as its body

    -> messages may come in fragments
    <- messages are binary, each in one frame
    <> ping, pong and close frames; the text of a close frame of the server is the code of a reason

The server accepts no extension, so no message is compressed. wsproto reads the frames of a client piece by piece, so
that the length which a frame states costs no memory.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from http import HTTPStatus

import wsproto.utilities
from msgspec import Struct
from wsproto import events as ws
from wsproto.connection import ConnectionType
from wsproto.frame_protocol import CloseReason, Frame, FrameDecoder, MessageDecoder, Opcode, ParseFailed
from wsproto.handshake import H11Handshake

from bussrv.errors import RemoteProtocolError
from bussrv.wire.reader import ReceiveBuffer

MAX_REQUEST = 16 << 10
"""The most bytes of the request for an upgrade."""

PIECE = 16 << 10
"""The bytes that are given to wsproto at a time."""

MOST_FRAGMENTS = 128
"""The most frames that are read before other clients are served. Frames may be empty, so bytes alone limit nothing."""

MOST_SKIPPED = 64 << 10
"""The most unread bytes of a client after the server's close frame. With more, the server waits no longer."""

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
    "not-binary": CloseReason.UNSUPPORTED_DATA,
    "bad-message": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "bad-utf8": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "bad-json": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "not-an-object": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "bad-size": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "nesting-too-deep": CloseReason.INVALID_FRAME_PAYLOAD_DATA,
    "metadata-too-large": CloseReason.MESSAGE_TOO_BIG,
    "payload-too-large": CloseReason.MESSAGE_TOO_BIG,
    "packet-too-large": CloseReason.MESSAGE_TOO_BIG,
    "internal-error": CloseReason.INTERNAL_ERROR,
    "inbound-full": CloseReason.TRY_AGAIN_LATER,
}
"""The code of a close frame, by the reason for which a session ends. Other reasons have 1008, a violation of policy."""

_SUBPROTOCOLS = re.compile(rb"\r\nsec-websocket-protocol[ \t]*:([^\r\n]*)", re.IGNORECASE)


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


class Fragment(Struct, frozen=True):
    """Some bytes of a message. Those of a text message are UTF-8.

    :ivar is_last: whether the message ends with them.
    """

    payload: bytes
    is_last: bool


class Nothing(Struct, frozen=True):
    """A frame that needs no answer."""


Control = Upgrade | Pinged | ClosedByClient
_NOTHING = Nothing()


class FrameReader:
    """Reads the upgrade and the frames of one connection.

    :param subprotocol: is agreed on if the client offers it.
    :param takes_text: whether messages may be text.
    :param most: the most bytes of a frame; ``None``: a frame may be of any size.
    :ivar has_close: whether the client sent a close frame, sound or not.
    :ivar size: how many bytes came so far.
    """

    def __init__(self, subprotocol: str, *, takes_text: bool, most: int | None = None) -> None:
        self.most = most
        self._takes_text = takes_text
        self.has_close = False
        self.size = 0
        self._subprotocol = subprotocol
        self._raw = ReceiveBuffer()
        self._handshake: H11Handshake | None = None
        self._offered: list[str] = []
        self._decoder: FrameDecoder | None = None
        self._messages = MessageDecoder()
        self._is_asked = self._is_closed = self._has_closed = False

    @property
    def is_open(self) -> bool:
        """Whether the upgrade was granted."""
        return self._decoder is not None

    def __len__(self) -> int:
        """How many bytes wait to be read."""
        return len(self._raw)

    def feed(self, data: bytes) -> None:
        """Add a chunk."""
        self.size += len(data)
        self._raw.feed(data)

    def clear(self) -> None:
        """Forget what waits."""
        self._raw = ReceiveBuffer()

    def read(self) -> Fragment | Control | Nothing | None:
        """What comes next; ``None``: more bytes are needed. A large frame comes in several fragments.

        :raises RemoteProtocolError: ``bad-upgrade``, ``bad-frame``, ``bad-utf8``, ``not-binary``,
            ``payload-too-large``.
        """
        if self._decoder is None:
            return None if self._is_asked else self._read_request()
        if self._is_closed:
            self._raw.skip(len(self._raw))
            return None
        try:
            frame = self._next_frame(self._decoder)
            return None if frame is None else self._read_frame(frame)
        except ParseFailed as error:
            self._is_closed = True
            raise _bad_frame(error) from error

    def skip_to_close(self) -> bool:
        """Look for the close frame of the client, after the server has sent its own.

        :returns: whether the client has sent it, or never will.
        """
        if self._decoder is None or self._is_closed or len(self._raw) > MOST_SKIPPED:
            return True
        try:
            for _ in range(MOST_FRAGMENTS):
                frame = self._next_frame(self._decoder)
                if frame is None:
                    return False
                if frame.opcode is Opcode.CLOSE:
                    return True
        except ParseFailed:
            return True
        return False

    def _next_frame(self, decoder: FrameDecoder) -> Frame | None:
        """The next frame, or the part of a large one that is there."""
        frame = decoder.process_buffer()
        while frame is None and len(self._raw):
            decoder.receive_bytes(self._raw.take(min(PIECE, len(self._raw))))
            frame = decoder.process_buffer()
        self._check_length(decoder)
        return frame

    def _check_length(self, decoder: FrameDecoder) -> None:
        """Refuse a frame that no message has room for as soon as its header is there."""
        most, header = self.most, decoder.header
        if most is not None and header is not None and header.payload_len > most and not self._has_closed:
            self._is_closed = True
            length = header.payload_len
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
        self._offered = request.subprotocols
        origins = tuple(value.decode("latin-1") for name, value in request.extra_headers if name == b"origin")
        return Upgrade(request.host, origins)

    def _read_frame(self, frame: Frame) -> Fragment | Control | Nothing:
        if not frame.opcode.iscontrol():
            if frame.opcode is Opcode.TEXT and not self._takes_text:
                self._is_closed = True
                raise RemoteProtocolError("not-binary", "a message is text, and has to be binary")
            part = self._messages.process_frame(frame)
            return Fragment(_bytes(part), part.message_finished)
        if frame.opcode is Opcode.PING:
            return Pinged(_bytes(frame))
        if frame.opcode is Opcode.CLOSE:
            self._is_closed = self.has_close = True
            _check_close(_bytes(frame))
            return ClosedByClient()
        return _NOTHING  # a pong

    # Bytes of the server that are no messages.

    def accept(self) -> bytes:
        """Grant the upgrade. :returns: the response."""
        handshake, self._handshake = self._handshake, None
        assert handshake is not None, "an upgrade is granted once, after it was asked for"
        chosen = self._subprotocol if self._subprotocol in self._offered else None
        response = handshake.send(ws.AcceptConnection(subprotocol=chosen))
        self._decoder = FrameDecoder(client=False)
        return response

    def close(self, reason: str) -> bytes:
        """The close frame for a reason; empty if there is no WebSocket, or it was sent before."""
        if self._decoder is None or self._has_closed:
            return b""
        self._has_closed = True
        code = CLOSE_CODES.get(reason, CloseReason.POLICY_VIOLATION)
        return _frame(Opcode.CLOSE, code.to_bytes(2, "big") + reason.encode())


def offered(head: bytes) -> list[str]:
    """The subprotocols that a client offers, the one that it likes most first.

    :param head: of its request, without the line that ends it; whether it is sound, :class:`FrameReader` finds out.
    """
    values = b",".join(_SUBPROTOCOLS.findall(head)).decode("latin-1").split(",")
    return [each.strip(" \t") for each in values]


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
    """Each of some frames of a wire format as a binary message of the server."""
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
