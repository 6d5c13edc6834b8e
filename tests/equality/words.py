"""The bytes of the stream formats, read and written as plainly as the seeds (000, 002, 003) describe them.

Nothing of :mod:`bussrv` is used, and nothing is remembered between two calls: a stream is bytes, and what is first in
it is looked for from its beginning every time.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_PACKET = 1 << 20


@dataclass
class Said:
    """An object that is well framed.

    :ivar wrong: whether a standard attribute of it has a value of the wrong kind.
    """

    fields: dict[str, Any]
    payload: bytes = b""
    wrong: bool = False


@dataclass
class Packet:
    """An SPP packet that means something, or ``ignored``."""

    name: str
    service: str = ""
    message: bytes = b""


@dataclass
class Malformed:
    """What ends a stream: nothing behind it has a meaning."""

    reason: str


@dataclass
class Stream:
    """What came of a stream and was not taken yet."""

    first: Callable[[bytes], tuple[Any, int]]
    data: bytes = b""

    def next(self) -> Any:
        """What is first in it, which goes; ``None`` if it is not whole."""
        found, size = self.first(self.data)
        self.data = self.data[size:]
        return found


# Objects: metadata, NUL, payload.


def first_object(data: bytes) -> tuple[Said | Malformed | None, int]:
    """The object that ``data`` begins with, and how many bytes it has."""
    metadata, nul, rest = data.partition(b"\0")
    if not nul:
        return None, 0
    try:
        fields = json.loads(metadata.decode())
    except UnicodeDecodeError:
        return Malformed("bad-utf8"), len(data)
    except ValueError:
        return Malformed("bad-json"), len(data)
    if not isinstance(fields, dict):
        return Malformed("not-an-object"), len(data)
    size = fields.get("size", 0)
    if type(size) is not int or size < 0:
        return Malformed("bad-size"), len(data)
    if len(rest) < size:
        return None, 0
    wrong = any(not isinstance(fields.get(key), (str, type(None))) for key in ("event", "type"))
    return Said(fields, rest[:size], wrong), len(metadata) + 1 + size


def spaced(fields: dict[str, Any]) -> bytes:
    """Metadata with white space between its attributes, and within its route."""
    pieces = {key: json.dumps(value, ensure_ascii=False, separators=(",", ":")) for key, value in fields.items()}
    if "route" in fields:
        pieces["route"] = json.dumps(fields["route"], ensure_ascii=False)
    return ("{" + ", ".join(f'"{key}": {piece}' for key, piece in pieces.items()) + "}").encode()


# SPP: type, length, data.

FROM_CLIENTS = {1: "subscribe", 2: "unsubscribe"}
FROM_SERVERS = {1: "offer", 2: "removed", 16: "info"}


def first_packet(data: bytes, names: dict[int, str]) -> tuple[Packet | Malformed | None, int]:
    """The packet that ``data`` begins with, and how many bytes it has."""
    if len(data) < 8:
        return None, 0
    msgtype, length = struct.unpack(">II", data[:8])
    if length > MAX_PACKET:
        return Malformed("packet-too-large"), len(data)
    if len(data) < 8 + length:
        return None, 0
    body = data[8 : 8 + length]
    if msgtype not in names:
        return Packet("ignored"), 8 + length
    try:
        service, rest = first_string(body)
        message, _ = first_string(rest) if names[msgtype] == "info" else (b"", b"")
        return Packet(names[msgtype], service.decode(), message), 8 + length
    except UnicodeDecodeError:
        return Malformed("bad-utf8"), len(data)
    except ValueError as error:
        return Malformed(str(error)), len(data)


def first_string(data: bytes) -> tuple[bytes, bytes]:
    """The STRING that ``data`` begins with, and what is behind it."""
    if len(data) < 4:
        raise ValueError("packet-too-short")
    (size,) = struct.unpack(">I", data[:4])
    if size > len(data) - 4:
        raise ValueError("string-overruns-packet")
    return data[4 : 4 + size], data[4 + size :]


def packet(msgtype: int, service: str) -> bytes:
    """A packet of which the data is one STRING."""
    name = service.encode()
    return struct.pack(">III", msgtype, 4 + len(name), len(name)) + name


def everything(first: Callable[[bytes], tuple[Any, int]], data: bytes) -> tuple[list[bytes], bytes]:
    """A stream in the pieces that it consists of, and what of it is not whole."""
    pieces = []
    while True:
        found, size = first(data)
        assert not isinstance(found, Malformed), found
        if found is None:
            return pieces, data
        pieces.append(data[:size])
        data = data[size:]


def from_client(data: bytes) -> tuple[Packet | Malformed | None, int]:
    return first_packet(data, FROM_CLIENTS)


def from_server(data: bytes) -> tuple[Packet | Malformed | None, int]:
    return first_packet(data, FROM_SERVERS)
