"""``haproxy:`` endpoints: a connection begins when the proxy has said whose it is, and passes on everything after that.

Twisted connects the protocol before that, when the address is still the proxy's: every client would be journaled, and
counted, with one address. It also ends a connection of which the client sends no more, although the client may still
wait for replies.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from zope.interface import directlyProvides, implementer, providedBy

from bussrv.addresses import host_of, peer_text
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.errors import RemoteProtocolError
from bussrv.wire.proxy import ProxySource, read_header

PREFIX = "haproxy:"

HEADER_TIMEOUT = 5.0
"""Seconds that a proxy may take to say whose connection it is."""

log = Logger()


@implementer(IHalfCloseableProtocol)
class ProxiedConnection(ProtocolWrapper):
    """A connection that a proxy made for a client."""

    factory: ProxiedFactory
    wrappedProtocol: Any  # noqa: N815 - named by Twisted
    _source: ProxySource | None = None
    _begun = False

    def makeConnection(self, transport: Any) -> None:  # noqa: N802 - called by Twisted
        """Wait for what the proxy says: the protocol is connected after that."""
        directlyProvides(self, providedBy(transport))
        self.factory.registerProtocol(self)
        Protocol.makeConnection(self, transport)

    def connectionMade(self) -> None:
        """Wait no longer than a while."""
        self._header = b""
        self._timeout = self.factory.reactor.callLater(HEADER_TIMEOUT, self.abortConnection)

    def dataReceived(self, data: bytes) -> None:
        """The proxy said something, or the client did."""
        if self._begun:
            self.wrappedProtocol.dataReceived(data)
            return
        if self.disconnecting:
            return
        self._header += data
        try:
            header = read_header(self._header)
        except RemoteProtocolError as error:
            self.factory.refused(self.transport, error)
            self.loseConnection()
            return
        if header is not None:
            self._begin(header.source, header.rest)

    def _begin(self, source: ProxySource | None, rest: bytes) -> None:
        """Begin the session: the proxy has told the address of the client."""
        self._source, self._header, self._begun = source, b"", True
        self._timeout.cancel()
        self.wrappedProtocol.makeConnection(self)
        if rest:
            self.wrappedProtocol.dataReceived(rest)

    @property
    def protocol(self) -> Any:
        """The protocol that it serves, as other transports have it. Another one may take its place."""
        return self.wrappedProtocol

    @protocol.setter
    def protocol(self, protocol: Any) -> None:
        self.wrappedProtocol = protocol

    def getPeer(self) -> Any:
        """The address of the client."""
        if self._source is None:
            return super().getPeer()
        host, port = self._source.host, self._source.port
        return UNIXAddress(host.encode()) if port is None else IPv4Address("TCP", host, port)

    def readConnectionLost(self) -> None:
        """The client sends no more, but may still read."""
        if self._begun and IHalfCloseableProtocol.providedBy(self.wrappedProtocol):
            self.wrappedProtocol.readConnectionLost()
        else:
            self.loseConnection()

    def writeConnectionLost(self) -> None:
        """The client reads no more."""
        if self._begun and IHalfCloseableProtocol.providedBy(self.wrappedProtocol):
            self.wrappedProtocol.writeConnectionLost()
        else:
            self.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        if self._timeout.active():
            self._timeout.cancel()
        if self._begun:
            super().connectionLost(reason)
        else:
            self.factory.unregisterProtocol(self)
            self.wrappedProtocol = None

    @property
    def is_unannounced(self) -> bool:
        """Whether the proxy has not said yet whose connection it is."""
        return not self._begun


class ProxiedFactory(WrappingFactory):
    """Makes connections of a proxy; ``reactor`` calls later."""

    protocol = ProxiedConnection
    noisy = False

    def __init__(self, factory: Factory, reactor: Any) -> None:
        super().__init__(factory)
        self.reactor = reactor
        self._complaints = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)

    def refused(self, transport: Any, error: RemoteProtocolError) -> None:
        """The header of a proxy cannot be read."""
        peer = peer_text(transport.getPeer())
        suppressed = self._complaints.admit(host_of(peer))
        if suppressed is not None:
            log.warn(
                "{peer}: {message} ({suppressed} more not logged)",
                event="proxy.bad-header",
                peer=peer,
                message=error.message,
                suppressed=suppressed,
            )

    def doStop(self) -> None:  # noqa: N802 - called by Twisted
        """The port is closed: who is still unannounced goes."""
        super().doStop()
        for connection in tuple(self.protocols):
            if connection.is_unannounced:
                connection.abortConnection()
