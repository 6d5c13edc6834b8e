"""Tapped objects as a packet capture, for Wireshark: pcapng, each object one packet of the dissector in ``contrib``.

Sources: draft-ietf-opsawg-pcapng (blocks and options); Wireshark's ``epan/exported_pdu.h`` (how a packet of the link
type of exported PDUs begins).
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from struct import pack
from typing import Any

DISSECTOR = b"bus_object"
"""The name of the dissector of ``contrib/wireshark/bussrv.lua`` that a packet is for."""

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER = 0x1A2B3C4D
_UNKNOWN = (1 << 64) - 1
_EXPORTED_PDU = 252
_DISSECTOR_NAME = 12

_COMMENT, _APPLICATION, _NAME, _DROPPED = 1, 4, 2, 4


class Capture:
    """Writes a capture, each packet at once, so that it is whole whenever it is read.

    :param write: takes bytes.
    :param server: the server that is tapped, for people.
    """

    def __init__(self, write: Callable[[bytes], object], server: str) -> None:
        from bussrv.version import VERSION

        self._write = write
        self._skipped = 0
        program = _option(_APPLICATION, f"bussrv {VERSION}".encode())
        write(_block(_SECTION, pack("=IHHQ", _BYTE_ORDER, 1, 0, _UNKNOWN), [program]))
        write(_block(_INTERFACE, pack("=HHI", _EXPORTED_PDU, 0, 0), [_option(_NAME, server.encode())]))

    def add(self, event: str, data: str) -> None:
        """Write an event of ``/api/v1/tap``: an object, or how many were skipped; the next packet says so then."""
        from bussrv.journal.record import parse_time

        found = json.loads(data)
        if event != "object":
            self._skipped += found["count"]
            return
        moment = parse_time(found["time"])
        payload = b64decode(found.get("payload") or "")
        packet = _ABOUT + _metadata(data) + b"\0" + payload
        length = len(packet) - len(payload) + found["bytes"]
        head = pack("=IIIII", 0, moment >> 32, moment & 0xFFFFFFFF, len(packet), length)
        options = [_option(_COMMENT, _comment(found).encode())]
        if self._skipped:
            options.append(_option(_DROPPED, pack("=Q", self._skipped)))
            self._skipped = 0
        self._write(_block(_PACKET, head + _padded(packet), options))


def _metadata(data: str) -> bytes:
    """The metadata of a tapped object, with each number as it was written."""
    import msgspec

    return bytes(msgspec.json.decode(data, type=dict[str, msgspec.Raw])["metadata"])


def _comment(found: Mapping[str, Any]) -> str:
    from bussrv.registry.state.naming import called

    sender = found["from"]
    return f"from {called(sender)} over {sender['protocol'] or 'a link'}, received by {found['to_count']}"


def _block(kind: int, body: bytes, options: Iterable[bytes]) -> bytes:
    whole = body + b"".join(options) + _END
    length = 12 + len(whole)
    return pack("=II", kind, length) + whole + pack("=I", length)


def _option(code: int, value: bytes) -> bytes:
    return pack("=HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


_END = _option(0, b"")

_NAME_OF_DISSECTOR = _padded(DISSECTOR)
_ABOUT = pack(">HH", _DISSECTOR_NAME, len(_NAME_OF_DISSECTOR)) + _NAME_OF_DISSECTOR + bytes(4)
"""Tags in the byte order of networks, and their end."""
