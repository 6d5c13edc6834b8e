"""ICMP errors: the network's reports of datagrams that nobody took, on systems that hand them out (Linux).

A UDP socket that is not connected is told of none, unless it asks (``IP_RECVERR``). Then they wait in a queue of their
own, and a socket that has some can no longer be left to the reactor alone:

- A reactor that polls takes an error without anything to read for the end of the connection, and closes the port.
- The next datagram, to whomever, is not sent, and the next read fails: both report what befell an earlier datagram.

So the socket is watched through an epoll object of its own, which can be read from when the socket has a datagram or an
error; errors are taken out before a read, and a datagram that met the error of another one is sent again.

The queue belongs to the socket and is bounded by its receive buffer.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from errno import ECONNREFUSED
from typing import Any

from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor, ISystemHandle
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.net.transport.udp_batches import UdpBatch, can_segment

Address = tuple[str, int]
Told = Callable[[Address, bool], None]

# Not in the socket module before Python 3.14. From <linux/in.h> and <linux/in6.h>.
_IP_RECVERR = 11
_IPV6_RECVERR = 25

# struct sock_extended_err of <linux/errqueue.h>: errno, origin, type, code; native byte order.
_EXTENDED_ERROR = struct.Struct("=IBBB")
_RECVERR = {(socket.IPPROTO_IP, _IP_RECVERR), (socket.IPPROTO_IPV6, _IPV6_RECVERR)}
_ICMP, _ICMP6 = 2, 3
_PORT_UNREACHABLE = {(_ICMP, 3, 3), (_ICMP6, 1, 4)}  # origin, type, code: RFC 792 and RFC 4443

_ANCILLARY = 512
_ATTEMPTS = 3
_AT_ONCE = 256
"""The most errors that are read before datagrams get their turn."""


def watch_errors(port: Any, reactor: Any, told: Told) -> ErrorQueue | None:
    """Learn of the errors of a listening UDP port of Twisted.

    :param told: called with the address that a datagram was sent to, and whether nobody listens there; otherwise the
        datagram was lost on its way.
    :returns: ``None`` where errors cannot be learned of; then nothing is changed.
    """
    if sys.platform != "linux" or not (ISystemHandle.providedBy(port) and IReactorFDSet.providedBy(reactor)):
        return None
    try:
        return ErrorQueue(port, reactor, told)
    except OSError:
        return None


@implementer(IReadDescriptor)
class ErrorQueue:
    """The errors of one UDP port, which it reads and writes for from now on; made by :func:`watch_errors`.

    :ivar can_segment: whether UDP batches can be sent.
    :raises OSError: if the system has no such thing; then nothing is changed.
    """

    def __init__(self, port: Any, reactor: Any, told: Told) -> None:
        self._port = port
        self._reactor = reactor
        self._told = told
        self._socket: socket.socket = port.getHandle()
        self._epoll = select.epoll()
        try:
            self._epoll.register(self._socket, select.EPOLLIN)
            _ask_for_errors(self._socket)
        except OSError:
            self._epoll.close()
            raise
        self.can_segment = can_segment(self._socket)
        port.stopReading()
        reactor.addReader(self)

    def send(self, datagram: bytes, address: Address) -> None:
        """Send a datagram.

        :raises OSError: if the system does not take it.
        """
        self._persist(self._socket.sendto, datagram, address)

    def send_batch(self, batch: UdpBatch, address: Address) -> bool:
        """Send some datagrams in one piece.

        :returns: whether the system took them all; otherwise it took none. There are addresses that it sends nothing
            to in this way, such as those behind some tunnels, or with datagrams that have to be fragmented.
        """
        try:
            self._persist(self._socket.sendmsg, (batch.joined,), batch.ancillary, 0, address)
        except OSError:
            return False
        return True

    def _persist(self, send: Callable[..., int], *arguments: Any) -> None:
        """Send, and once more if that met the error of an earlier datagram.

        :raises OSError: if the system does not take it.
        """
        for _ in range(_ATTEMPTS - 1):
            if self._try_to(send, *arguments):
                return
        send(*arguments)

    def _try_to(self, send: Callable[..., int], *arguments: Any) -> bool:
        """Send, unless that meets the error of an earlier datagram."""
        try:
            send(*arguments)
        except OSError as error:
            # The queue has no room for errors that come too many at once; then this one is all that is said.
            if not self._take_errors() and error.errno != ECONNREFUSED:
                raise
            return False
        return True

    def close(self) -> None:
        """Watch no longer; the port is about to be closed."""
        self._reactor.removeReader(self)
        self._epoll.close()

    def _take_errors(self) -> int:
        """Tell of the errors that wait. :returns: how many there were."""
        for count in range(_AT_ONCE):
            try:
                _, ancillary, _, address = self._socket.recvmsg(0, _ANCILLARY, socket.MSG_ERRQUEUE)
            except OSError:
                return count
            for level, kind, data in ancillary:
                if (level, kind) in _RECVERR and len(data) >= _EXTENDED_ERROR.size:
                    self._tell(data, address)
        return _AT_ONCE

    def _tell(self, data: bytes, address: Any) -> None:
        _, origin, kind, code = _EXTENDED_ERROR.unpack_from(data)
        if origin in (_ICMP, _ICMP6):  # The sender has already got other errors, which this machine reports itself.
            self._told((address[0], address[1]), (origin, kind, code) in _PORT_UNREACHABLE)

    # Methods that the reactor calls.

    def fileno(self) -> int:
        """A descriptor that is readable if the socket has a datagram or an error; -1 if it is closed."""
        return -1 if self._epoll.closed else self._epoll.fileno()

    def doRead(self) -> None:
        """Read the errors, then datagrams."""
        self._take_errors()
        try:
            self._port.doRead()
        except OSError:
            self._take_errors()  # Of a datagram that was sent meanwhile: nothing is wrong with the port.

    def connectionLost(self, reason: Failure) -> None:
        """The reactor stops."""
        self._epoll.close()

    def logPrefix(self) -> str:
        """Its name in the reactor's log."""
        return "udp"


def _ask_for_errors(handle: socket.socket) -> None:
    if handle.family == socket.AF_INET6:
        handle.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
        with suppress(OSError):  # For IPv4 on the same socket.
            handle.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
    else:
        handle.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
