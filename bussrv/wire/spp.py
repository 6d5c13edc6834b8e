r"""The Service providing protocol: packets on TCP. Source: seed 003: Service providing protocol.

An INTEGER is unsigned, has 32 bits, and its most significant byte comes first. A STRING is an INTEGER, its length in
bytes, and then as many bytes. Service ids are UTF-8; messages are bytes.

::

    offset  size  field
    0       4     msgtype
    4       4     length        of what follows, in bytes; at most 1 MiB by default
    8       ...   data          `length` bytes

    msgtype          direction   data
    0                -> <-       anything       test value, ignored
    1                ->          STRING service                   subscribe
    1                <-          STRING service                   offer
    2                ->          STRING service                   unsubscribe
    2                <-          STRING service                   removed
    16               <-          STRING service, STRING message   info
    3-31             ->          anything       reserved, ignored
    3-15, 17-31      <-          anything       reserved, ignored
    32-              -> <-       anything       other messages; of them bussrv knows two:
    32               ->          STRING user, STRING secret       authenticate
    33               <-          INTEGER code                     its result; 0: accepted

Bytes of a packet after its last field are skipped: a later version of the protocol may put something there.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Layout
from typing import Literal, TypeAlias

from msgspec import Struct

from bussrv.errors import RemoteProtocolError
from bussrv.wire.reader import StreamReader

MAX_PACKET = 1 << 20
"""The most bytes of data in a packet, unless told otherwise."""

SUBSCRIBE = 1
UNSUBSCRIBE = 2
OFFER = 1
REMOVED = 2
INFO = 16
FIRST_OTHER = 32
AUTHENTICATE = 32
AUTH_RESULT = 33

AUTH_ACCEPTED, AUTH_REFUSED, AUTH_UNCHECKED = range(3)
"""Codes of an answer. ``AUTH_UNCHECKED``: too many logins wait, so the client may try again."""

_HEADER = Layout(">II")
_INTEGER = Layout(">I")
_MAX_INTEGER = 0xFFFFFFFF
_INFO_TYPE = _INTEGER.pack(INFO)

Side: TypeAlias = Literal["client", "server"]


class Subscribe(Struct, frozen=True):
    """A client wants a service."""

    service: str


class Unsubscribe(Struct, frozen=True):
    """A client wants a service no longer."""

    service: str


class Offer(Struct, frozen=True):
    """The server offers a service from now on."""

    service: str


class Removed(Struct, frozen=True):
    """The server offers a service no longer; those who are subscribed keep receiving."""

    service: str


class Info(Struct, frozen=True):
    """A service tells its subscribers something: its state at first, and then what changes."""

    service: str
    message: bytes


class Ignored(Struct, frozen=True):
    """A packet without meaning: type 0, or a reserved type. Returned as soon as its header is there."""

    msgtype: int


class Other(Struct, frozen=True):
    """A packet of type 32 or above, which the protocol leaves to extensions, such as a login."""

    msgtype: int
    data: bytes


Event: TypeAlias = Subscribe | Unsubscribe | Offer | Removed | Info | Ignored | Other

_NAMED: dict[str, dict[int, type[Subscribe | Unsubscribe | Offer | Removed]]] = {
    "client": {SUBSCRIBE: Subscribe, UNSUBSCRIBE: Unsubscribe},
    "server": {OFFER: Offer, REMOVED: Removed},
}


class SppReader(StreamReader[Event]):
    """Reads the packets of one connection.

    Between calls it holds at most one packet, once :meth:`next_event` has returned ``None``. That raises
    ``packet-too-large``, ``packet-too-short``, ``string-overruns-packet`` or ``bad-utf8``; positions count from the
    start of the packet.

    :param side: the sender of the packets that are read: ``client`` or ``server``.
    :param max_packet: the most bytes of data in a packet. One that announces more is refused when its header is there.
    """

    def __init__(self, side: Side, max_packet: int = MAX_PACKET) -> None:
        super().__init__()
        self._named = _NAMED[side]
        self._reads_info = side == "server"
        self._max_packet = max_packet
        self._skip = 0

    def limit(self, max_packet: int) -> None:
        """From now on packets have at most so many bytes of data."""
        self._max_packet = max_packet

    def read_event(self) -> Event | None:
        """The next packet; see :meth:`StreamReader.read_event`."""
        buffer = self.buffer
        if self._skip:
            skipped = min(self._skip, len(buffer))
            buffer.skip(skipped)
            self._skip -= skipped
        if len(buffer) < _HEADER.size:
            return None
        msgtype, length = _HEADER.unpack(buffer.peek(_HEADER.size))
        if length > self._max_packet:
            raise RemoteProtocolError(
                "packet-too-large", f"a packet of {length} bytes, the most is {self._max_packet}", _INTEGER.size
            )
        if not self._is_known(msgtype):
            buffer.skip(_HEADER.size)
            self._skip = length
            return Ignored(msgtype)
        size = _HEADER.size + length
        if len(buffer) < size:
            return None
        return self._read_packet(msgtype, buffer.take(size))

    def _is_known(self, msgtype: int) -> bool:
        return msgtype in self._named or msgtype >= FIRST_OTHER or (msgtype == INFO and self._reads_info)

    def _read_packet(self, msgtype: int, packet: bytes) -> Event:
        if msgtype >= FIRST_OTHER:
            return Other(msgtype, packet[_HEADER.size :])
        service, end = _read_text(packet, _HEADER.size, "service")
        if msgtype == INFO:
            message, _ = _read_string(packet, end, "message")
            return Info(service, message)
        return self._named[msgtype](service)


def _read_string(packet: bytes, start: int, field: str) -> tuple[bytes, int]:
    """The STRING at ``start``, and where it ends."""
    end = start + _INTEGER.size
    if end > len(packet):
        raise RemoteProtocolError("packet-too-short", f"the packet ends before the length of its {field}", start)
    (size,) = _INTEGER.unpack_from(packet, start)
    if end + size > len(packet):
        raise RemoteProtocolError(
            "string-overruns-packet", f"the {field} has {size} bytes, the packet only {len(packet) - end} more", start
        )
    return packet[end : end + size], end + size


def _read_text(packet: bytes, start: int, field: str) -> tuple[str, int]:
    raw, end = _read_string(packet, start, field)
    try:
        return raw.decode(), end
    except UnicodeDecodeError as error:
        position = start + _INTEGER.size + error.start
        raise RemoteProtocolError(
            "bad-utf8", f"the {field} is not UTF-8: {error.reason} at byte {position}", position
        ) from error


def service_of_info(packet: bytes) -> str | None:
    """The service id of a packet of type 16 that :func:`info` made; ``None`` for every other packet."""
    if not packet.startswith(_INFO_TYPE):
        return None
    start = _HEADER.size + _INTEGER.size
    (size,) = _INTEGER.unpack_from(packet, _HEADER.size)
    return packet[start : start + size].decode()


def credentials(data: bytes) -> tuple[str, str]:
    """The user and the secret in the data of a packet of type 32.

    :raises RemoteProtocolError: as :meth:`SppReader.next_event` does; the message never quotes the secret.
    """
    packet = bytes(_HEADER.size) + data
    user, end = _read_text(packet, _HEADER.size, "user")
    secret, _ = _read_text(packet, end, "secret")
    return user, secret


def auth_code(data: bytes) -> int:
    """The code in the data of a packet of type 33, such as :data:`AUTH_ACCEPTED`.

    :raises RemoteProtocolError: ``packet-too-short``.
    """
    if len(data) < _INTEGER.size:
        raise RemoteProtocolError("packet-too-short", "the packet ends before its code", _HEADER.size)
    (code,) = _INTEGER.unpack_from(data)
    return int(code)


def subscribe(service: str) -> bytes:
    """``->`` The packet that subscribes. :raises ValueError: the name cannot be UTF-8 (so do all that take names)."""
    return _packet(SUBSCRIBE, _string(service.encode()))


def unsubscribe(service: str) -> bytes:
    """``->`` The packet that unsubscribes."""
    return _packet(UNSUBSCRIBE, _string(service.encode()))


def offer(service: str) -> bytes:
    """``<-`` The packet that offers a service."""
    return _packet(OFFER, _string(service.encode()))


def removed(service: str) -> bytes:
    """``<-`` The packet that says that a service is gone."""
    return _packet(REMOVED, _string(service.encode()))


def info(service: str, message: bytes) -> bytes:
    """``<-`` The packet that carries a message of a service."""
    return _packet(INFO, _string(service.encode()) + _string(message))


def infos(service: str, messages: Iterable[bytes]) -> list[bytes]:
    """``<-`` The packets that carry messages of one service, each as :func:`info` makes it."""
    name = _string(service.encode())
    fields = Layout(f">II{len(name)}sI")
    pack, rest = fields.pack, fields.size - _HEADER.size
    return [pack(INFO, rest + len(message), name, len(message)) + message for message in messages]


def authenticate(user: str, secret: str) -> bytes:
    """``->`` The packet that authenticates."""
    return _packet(AUTHENTICATE, _string(user.encode()) + _string(secret.encode()))


def auth_result(code: int) -> bytes:
    """``<-`` The packet that answers it, with a code such as :data:`AUTH_ACCEPTED`.

    :raises ValueError: ``code`` is no INTEGER.
    """
    if not 0 <= code <= _MAX_INTEGER:
        raise ValueError(f"a code is an unsigned integer of 32 bits, not {code}")
    return _packet(AUTH_RESULT, _INTEGER.pack(code))


def other(msgtype: int, data: bytes) -> bytes:
    """``->`` ``<-`` A packet of another type. :raises ValueError: ``msgtype`` belongs to the protocol."""
    if not FIRST_OTHER <= msgtype <= _MAX_INTEGER:
        raise ValueError(f"other messages have types from {FIRST_OTHER} to {_MAX_INTEGER}, not {msgtype}")
    return _packet(msgtype, data)


def _packet(msgtype: int, data: bytes) -> bytes:
    return _HEADER.pack(msgtype, len(data)) + data


def _string(data: bytes) -> bytes:
    return _INTEGER.pack(len(data)) + data
