"""A connection without a socket: the server's protocol has a transport, and the client's end is a few methods.

As over a network, nothing is lost that either side has sent, either side may stop reading, and a connection that the
server closes ends when the client has read everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol, IReactorTime, ITransport
from twisted.python.failure import Failure
from zope.interface import implementer

ROOM = 1 << 16
"""How many bytes wait for the client before the server is told to wait."""

PeerAddress = IPv4Address | UNIXAddress


def _nothing() -> None:
    """Nobody is told."""


@implementer(ITransport)
class Pipe:
    """A connection to a protocol of the server.

    :param peer: the address of the client.
    :param host: the address that it connected to.
    :param room: how many bytes wait for the client before the server is told to wait.
    :ivar is_open: whether the connection stands.
    :ivar waiting: what the client has sent, and the server does not read yet.
    :ivar is_read: whether the server reads.
    :ivar is_cut: whether the server has cut the connection, so that what it had sent may be lost.
    :ivar wake: is called when there is something to take, or the connection ended.
    """

    disconnecting = False

    def __init__(self, reactor: IReactorTime, peer: PeerAddress, host: PeerAddress, *, room: int = ROOM) -> None:
        self.is_open = True
        self.is_read = True
        self.is_cut = False
        self.wake: Callable[[], object] = _nothing
        self.waiting = bytearray()
        self.protocol: Any = None
        self._reactor: Any = reactor
        self._peer = peer
        self._host = host
        self._room = room
        self._sent = bytearray()
        self._producer: Any = None
        self._is_paused = False
        self._has_ended_input = False
        self._is_deaf = False
        self._awaiting_end: list[Deferred[None]] = []
        self._call: Any = None

    def connect(self, protocol: Any) -> None:
        """Let a protocol of the server have its end."""
        self.protocol = protocol
        protocol.makeConnection(self)

    # The client's end.

    def send(self, data: bytes) -> None:
        """Send bytes. They arrive at once if the server reads, or else when it reads again."""
        if self.is_open and not self._has_ended_input:
            self.waiting += data
            self._deliver()

    def take(self, most: int | None = None) -> bytes:
        """The bytes that the server has sent, or the first ``most`` of them."""
        taken = bytes(self._sent[:most])
        del self._sent[: len(taken)]
        if not self._sent and self.is_open:
            if self._is_paused:
                self._is_paused = False
                self._producer.resumeProducing()
            self._end_if_done()
        return taken

    @property
    def has_sent(self) -> bool:
        """Whether there is something to take."""
        return bool(self._sent)

    @property
    def unread(self) -> int:
        """How many bytes the client has not taken."""
        return len(self._sent)

    def end_input(self) -> None:
        """Send no more, and read on: a half-close. A protocol that does not know of such ends the connection."""
        if self.is_open and not self._has_ended_input:
            self._has_ended_input = True
            self._deliver()

    def leave(self) -> None:
        """Close the connection at once. What the server does not read yet is lost."""
        self._lose(ConnectionDone())

    def close(self) -> Deferred[None]:
        """Send no more, and read no more. :returns: fires when the server has read everything, and it has ended."""
        self._is_deaf = True
        self.take()
        self.end_input()
        return self.when_ended()

    def when_ended(self) -> Deferred[None]:
        """:returns: fires when the connection has ended."""
        ended: Deferred[None] = Deferred()
        if self.is_open:
            self._awaiting_end.append(ended)
        else:
            ended.callback(None)
        return ended

    # As a link of a client of this package.

    def send_all(self, output: list[bytes]) -> None:
        """See :class:`bussrv.embedding.client.Link`."""
        self.send(output[0] if len(output) == 1 else b"".join(output))

    def take_next(self) -> bytes | None:
        """See :class:`bussrv.embedding.client.Link`."""
        return self.take() or None

    @property
    def backlog(self) -> int:
        """How many bytes the server has not read yet."""
        return len(self.waiting)

    def abort(self) -> None:
        """Let the connection break."""
        self._lose(ConnectionLost())

    def break_off(self) -> None:
        """The process of the server was killed: its protocol is told nothing any more."""
        self.is_open = False
        self._sent.clear()
        self._tell_ended()

    def _deliver(self) -> None:
        if self.is_open and not self.is_cut and self.is_read and self.waiting:
            data = bytes(self.waiting)
            self.waiting.clear()
            self.protocol.dataReceived(data)
        if self.is_open and self._has_ended_input and not self.waiting and self.is_read:
            if IHalfCloseableProtocol.providedBy(self.protocol):
                self.protocol.readConnectionLost()
            else:
                self.leave()

    def _lose(self, reason: Exception) -> None:
        if not self.is_open:
            return
        self.is_open = False
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        self.protocol.connectionLost(Failure(reason))
        self._tell_ended()

    def _tell_ended(self) -> None:
        self.wake()
        awaiting, self._awaiting_end = self._awaiting_end, []
        for each in awaiting:
            each.callback(None)

    # The server's end: what its protocols ask of a transport of Twisted.

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        if not self.is_open or self.is_cut or self._is_deaf or not data:
            return
        self._sent += data
        if self._producer is not None and len(self._sent) > self._room and not self._is_paused:
            self._is_paused = True
            self._producer.pauseProducing()
        self.wake()

    def writeSequence(self, data: Iterable[bytes]) -> None:
        """Send bytes to the client."""
        self.write(b"".join(data))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Tell ``producer`` when the client reads too slowly, and when it may go on."""
        self._producer = producer

    def unregisterProducer(self) -> None:
        """Tell nobody."""
        self._producer = None
        self._is_paused = False

    def loseConnection(self) -> None:
        """Close the connection when the client has read everything."""
        self.disconnecting = True
        self._end_if_done()

    def abortConnection(self) -> None:
        """Cut the connection."""
        if self.is_open and not self.is_cut:
            self.is_cut = True
            self._sent.clear()
            self._reactor.callLater(0, self._lose, ConnectionAborted())

    def _end_if_done(self) -> None:
        if self.disconnecting and not self._sent and self._call is None and self.is_open:
            # In a later turn, as with a socket: a protocol is not told of the end while it asks for it.
            self._call = self._reactor.callLater(0, self._lose, ConnectionDone())

    def pauseProducing(self) -> None:
        """The server reads no more."""
        self.is_read = False

    def resumeProducing(self) -> None:
        """The server reads again."""
        if not self.is_read:
            self.is_read = True
            self._reactor.callLater(0, self._deliver)

    def stopProducing(self) -> None:
        """Close the connection."""
        self.loseConnection()

    def getPeer(self) -> PeerAddress:
        """The address of the client."""
        return self._peer

    def getHost(self) -> PeerAddress:
        """The address that it connected to."""
        return self._host

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is no such thing here."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """There is no such thing here."""
