"""The round trip of a TCP connection, as the system measures it.

Linux keeps a smoothed time from each segment to its acknowledgement (RFC 6298), in microseconds, as ``tcpi_rtt`` of
``struct tcp_info`` (``<linux/tcp.h>``): eight bytes, then 32-bit numbers, of which it is the sixteenth. It is the time
on the network alone: the program at the other end takes no part in it.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

_PLACE = struct.Struct("68xI")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def round_trip(handle: Any) -> float | None:
    """Seconds to the other end and back.

    :param handle: a socket, or another handle of a transport.
    :returns: ``None``: it is no TCP socket, it is closed, or this system does not say.
    """
    info = getattr(socket, "TCP_INFO", None)
    if info is None or not isinstance(handle, socket.socket) or handle.family not in _FAMILIES:
        return None
    try:
        data = handle.getsockopt(socket.IPPROTO_TCP, info, _PLACE.size)
    except OSError:
        return None
    if len(data) < _PLACE.size:
        return None
    (microseconds,) = _PLACE.unpack(data)
    return float(microseconds) / 1_000_000 or None
