"""Reading many connections of a port in one call of the reactor.

For each connection that can be read, Twisted's reactor takes about 2 microseconds before it calls the connection. Here,
connections are polled by a descriptor of their own. The reactor polls that one, and calls once for all of them.

A connection is polled in one place at a time: a connection that waits until it can be written to is polled by the
reactor meanwhile, for both. So whatever happens to it is noticed in the order that Twisted has.

Of the connections whose other end is gone, or sends no more, only some are read in a turn: each of these costs much
more than others. The rest is reported again.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

from twisted.internet import main
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from zope.interface import implementer

from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.net.transport.losing import MOST_LOST, Losses

ENDING = (select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP) if hasattr(select, "epoll") else 0
"""The events of a connection whose other end is gone, or sends no more."""

log = Logger()


def can_share(reactor: Any) -> bool:
    """Whether connections of this reactor can be polled by a descriptor of their own."""
    return hasattr(select, "epoll") and isinstance(getattr(reactor, "_poller", None), select.epoll)


@implementer(IReadDescriptor)
class SharedPoll:
    """Polls the connections of a port that are read and not written to.

    :param reactor: polls this, as long as there are any.
    :param begin: is called before connections are read, once in a turn of the reactor.
    :param end: is called after that.
    :param losses: ends connections of the port that are lost.
    """

    def __init__(self, reactor: Any, begin: Callable[[], object], end: Callable[[], object], losses: Losses) -> None:
        self._reactor = reactor
        self._begin = begin
        self._end = end
        self._losses = losses
        self._connections: dict[int, Any] = {}
        self._epoll: Any = None
        self._complaints = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)

    @property
    def is_empty(self) -> bool:
        """Whether there are none, and nothing is polled."""
        return self._epoll is None

    def fileno(self) -> int:
        """The descriptor that is polled by the reactor."""
        number: int = self._epoll.fileno()
        return number

    def logPrefix(self) -> str:
        """The name in the log."""
        return type(self).__name__

    def add(self, connection: Any) -> int:
        """Read a connection from now on. :returns: its descriptor, by which it is removed."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._reactor.addReader(self)
        number: int = connection.fileno()
        self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP)
        self._connections[number] = connection
        return number

    def remove(self, number: int) -> None:
        """Do not read a connection any more. It is still open."""
        del self._connections[number]
        self._epoll.unregister(number)
        if not self._connections:
            self._reactor.removeReader(self)
            self._epoll.close()
            self._epoll = None

    def doRead(self) -> None:
        """Read every connection that can be read, each once."""
        self._begin()
        try:
            self._read_all()
        finally:
            try:
                self._end()
            except Exception:
                # Raised to the reactor, it would end all connections.
                self._complain("serving connections failed ({suppressed} more not logged)")

    def _read_all(self) -> None:
        connections = self._connections
        left = 0 if self._losses.is_busy else MOST_LOST
        for number, event in self._epoll.poll(0, len(connections)):
            connection = connections.get(number)
            if connection is None:
                continue  # Another one was read before, which ended this one.
            if event & ENDING:
                if not left:
                    continue
                left -= 1
            try:
                why = connection.doRead() if event & select.EPOLLIN else main.CONNECTION_DONE
            except Exception as error:
                self._complain("reading a connection failed ({suppressed} more not logged)")
                why = error
            if why is not None:
                connection.stopReading()
                self._reactor._disconnectSelectable(connection, why, True)

    def _complain(self, text: str) -> None:
        suppressed = self._complaints.admit("")
        if suppressed is not None:
            log.failure(text, event="connection.failed", suppressed=suppressed)

    def connectionLost(self, reason: Any) -> None:
        """The reactor ends: so do all connections."""
        for connection in tuple(self._connections.values()):
            connection.connectionLost(reason)
