"""Inbus: how much a turn of the reactor reads of the port, and what is lost because more came.

Datagrams that wait to be read are in the receive buffer of the socket; others are lost. Linux counts those.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import ISystemHandle
from twisted.logger import Logger

from bussrv.formats.inbus.drops import Drops
from bussrv.plugin import IBus

SLICE = 0.002
"""The most seconds that are read in a turn before others are served; one datagram is always read."""

# Not in the socket module. From <asm-generic/socket.h> and <linux/sock_diag.h>.
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_DROPS = 8
_WRAPS = 1 << 32

log = Logger()


class Intake:
    """The input of one port.

    :param reactor: says how late it is.
    """

    def __init__(self, bus: IBus, reactor: Any, drops: Drops) -> None:
        self._bus = bus
        self._reactor = reactor
        self._drops = drops
        self._port: Any = None
        self._socket: socket.socket | None = None
        self._throughput = 0
        self._until: float | None = None
        self._lost = 0
        self._is_waiting = False

    def open(self, port: Any) -> None:
        """The port is about to be read from."""
        if ISystemHandle.providedBy(port):
            handle: Any = port.getHandle()
            self._port, self._socket = port, handle
            self._throughput = self._port.maxThroughput
            self._make_room(handle)
            self._lost = _lost(handle)

    def close(self) -> None:
        """The port is closed."""
        self._port = self._socket = None

    def _make_room(self, handle: socket.socket) -> None:
        wanted = self._bus.settings.inbus_receive_buffer
        granted = _enlarge(handle, wanted)
        if granted < wanted:
            log.warn(
                "inbus: the system grants {granted} bytes of receive buffer, not {wanted}: raise net.core.rmem_max, or "
                "lower --inbus-receive-buffer",
                event="inbus.small-buffer",
                granted=granted,
                wanted=wanted,
            )

    def read(self) -> None:
        """A datagram was read and served: read no more in this turn if it was long enough."""
        if self._port is None:
            return
        now = self._reactor.seconds()
        if self._until is None:
            self._until = now + SLICE
        elif now >= self._until:
            # Twisted reads on as long as it read less than this.
            self._port.maxThroughput = 0

    def turn_ended(self) -> None:
        """Others were served."""
        if self._port is not None:
            self._until = None
            self._port.maxThroughput = self._throughput
            self.look()

    def wait(self, sent: Deferred[None]) -> None:
        """Read nothing until everything is sent that came: it is for many."""
        if self._port is not None and not self._is_waiting:
            self._is_waiting = True
            self._port.maxThroughput = 0
            self._port.pauseProducing()
            sent.addCallback(self._go_on)

    def _go_on(self, _: None) -> None:
        self._is_waiting = False
        if self._port is not None:
            self._port.resumeProducing()

    def look(self) -> None:
        """Count the datagrams lost since the last time."""
        if self._socket is None:
            return
        before, self._lost = self._lost, _lost(self._socket)
        lost = (self._lost - before) % _WRAPS
        if lost:
            self._bus.counters["inbus-lost"] += lost
            self._drops.warn(
                "lost",
                "inbus: {lost} datagrams were lost, they came faster than they are read",
                event="inbus.lost",
                lost=lost,
            )


def _enlarge(handle: socket.socket, size: int) -> int:
    """Ask for a receive buffer of ``size`` bytes. :returns: what the system grants."""
    try:
        # Only for those who may administer the network.
        handle.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE if sys.platform == "linux" else socket.SO_RCVBUF, size)
    except OSError:
        with suppress(OSError):  # Some systems refuse too large a size instead of granting less.
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    granted = handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    # Linux doubles what it is asked for, to have room for its own.
    return granted // 2 if sys.platform == "linux" else granted


def _lost(handle: socket.socket) -> int:
    """How many datagrams the system has dropped at a socket, modulo 2 to the 32; 0 where it does not say."""
    if sys.platform != "linux":
        return 0
    try:
        return int(_MEMINFO.unpack(handle.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[_DROPS])
    except (OSError, struct.error):
        return 0
