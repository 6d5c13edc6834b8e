"""What all stream formats have in common: one connection, one session.

Bytes are fed to a pure reader; its events are taken one by one. While a change that the client asked for is on its
way to the journal, no further event is taken, and the connection is not read beyond one more chunk: the client's later
input waits, nobody else does.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import host_of, peer_text
from bussrv.bus.delivery import Batch
from bussrv.errors import OverLimit, RemoteProtocolError
from bussrv.events import LimitReached
from bussrv.formats.backlog import Backlog
from bussrv.interfaces import IBus, IEncoding, ISessionLink
from bussrv.registry.throttle import Throttle
from bussrv.values import Traffic

LOG_RATE = 0.1
"""How often one address may cause a line of the log by what it sends, per second; its first ``LOG_BURST`` at once."""

LOG_BURST = 10

log = Logger()


class Reader(Protocol):
    """A pure reader of one wire format, as the modules of :mod:`bussrv.wire` have them."""

    def feed(self, data: bytes) -> None:
        """Add a chunk."""

    def next_event(self) -> Any:
        """The next event, or ``None``; raises :class:`RemoteProtocolError`."""


@implementer(ISessionLink, IPushProducer)
class StreamLink:
    """The way out over a stream: chunks that many sessions share, queued here while the transport is full.

    :param protocol: ended with ``slow-consumer`` when more than ``max_outbound`` bytes wait.
    :ivar is_closing: whether nothing more is sent.
    """

    def __init__(self, protocol: StreamProtocol, encoding: IEncoding, max_outbound: int, backlog: Backlog) -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self._encoding = encoding
        self._max_outbound = max_outbound
        self._backlog = backlog
        self._full = False
        self.is_closing = False
        self._transport.registerProducer(self, True)

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """Every session of a stream format is spoken to in one way."""
        return self._encoding

    def send(self, batch: Batch) -> None:
        """Send frames, behind everything sent before."""
        if self.is_closing:
            return
        traffic = self._protocol.traffic
        traffic.objects_out += len(batch)
        traffic.bytes_out += batch.size
        if not self._full:
            self._transport.write(batch.joined)
            return
        self._backlog.put(batch)
        if self._backlog.size > self._max_outbound:
            self.is_closing = True
            self._protocol.overflow(self._max_outbound)

    def close(self, reason: str) -> None:
        """End the session for ``reason``, and the connection when everything queued is sent."""
        self._protocol.end(reason)

    def finish(self) -> None:
        """Send what is queued, then close the connection."""
        self.is_closing = True
        if not self._backlog:
            self._transport.unregisterProducer()
            self._transport.loseConnection()

    def drop(self) -> None:
        """Close the connection now; what is queued is lost."""
        self.is_closing = True
        self.stopProducing()
        self._transport.abortConnection()

    def pauseProducing(self) -> None:
        """The transport is full."""
        self._full = True

    def resumeProducing(self) -> None:
        """The transport has room again."""
        self._full = False
        while self._backlog and not self._full:
            self._transport.write(self._backlog.take())
        if self.is_closing and not self._backlog:
            self.finish()

    def stopProducing(self) -> None:
        """The connection is gone."""
        self._backlog.clear()


@implementer(IHalfCloseableProtocol)
class StreamProtocol(TwistedProtocol):
    """One connection of a stream format. Subclasses say how it is read, and what each event means.

    :cvar FORMAT: the name of the wire format.
    :ivar dialed: whether it was this server that connected.
    :ivar is_busy: whether something that the client asked for is under way; what it sends later waits.
    """

    FORMAT: ClassVar[str]

    dialed = False
    factory: StreamFactory
    transport: Any
    session_id: str
    link: StreamLink

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self.bus = bus
        self.reactor = reactor
        self.traffic = Traffic()
        self._reader = self.make_reader()
        self.is_busy = False
        self._pumping = False
        self._input_ended = False
        self._ended = False
        self._abort_call: Any = None
        self._gone: Deferred[None] = Deferred()

    def make_reader(self) -> Reader:
        """A reader for what the client sends."""
        raise NotImplementedError

    def encoding(self) -> IEncoding:
        """How the client is given what it wants."""
        raise NotImplementedError

    def make_backlog(self) -> Backlog:
        """Where waits what the client is slow to take."""
        return Backlog()

    def opened(self) -> None:
        """The session is open."""

    def next_event(self) -> Any:
        """What the client sent next, or ``None``.

        :raises RemoteProtocolError: it is malformed.
        """
        return self._reader.next_event()

    def received(self, event: Any) -> None:
        """The client sent something."""
        raise NotImplementedError

    def malformed(self, error: RemoteProtocolError) -> None:
        """The client sent something malformed; the session ends right after this."""

    def connectionMade(self) -> None:
        """A client is present."""
        for set_option in ("setTcpKeepAlive", "setTcpNoDelay"):
            getattr(self.transport, set_option, lambda on: None)(True)
        self.factory.protocols.add(self)
        peer = peer_text(self.transport.getPeer())
        try:
            if not self.dialed:
                self.bus.admit(self.FORMAT, peer)
        except OverLimit as refusal:
            self._turn_away(refusal)
            return
        self.link = StreamLink(self, self.encoding(), self.bus.settings.max_outbound, self.make_backlog())
        self.session_id = self.bus.open(self.FORMAT, peer, self.link).id
        self.opened()

    def _turn_away(self, refusal: OverLimit) -> None:
        self._ended = True
        self.turned_away(refusal)
        self.transport.loseConnection()

    def turned_away(self, refusal: OverLimit) -> None:
        """The client may not come in: there is no session."""

    def dataReceived(self, data: bytes) -> None:
        """Take every event of a chunk, then let the bus send what came of it."""
        if self._ended:
            return
        self.traffic.bytes_in += len(data)
        self._reader.feed(data)
        if self.is_busy:
            # Not before: a client that waits for its answer, as most do, is not worth two system calls.
            self.transport.pauseProducing()
        else:
            self._pump(len(data))

    def _pump(self, size: int = 0) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while not self.is_busy and not self._ended and not self.link.is_closing:
                event = self.next_event()
                if event is None:
                    break
                self.traffic.objects_in += 1
                self.received(event)
        except RemoteProtocolError as error:
            self._refuse_input(error)
        finally:
            self._pumping = False
            if self.factory.in_turns:
                self.bus.flush_in_turn(self.session_id, size)
            else:
                self.bus.flush()
        if self._input_ended and not self.is_busy:
            self.end("client-closed")

    def _refuse_input(self, error: RemoteProtocolError) -> None:
        self.bus.counters[error.reason] += 1
        peer = peer_text(self.transport.getPeer())
        suppressed = self.factory.complaints.admit(host_of(peer))
        if suppressed is not None:
            log.info(
                "{name}: session {session} from {peer} ended: {error.message} ({suppressed} more not logged)",
                name=self.FORMAT,
                session=self.session_id,
                peer=peer,
                error=error,
                suppressed=suppressed,
            )
        self.malformed(error)
        self.end(error.reason)

    def busy_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``; while it waits for something, the client's later input waits."""
        working = Deferred.fromCoroutine(work)
        if not working.called:
            self.is_busy = True
        working.addErrback(self._broken)
        working.addBoth(self._done)

    def _broken(self, failure: Failure) -> None:
        log.failure("{name}: serving {session} failed", failure, name=self.FORMAT, session=self.session_id)
        self.end("internal-error")

    def _done(self, _: object) -> None:
        if not self.is_busy:
            return
        self.is_busy = False
        if not self._ended:
            self.transport.resumeProducing()
        self._pump()

    def overflow(self, limit: int) -> None:
        """The client reads too slowly: end its session, once the others were given what is being sent just now."""
        self.reactor.callLater(0, self._overflowed, limit)

    def _overflowed(self, limit: int) -> None:
        if self._ended:
            return
        session = self.bus.registry.state.sessions[self.session_id]
        self.bus.counters["slow-consumer"] += 1
        self.bus.registry.note_from_stranger(
            LimitReached(
                limit="max-outbound",
                value=limit,
                reason="slow-consumer",
                protocol=self.FORMAT,
                session=session.id,
                routing_id=session.routing_id,
                peer=session.peer,
            )
        )
        self._close_session("slow-consumer")
        self.link.drop()

    def end(self, reason: str) -> Deferred[None]:
        """End the session for ``reason``, and the connection when the client has taken what is queued.

        :returns: fires when the connection is gone.
        """
        gone = self.gone()
        if not self._ended:
            self._close_session(reason)
            self._abort_call = self.reactor.callLater(self.bus.settings.close_timeout, self._abort)
            self.link.finish()
        return gone

    def gone(self) -> Deferred[None]:
        """:returns: fires when the connection is gone."""
        gone: Deferred[None] = Deferred()
        self._gone.addCallback(lambda _: gone.callback(None))
        return gone

    def _abort(self) -> None:
        self._abort_call = None
        self.link.drop()

    def _close_session(self, reason: str) -> None:
        self._ended = True
        self.bus.close(self.session_id, reason, self.traffic)
        self.closed(reason)

    def closed(self, reason: str) -> None:
        """The session is closed."""

    def readConnectionLost(self) -> None:
        """The client sends no more, but may still read: finish what it asked for, then close."""
        self._input_ended = True
        self._pump()

    def writeConnectionLost(self) -> None:
        """The client reads no more; the connection's end will be told apart from this."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        self.factory.protocols.discard(self)
        if self._abort_call is not None:
            self._abort_call.cancel()
            self._abort_call = None
        if not self._ended:
            self._close_session("client-closed" if reason.check(ConnectionDone) else "connection-lost")
        self._gone.callback(None)


class StreamFactory(Factory):
    """Makes a protocol for each connection.

    :ivar protocols: those that are connected.
    :ivar complaints: how often the log says of one address what was wrong with what it sent.
    :ivar in_turns: whether what several of them send in a turn of the reactor goes on together. That is so on a port.
    """

    noisy = False
    in_turns = False

    def __init__(self, protocol: type[StreamProtocol], bus: IBus, reactor: Any) -> None:
        self.protocols: set[StreamProtocol] = set()
        self.complaints = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)
        self._protocol = protocol
        self._bus = bus
        self._reactor = reactor

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection."""
        protocol = self._protocol(self._bus, self._reactor)
        protocol.factory = self
        return protocol
