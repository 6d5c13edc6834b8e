"""Base of all stream formats: one connection, one session.

Bytes are fed to a pure reader; its events are taken one by one, a slice at a time (:mod:`bussrv.slices`). While a
change that the client asked for is on its way to the journal, or other sessions have their slices, no further event is
taken, and the connection is not read beyond one more chunk: the client's later input waits, nobody else does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import address_key, peer_text
from bussrv.bus.interfaces import IBus, IEncoding
from bussrv.bus.leaving import after_services
from bussrv.errors import OverLimit, RemoteProtocolError
from bussrv.events import LimitReached
from bussrv.formats.accepting import ClosedAtOnce
from bussrv.formats.backlog import Backlog
from bussrv.formats.complaints import Complaints
from bussrv.formats.long_answer import LongAnswer
from bussrv.formats.stream_link import StreamLink
from bussrv.formats.unread import Reader, Unread
from bussrv.values import Traffic

LOUD = 32 << 10
"""A chunk of so many bytes comes from a client that sends faster than it is read."""


@implementer(IHalfCloseableProtocol)
class StreamProtocol(TwistedProtocol):
    """One connection of a stream format. Subclasses say how it is read, and what each event means.

    :cvar FORMAT: the name of the wire format.
    :ivar dialed: whether it was this server that connected.
    :ivar is_admitted: whether the bus was asked already.
    :ivar is_busy: whether something that the client asked for is under way; what it sends later waits.
    """

    FORMAT: ClassVar[str]
    dialed = is_admitted = False
    factory: StreamFactory
    transport: Any
    session_id: str
    link: StreamLink = None  # type: ignore[assignment]  # a client that is turned away has none

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self.bus = bus
        self.reactor = reactor
        self.traffic = Traffic()
        self._reader = self.make_reader()
        self.is_busy = False
        self._pumping = False
        self._until = 0.0
        self._unflushed = 0
        self._waits_for_slice = False
        self._address = ""
        self._is_paused = self._input_ended = self._ended = False
        self._abort_call: Any = None
        self._gone: Deferred[None] = Deferred()

    def make_reader(self) -> Reader:
        """A reader for what the client sends."""
        raise NotImplementedError

    def encoding(self) -> IEncoding:
        """The encoding for the client."""
        raise NotImplementedError

    def make_backlog(self) -> Backlog:
        """The backlog of the client."""
        return Backlog()

    def make_link(self, backlog: Backlog) -> StreamLink:
        """The link to the client."""
        return StreamLink(self, self.encoding(), self.bus.settings.max_outbound, backlog, self.bus.streams.outflow)

    def opened(self) -> None:
        """The session is open."""

    def next_event(self) -> Any:
        """The next event of the client, or ``None``.

        :raises RemoteProtocolError: it is malformed.
        """
        return self._reader.next_event()

    def received(self, event: Any) -> None:
        """The client sent an event."""
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
            if not (self.dialed or self.is_admitted):
                self.bus.admit(self.FORMAT, peer)
        except OverLimit as refusal:
            self._turn_away(refusal)
            return
        backlog, self._address = self.make_backlog(), address_key(peer)
        backlog.holding = self.bus.streams.outbound.open(self._address, self.lose_output)
        self._unread = Unread(self._reader, self.bus.streams.inbound.open(self._address, self._lose_input))
        self.link = self.make_link(backlog)
        self.session_id = self.bus.open(self.FORMAT, peer, self.link).id
        try:
            self.opened()
        except Exception:
            self._broken(Failure())

    def _turn_away(self, refusal: OverLimit) -> None:
        self._ended = True
        self.turned_away(refusal)
        self.transport.loseConnection()

    def turned_away(self, refusal: OverLimit) -> None:
        """The client is not admitted: there is no session."""

    def dataReceived(self, data: bytes) -> None:
        """Take every event of a chunk, then let the bus send the collected frames."""
        if self._ended:
            return
        self.traffic.bytes_in += len(data)
        try:
            self._reader.feed(data)
        except Exception:
            self._broken(Failure())
            return
        self._unflushed += len(data)
        if self.is_busy or self._waits_for_slice:
            # Not before: a client that waits for its answer, as most do, is not worth two system calls.
            self._is_paused = True
            self.transport.pauseProducing()
            self._unread.count()
        else:
            self._serve_soon()

    def _serve_soon(self) -> None:
        if not self._waits_for_slice:
            self._waits_for_slice = True
            self.bus.slices.do(self._serve_slice, self._address)

    def _serve_slice(self, until: float) -> bool:
        """Take what the client sent, for one slice; see :mod:`bussrv.slices`."""
        self._until = until
        self._waits_for_slice = self._pump() and not self.is_busy and not self._ended
        if not (self._waits_for_slice or self.is_busy or self._ended):
            self._read_on()
        return self._waits_for_slice

    def _read_on(self) -> None:
        """Everything that came is served."""
        if self._is_paused:
            self._is_paused = False
            self.transport.resumeProducing()
        if self._input_ended:
            self._leave("client-closed", partial(self.end, "client-closed"))

    def _leave(self, why: str, then: Callable[[], object]) -> None:
        """Call ``then`` when the services of the session have ended, if it was not closed before."""
        session_id = "" if self._ended else self.session_id
        ending = after_services(self.bus.registry, session_id, why, self.reactor.seconds, then)
        self.bus.slices.do(ending, self._address)

    def _pump(self) -> bool:
        """Take events until the slice is over. :returns: whether it is, so that more may be left."""
        if self._pumping:
            return False
        self._pumping = True
        try:
            while not self.is_busy and not self._ended and not self.link.is_closing:
                event = self.next_event()
                if event is None:
                    return self.slice_is_over()
                self.traffic.objects_in += 1
                self.received(event)
                if self.slice_is_over():
                    return True
        except RemoteProtocolError as error:
            self._refuse_input(error)
        except Exception:
            self._broken(Failure())
        finally:
            self._pumping = False
            self._flush()
        return False

    def slice_is_over(self) -> bool:
        """Whether it is time to let others be served."""
        is_over: bool = self.reactor.seconds() >= self._until
        return is_over

    def _flush(self) -> None:
        size, self._unflushed = self._unflushed, 0
        if self.factory.in_turns:
            self.bus.flush_in_turn(self.session_id, size)
        else:
            self.bus.flush()
        if not self._ended:
            self._unread.count()
        if size >= LOUD and self.bus.streams.outflow.is_busy and not self.is_busy and not self._ended:
            self.busy_with(self._let_others_be_sent_to())

    async def _let_others_be_sent_to(self) -> None:
        """Without this, a fast sender of large objects would fill the backlogs of clients that read fast enough."""
        await self.bus.streams.outflow.round()

    def _refuse_input(self, error: RemoteProtocolError) -> None:
        self.bus.counters[error.reason] += 1
        self.factory.complaints.malformed(self.session_id, peer_text(self.transport.getPeer()), error)
        try:
            self.malformed(error)
        except Exception:
            self._broken(Failure())
        self.end(error.reason)

    def busy_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``; the client's later input waits until it is done."""
        working = Deferred.fromCoroutine(work)
        if not working.called:
            self.is_busy = True
        working.addErrback(self._broken)
        working.addBoth(self._done)

    def is_unserved(self) -> bool:
        """Whether input of the client waits to be served."""
        return self.is_busy or self._waits_for_slice

    async def send_in_slices(self, frames: Iterator[bytes]) -> None:
        """Send an answer that may be long; to be awaited by :meth:`busy_with`. See :class:`LongAnswer`."""
        send = partial(self.bus.send, self.session_id)
        await LongAnswer(frames, send, self.link, self.bus.slices, self._address).sent

    def _broken(self, failure: Failure) -> None:
        """Serving the client failed. That is a fault of the server or of a plugin, not of the client."""
        self.bus.counters["internal-error"] += 1
        self.factory.complaints.broken(self.session_id, peer_text(self.transport.getPeer()), failure)
        self.end("internal-error")

    def _done(self, _: object) -> None:
        if self.is_busy:
            self.is_busy = False
            self._serve_soon()

    def overflow(self, limit: int) -> None:
        """The client reads too slowly: end its session, after the current frames were sent to the others."""
        self.reactor.callLater(0, self._lost_patience, "max-outbound", limit, "slow-consumer")

    def lose_output(self) -> None:
        """All backlogs together are too large, and this client has not read for longest: end its session soon."""
        self.link.give_up()
        most = self.bus.settings.max_outbound_total
        self.reactor.callLater(0, self._lost_patience, "max-outbound-total", most, "outbound-full")

    def _lost_patience(self, limit: str, value: int, reason: str) -> None:
        if not self._ended:
            self.bus.counters[reason] += 1
            self._note_limit(limit, value, reason)
            self._close_session(reason)
            self.link.drop()

    def _lose_input(self) -> None:
        """The unfinished input of all clients is too large, and this client began its own first."""
        most = self.bus.settings.max_inbound_total
        self._note_limit("max-inbound-total", most, "inbound-full")
        message = f"more than {most} bytes of unfinished input, of all clients together, are waiting"
        self._refuse_input(RemoteProtocolError("inbound-full", message))

    def _note_limit(self, limit: str, value: int, reason: str) -> None:
        session = self.bus.registry.state.sessions[self.session_id]
        self.bus.registry.note_from_stranger(LimitReached(limit=limit, value=value, reason=reason, **session.about()))

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
        self._unread.clear()
        self.bus.close(self.session_id, reason, self.traffic)
        try:
            self.closed(reason)
        except Exception:
            # The session is closed already; the connection still has to be.
            self._broken(Failure())

    def closed(self, reason: str) -> None:
        """The session is closed."""

    def readConnectionLost(self) -> None:
        """The client sends no more, but may still read: finish its requests, then close."""
        self._input_ended = True
        if not self.is_busy:
            self._serve_soon()

    def writeConnectionLost(self) -> None:
        """The client reads no more; the end of the connection is reported separately."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        if self.link is not None:
            self.link.stopProducing()
        why = "client-closed" if reason.check(ConnectionDone) else "connection-lost"
        # Thousands may be lost at once, for example if a machine goes down.
        self._leave(why, partial(self._lose, why))

    def _lose(self, why: str) -> None:
        self.factory.protocols.discard(self)
        if not self._ended:
            self._close_session(why)
        if self._abort_call is not None:
            self._abort_call.cancel()
            self._abort_call = None
        self._gone.callback(None)


class StreamFactory(Factory):
    """Makes a protocol for each connection.

    :ivar bus: the bus.
    :ivar name: the wire format.
    :ivar protocols: the connected ones.
    :ivar complaints: limits the lines of log about malformed input of one address.
    :ivar in_turns: whether frames of several connections in one reactor turn are sent together. True on a port.
    """

    noisy = False
    in_turns = False

    def __init__(self, protocol: type[StreamProtocol], bus: IBus, reactor: Any) -> None:
        self.protocols: set[StreamProtocol] = set()
        bus.streams.connections.append(self.protocols)
        self.complaints = Complaints(protocol.FORMAT, reactor.seconds)
        self.name = protocol.FORMAT
        self._protocol = protocol
        self.bus = bus
        self._reactor = reactor

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection."""
        return self.if_there_is_room(self._make)

    def if_there_is_room(self, make: Callable[[], Any]) -> Any:
        """What ``make`` makes for a new connection; if there are too many, a protocol that closes it."""
        if self.in_turns and self.bus.streams.is_crowded:
            self.bus.counters["no-descriptors"] += 1
            return ClosedAtOnce()
        return make()

    def _make(self) -> StreamProtocol:
        protocol = self._protocol(self.bus, self._reactor)
        protocol.factory = self
        return protocol
