"""Connections in memory: a TCP connection whose client reads when the kit says so, and a UDP port."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import ITransport
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from zope.interface import implementer

FULL = 64 << 10
"""A connection with so many unread bytes says that it is full, as those of Twisted do."""

HOST = "10.0.0.254"


@implementer(ITransport)
class Wire:
    """The server's end of a TCP connection, and what its client does with it.

    :ivar reads: whether the client reads what it is sent.
    :ivar arrived: what the client has read.
    :ivar is_open: whether the connection is there.
    """

    disconnecting = False

    def __init__(self, reactor: Any, peer: IPv4Address) -> None:
        self.reads = True
        self.arrived = b""
        self.is_open = True
        self.protocol: Any = None
        self._reactor = reactor
        self._peer = peer
        self._unread = bytearray()
        self._unsent: list[bytes] = []
        self._is_heard = True
        self._input_ends = False
        self._producer: Any = None
        self._is_full = False

    # The server's end: what Twisted's transports do.

    @property
    def connected(self) -> bool:
        """As Twisted's transports have it."""
        return self.is_open

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not isinstance(data, bytes):
            raise TypeError(f"a transport takes bytes, not {type(data).__name__}")
        if not self.is_open:
            return
        self._unread += data
        if self._producer is not None and len(self._unread) > FULL and not self._is_full:
            self._is_full = True
            self._producer.pauseProducing()

    def writeSequence(self, data: Iterable[bytes]) -> None:
        """Send pieces."""
        self.write(b"".join(data))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Tell ``producer`` when the connection is full."""
        self._producer = producer

    def unregisterProducer(self) -> None:
        """Tell nobody any more."""
        self._producer = None

    def loseConnection(self) -> None:
        """Close the connection once everything is read."""
        self.disconnecting = True

    def abortConnection(self) -> None:
        """Cut the connection."""
        self._end(Failure(ConnectionAborted()))

    def pauseProducing(self) -> None:
        """Read no more of what the client sends."""
        self._is_heard = False

    def resumeProducing(self) -> None:
        """Read on, in the next turn."""
        self._is_heard = True
        self._reactor.callLater(0, self._hear)

    def stopProducing(self) -> None:
        """Close the connection."""
        self.loseConnection()

    def getHost(self) -> IPv4Address:
        """The server's address."""
        return IPv4Address("TCP", HOST, 7000)

    def getPeer(self) -> IPv4Address:
        """The client's address."""
        return self._peer

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is no such thing in memory."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """There is no such thing in memory."""

    def _end(self, reason: Failure) -> None:
        if self.is_open:
            self.is_open = False
            self._unread.clear()
            self._unsent.clear()
            protocol = self.protocol
            self._reactor.callLater(0, protocol.connectionLost, reason)

    # The client's end.

    @property
    def unread(self) -> int:
        """How many bytes the server has written that the client has not read."""
        return len(self._unread)

    @property
    def unsent(self) -> int:
        """How many bytes of the client the server does not read yet."""
        return sum(map(len, self._unsent))

    def send(self, data: bytes) -> None:
        """Send a chunk. It waits while the server does not read."""
        if self.is_open and data:
            self._unsent.append(data)
            self._hear()

    def _hear(self) -> None:
        while self._unsent and self._is_heard and self.is_open and not self.disconnecting:
            self.protocol.dataReceived(self._unsent.pop(0))
        if self._input_ends and not self._unsent and self.is_open:
            self._input_ends = False
            self.protocol.readConnectionLost()

    def end_input(self) -> None:
        """The client sends no more, but still reads."""
        self._input_ends = True
        self._hear()

    def take(self) -> bool:
        """Read what there is to read. :returns: whether anything happened."""
        if not self.reads:
            return False
        moved = bool(self._unread)
        self.arrived += bytes(self._unread)
        self._unread.clear()
        if self._is_full and self.is_open:
            self._is_full = False
            if self._producer is not None:
                self._producer.resumeProducing()
            return True
        if self.disconnecting and self.is_open:
            self._end(Failure(ConnectionDone()))
            return True
        return moved

    def close(self) -> None:
        """The client closes the connection."""
        self._end(Failure(ConnectionDone()))

    def lose(self) -> None:
        """The connection breaks."""
        self._end(Failure(ConnectionLost()))


class DatagramWire:
    """A UDP socket of a client.

    :ivar arrived: the datagrams that came.
    """

    is_open = True

    def __init__(self, port: DatagramPort, address: tuple[str, int]) -> None:
        self.arrived: list[bytes] = []
        self.address = address
        self._port = port
        port.sockets[address] = self

    def send(self, data: bytes) -> None:
        """Send a datagram."""
        if self.is_open and data:
            self._port.receive(data, self.address)

    def take(self) -> bool:
        """Nothing waits: what is sent has arrived."""
        return False

    def close(self) -> None:
        """Send and receive nothing any more."""
        self.is_open = False
        self._port.sockets.pop(self.address, None)

    lose = close


class DatagramPort:
    """A UDP port of the server."""

    def __init__(self, number: int, protocol: Any) -> None:
        self.sockets: dict[tuple[str, int], DatagramWire] = {}
        self._number = number
        self._protocol = protocol
        self._is_open = True
        protocol.makeConnection(self)

    def getHost(self) -> IPv4Address:
        """Where it listens."""
        return IPv4Address("UDP", HOST, self._number)

    def write(self, datagram: bytes, address: tuple[str, int]) -> None:
        """Send a datagram. It is lost if nobody is there."""
        if address in self.sockets:
            self.sockets[address].arrived.append(datagram)

    def stopListening(self) -> Deferred[None]:
        """Close."""
        if self._is_open:
            self._is_open = False
            self._protocol.doStop()
        return succeed(None)

    def receive(self, datagram: bytes, address: tuple[str, int]) -> None:
        """A datagram comes."""
        if self._is_open:
            self._protocol.datagramReceived(datagram, address)


class TcpPort:
    """A TCP port of the server."""

    def __init__(self, number: int, factory: Any) -> None:
        self.factory = factory
        self._number = number
        self.is_open = True
        factory.doStart()

    def getHost(self) -> IPv4Address:
        """Where it listens."""
        return IPv4Address("TCP", HOST, self._number)

    def stopListening(self) -> Deferred[None]:
        """Take no further connections."""
        if self.is_open:
            self.is_open = False
            self.factory.doStop()
        return succeed(None)


class LabReactor(MemoryReactorClock):
    """A reactor whose time the kit moves, and whose ports are in memory.

    :ivar ports: those that were opened, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ports: list[Any] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> TcpPort:
        """Open a port for connections."""
        self.ports.append(TcpPort(port, factory))
        return self.ports[-1]  # type: ignore[no-any-return]

    def listenUDP(
        self,
        port: int,
        protocol: Any,
        interface: str = "",
        maxPacketSize: int = 8192,  # noqa: N803
    ) -> DatagramPort:
        """Open a port for datagrams."""
        self.ports.append(DatagramPort(port, protocol))
        return self.ports[-1]  # type: ignore[no-any-return]

    def callFromThread(self, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
        """There are no threads here."""
        self.callLater(0, function, *arguments, **named)
