"""``haproxy:`` endpoints: a connection begins when the proxy has said whose it is.

Twisted connects the protocol before that, when the address is still the proxy's: every client would be journaled, and
counted, with one address.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.haproxy._wrapper import HAProxyProtocolWrapper
from twisted.protocols.policies import WrappingFactory
from twisted.python.failure import Failure

PREFIX = "haproxy:"

HEADER_TIMEOUT = 5.0
"""Seconds that a proxy may take to say whose connection it is."""


class _Unannounced(Protocol):
    """Stands for the protocol of a connection of which nothing was said yet."""

    def __init__(self, connection: ProxiedConnection) -> None:
        self._connection = connection

    def dataReceived(self, data: bytes) -> None:
        self._connection.begin()
        self._connection.wrappedProtocol.dataReceived(data)


class ProxiedConnection(HAProxyProtocolWrapper):
    """A connection that a proxy made for a client."""

    factory: ProxiedFactory

    def makeConnection(self, transport: Any) -> None:  # noqa: N802 - called by Twisted
        """Wait for what the proxy says."""
        self._announced: Any = self.wrappedProtocol
        self.wrappedProtocol = _Unannounced(self)
        super().makeConnection(transport)
        self._timeout = self.factory.reactor.callLater(HEADER_TIMEOUT, self.abortConnection)

    def dataReceived(self, data: bytes) -> None:
        """The proxy said something, or the client did."""
        super().dataReceived(data)
        if self._proxyInfo is not None:
            self.begin()

    def begin(self) -> None:
        """Begin the session: the proxy has told the address of the client."""
        if isinstance(self.wrappedProtocol, _Unannounced):
            self._timeout.cancel()
            self.wrappedProtocol = self._announced
            self._announced.makeConnection(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        if self._timeout.active():
            self._timeout.cancel()
        super().connectionLost(reason)
        del self._announced


class ProxiedFactory(WrappingFactory):
    """Makes connections of a proxy; ``reactor`` calls later."""

    protocol = ProxiedConnection
    noisy = False

    def __init__(self, factory: Factory, reactor: Any) -> None:
        super().__init__(factory)
        self.reactor = reactor

    def doStop(self) -> None:  # noqa: N802 - called by Twisted
        """The port is closed: who is still unannounced goes."""
        super().doStop()
        for connection in tuple(self.protocols):
            if isinstance(connection.wrappedProtocol, _Unannounced):
                connection.abortConnection()
