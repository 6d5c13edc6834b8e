"""Several datagrams for one address in one system call: the system cuts them apart (Linux, ``UDP_SEGMENT``).

The system takes them in one piece, looks once for the way to the address, and makes datagrams of it only where that has
to be: at the network card, or at the socket that they are for. Whoever receives them finds nothing unusual. Without
that most of what a datagram costs is its own way through the network code of the system.

All segments are of one size; only the last may be shorter. So datagrams that are alike in size, or that get shorter, go
together; others make a batch each.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct

MOST_SEGMENTS = 32
"""How many datagrams one call sends at the most. Linux takes 64, but the buffer of a receiver has to take them, too."""

MOST_BYTES = 65507
"""How many bytes: as for one datagram over IPv4."""

# Not in the socket module. From <linux/udp.h>.
_UDP_SEGMENT = 103

_SIZE = struct.Struct("=H")

Ancillary = Sequence[tuple[int, int, bytes]]


class UdpBatch(Struct, frozen=True):
    """Datagrams that go together, in order.

    :ivar frames: the datagrams; at least one.
    :ivar joined: all datagrams, in the form for ``sendmsg``.
    :ivar ancillary: the ancillary data for ``sendmsg``; none for a single datagram.
    """

    frames: Sequence[bytes]
    joined: bytes
    ancillary: Ancillary


def can_segment(handle: socket.socket) -> bool:
    """Whether the system knows of segments; one that does not might send a batch as one datagram."""
    try:
        handle.getsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT)
    except OSError:
        return False
    return True


def udp_batches(frames: Sequence[bytes]) -> Iterator[UdpBatch]:
    """Cut frames, none of which is empty, into udp_batches that are as long as they may be."""
    start = 0
    while start < len(frames):
        end = _end_of_run(frames, start)
        batch = frames[start:end]
        size = len(batch[0])
        ancillary = [(socket.IPPROTO_UDP, _UDP_SEGMENT, _SIZE.pack(size))] if len(batch) > 1 else ()
        yield UdpBatch(batch, b"".join(batch), ancillary)
        start = end


def _end_of_run(frames: Sequence[bytes], start: int) -> int:
    size = total = len(frames[start])
    last = min(len(frames), start + MOST_SEGMENTS)
    for index in range(start + 1, last):
        length = len(frames[index])
        total += length
        if length > size or total > MOST_BYTES:
            return index
        if length < size:
            return index + 1
    return last
