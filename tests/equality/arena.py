"""The real server in memory, among clients of which each takes what it is sent at its own pace.

Only what a reactor does to a server is done to it here: connections are made and lost, chunks come, time passes, and a
transport says when it is full. What the server makes of that between two turns of the reactor is its own business; what
it has sent is looked at when a turn has ended.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import ITransport
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.bus.routing.object_ids import ObjectIds
from tests.formats.network import Network

BUFFER = 100
"""How many bytes a transport takes before it says that it is full; of Twisted's own, 64 KiB."""


@implementer(ITransport)
class Pipe:
    """A transport as Twisted's are: what is written waits in a buffer until the other end takes it.

    :ivar delivered: what the other end took.
    :ivar cut: those pipes of a server that were cut, in order; shared by all of them.
    """

    disconnecting = False

    def __init__(self, reactor: Clock, cut: list[Pipe]) -> None:
        self.connected = True
        self.delivered = b""
        self.protocol: Any = None
        self._reactor = reactor
        self._cut = cut
        self._buffer = b""
        self._producer: Any = None
        self._paused = False

    # The server's end.

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        if not self.connected:
            return
        self._buffer += data
        if self._producer is not None and len(self._buffer) > BUFFER:
            self._paused = True
            self._producer.pauseProducing()

    def writeSequence(self, data: list[bytes]) -> None:
        self.write(b"".join(data))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert self._producer is None
        assert streaming
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def loseConnection(self) -> None:
        self.disconnecting = True

    def abortConnection(self) -> None:
        if self.connected:
            self.connected = False
            self._buffer = b""
            self._cut.append(self)
            self._reactor.callLater(0, self.protocol.connectionLost, Failure(ConnectionAborted()))

    def pauseProducing(self) -> None:
        """Chunks that are on their way come all the same."""

    def resumeProducing(self) -> None:
        """Chunks come anyway."""

    def stopProducing(self) -> None:
        self.loseConnection()

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "10.0.0.254", 7890)

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", "10.0.0.1", 4711)

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is no such thing here."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """There is no such thing here."""

    # The client's end.

    def take(self, most: int | None = None) -> bool:
        """Take what was written, or the first ``most`` bytes of it. :returns: whether there was anything to do."""
        taken = self._buffer[:most]
        self.delivered += taken
        self._buffer = self._buffer[len(taken) :]
        if self._buffer or not self.connected:
            return bool(taken)
        if self._producer is not None and self._paused:
            self._paused = False
            self._producer.resumeProducing()
            return True
        if self.disconnecting:
            self.lose()
            return True
        return bool(taken)

    def lose(self) -> None:
        """The connection ends; what was not taken is lost."""
        if self.connected:
            self.connected = False
            self._buffer = b""
            self.protocol.connectionLost(Failure(ConnectionDone()))

    def end_input(self) -> None:
        """The client sends no more, but still reads."""
        self.protocol.readConnectionLost()


class Arena(Network):
    """A server; the ids that it makes can be told from all others.

    :ivar cut: the connections that the server cut because their clients read too slowly, in order.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.cut: list[Pipe] = []

    def _new_id(self) -> str:
        self._made += 1
        return f"~{self._made:06}"

    def ids(self) -> ObjectIds:
        return ObjectIds("~5", 5)

    def pipe(self, kind: str) -> Pipe:
        """A new connection."""
        pipe = Pipe(self.reactor, self.cut)
        pipe.protocol = self.factory(kind).buildProtocol(pipe.getPeer())
        # A client that does not read is cut in the same turn.
        pipe.protocol.LAST_WORDS = 0
        pipe.protocol.makeConnection(pipe)
        return pipe

    def end_turn(self, reading: list[Pipe]) -> None:
        """Do what is due, and let those that read take everything, until nothing moves any more."""
        while True:
            self.reactor.advance(0)
            now = self.reactor.seconds()
            # Every pipe is asked: what one takes may be what another waits for.
            moved = [pipe.take() for pipe in reading if pipe.connected]
            if not any(moved) and not any(call.getTime() <= now for call in self.reactor.getDelayedCalls()):
                return
