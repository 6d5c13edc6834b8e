"""Base of all stream formats: wire formats over TCP or UNIX sockets, in which each connection is one session.

A session has

1. an *input* (:mod:`bussrv.net.session.input`). Each chunk of bytes is fed to a *reader*, which makes *events* of them:
   objects or packets. Events are served one by one, a slice of time at a time (:mod:`bussrv.turns.slices`), so that
   every session is served. No event is taken while a change that the client asked for is on its way to the journal, or
   while other sessions have their slices. Then at most one more chunk is read from the connection.
2. a *link* (:mod:`bussrv.net.session.client_link`), which sends to the client.
3. an *identification*: the user that the client has proved to be.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import address_key, peer_text
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interfaces import IBus, IEncoding
from bussrv.errors import NotAllowed, OverLimit, Refused, RemoteProtocolError
from bussrv.events import LimitReached
from bussrv.memory.bundle import Bundle
from bussrv.memory.limits import HeldMemory
from bussrv.net.session import failing
from bussrv.net.session.backlog import Backlog
from bussrv.net.session.client_link import PersonalLink, StreamLink, check_frames, check_takes_patterns
from bussrv.net.session.ending import Ending
from bussrv.net.session.identification import Identification
from bussrv.net.session.input import FREE_INPUT, Input, Reader
from bussrv.net.session.input_states import State
from bussrv.net.session.long_answer import LongAnswer
from bussrv.net.session.timers import Timers
from bussrv.net.transport.complaints import Complaints
from bussrv.policy.logins.credentials import Credentials, Proof
from bussrv.policy.permissions.permissions import NOTHING, Action, Permissions
from bussrv.registry.changes import rules
from bussrv.service_patterns import filter_of
from bussrv.settings import Settings
from bussrv.values import OCTET_STREAM, Publication, Traffic, check_publication, quoted


class PortConnections(Protocol):
    """The connections of one port; see :class:`bussrv.net.session.factory.StreamFactory`."""

    bus: IBus
    protocols: set[StreamProtocol]
    complaints: Complaints
    in_turns: bool


@implementer(IHalfCloseableProtocol)
class StreamProtocol(TwistedProtocol):
    """One connection of a stream format.

    Subclasses implement :meth:`make_reader`, :meth:`encoding` and :meth:`received`. They may override the other
    *hooks*: :meth:`encoding_for`, :meth:`personal`, :meth:`make_backlog`, :meth:`make_link`, :meth:`not_admitted`,
    :meth:`opened`, :meth:`next_event`, :meth:`malformed`, :meth:`server_stops`, :meth:`last_words`, :meth:`farewell`,
    :meth:`reason_of_end` and :meth:`closed`. If a hook raises, the session ends with ``internal-error``; others go on.

    :cvar FORMAT: the name of the wire format.
    :cvar LAST_WORDS: a client that read too slowly has so many seconds to read why it is cut.
    :cvar LINK: the class of the link, unless :meth:`personal` is overridden: one that provides more interfaces.
    :ivar dialed: whether this server connected to the other side; otherwise the other side connected.
    :ivar is_admitted: whether the bus has admitted the client already.
    :ivar is_link: whether the other side is a linked server.
    :ivar factory: the factory that made it.
    :ivar session_id: the id of its session, once that is open.
    :ivar traffic: the counts of objects and bytes of the session, for the journal.
    :ivar fault: what the client did wrong, as a sentence: of malformed input, or of the refusal that ended it.
    :ivar input: what the client sends.
    :ivar link: sends to the client. A client that is not admitted has none.
    :ivar identification: who the client has proved to be.
    """

    FORMAT: ClassVar[str]
    LAST_WORDS: ClassVar[float] = 5.0
    fault = ""
    LINK: ClassVar[type[StreamLink]] = StreamLink
    dialed = is_admitted = is_link = _is_renewed = False
    factory: PortConnections
    transport: Any
    session_id: str
    link: StreamLink

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self._bus = bus
        self.reactor = reactor
        self.traffic = Traffic()
        self.input = Input(self, self.make_reader(), bus, reactor)
        self.identification = Identification(self, bus)
        self._timers = Timers()
        self._ending = Ending(bus, reactor)
        self._ending.gone().addCallback(lambda _: self.factory.protocols.discard(self))

    def make_reader(self) -> Reader:
        """A reader of the client's bytes. There is no session, link or transport yet, but :attr:`settings`."""
        raise NotImplementedError

    def encoding(self) -> IEncoding:
        """How objects and publications are encoded for the client.

        Sessions whose encodings are equal get the same bytes, which are made once. So let it be hashable, equal to
        those that make the same bytes, and never changed. By default that of a subscription without options.
        """
        if type(self).encoding_for is StreamProtocol.encoding_for:
            raise NotImplementedError
        return self.encoding_for({})

    def encoding_for(self, options: dict[str, Any]) -> IEncoding:
        """How the publications of a subscription with options are encoded; by default like all others.

        :param options: as :meth:`subscribe` was given them, such as a number that frames of the subscription bear.
        """
        return self.encoding()

    def personal(self, frame: bytes) -> bytes:
        """The place for what differs from client to client, such as a number: a frame as this client gets it.

        Overridden, it is given every frame before it is sent to this client, those of :meth:`send` included, and
        sessions share no bytes any more.
        """
        return frame

    def make_backlog(self) -> Backlog:
        """A queue for the frames that wait for the client."""
        return Backlog()

    def make_link(self, backlog: Backlog) -> StreamLink:
        """The link: it sends frames to the client."""
        kind = self.LINK if type(self).personal is StreamProtocol.personal else PersonalLink
        return kind(self, self.encoding(), self._bus.settings.max_outbound, backlog, self._bus.streams.outflow)

    def expect_input(self, seconds: float, reason: str, *, renewed: bool = False) -> None:
        """Give the client so many seconds, after which its session ends for ``reason``; 0: it has any time.

        Only the time counts in which the server waits for the client. The last call counts.

        :param renewed: whether the time begins anew with all that the client sends; see :meth:`heard`.
        """
        self._timers.expect(self, seconds, reason)
        self._is_renewed = renewed and seconds > 0

    def is_late(self, reason: str) -> None:
        """The client did not send what was expected."""
        self._bus.counters[reason] += 1
        self.end(reason)

    def heard(self) -> None:
        """Called before each chunk while that renews the time of the client. Override it where not all bytes count."""
        if self._is_renewed:
            self._timers.renew()

    def repeat(self, seconds: float, call: Callable[[], object]) -> None:
        """Call now, and again and again after so many seconds, until the session is closed."""
        self._timers.repeat(self, seconds, call)

    def end_timers(self) -> None:
        """The session is closed: nothing is expected any more, and nothing repeated."""
        self._timers.end()

    def opened(self) -> None:
        """Called when the session is open. A client with a TLS certificate may have logged in by it already."""

    def next_event(self) -> Any:
        """The next event of the client; ``None``: more bytes are needed; see :class:`bussrv.net.session.input.Input`.

        :raises RemoteProtocolError: the input is malformed.
        """
        return self.input.reader.next_event()

    def received(self, event: Any) -> None:
        """Serve an event that the client sent."""
        raise NotImplementedError

    def continue_as(self, session_id: str, traffic: Traffic, reason: str) -> None:
        """Serve another session of the client from now on. The one that its connection had is closed.

        :param traffic: the counts of the other session. ``reason``: of the end of the former one.
        """
        self._bus.close(self.session_id, reason, self.traffic)
        self.session_id = self.input.session_id = session_id
        self.traffic = self.link.traffic = traffic

    def last_words(self, reason: str) -> Bundle | None:
        """The frames that tell ``reason`` to a client that is cut because it reads too slowly; ``None``: none do.

        They are sent instead of all that waits for the client.
        """
        return None

    def farewell(self, reason: str) -> None:
        """Called when the session is about to end for ``reason``: the client can be sent a last frame.

        It is called once, and not if the connection is lost already or the client reads too slowly.
        """

    def malformed(self, error: RemoteProtocolError) -> None:
        """Called when the client sent something malformed, before the session ends."""

    def connectionMade(self) -> None:
        """Open a session for the client, if limits admit it."""
        for set_option in ("setTcpKeepAlive", "setTcpNoDelay"):
            getattr(self.transport, set_option, lambda on: None)(True)
        self.factory.protocols.add(self)
        peer = peer_text(self.transport.getPeer())
        try:
            if not (self.dialed or self.is_admitted):
                self._bus.admit(self.FORMAT, peer)
            backlog, address = self.make_backlog(), address_key(peer)
            self._ending.address = address
            backlog.holding = self._bus.streams.outbound.open(address, self.outbound_is_full)
            self.link = self.make_link(backlog)
        except Exception as error:
            failing.not_opened(self, error)
            return
        self.session_id = self._bus.open(self.FORMAT, peer, self.link).id
        inbound = self._bus.streams.inbound.open(address, self._inbound_is_full)
        self.input.open(self.session_id, self.factory, address, inbound)
        try:
            proof = None if self.dialed else self.identification.by_certificate(self.transport)
            if proof is None:
                self.opened()
            else:
                self.busy_with(self._open_as(proof))
        except Exception:
            self.serving_failed(Failure())

    async def _open_as(self, proof: Proof) -> None:
        """The client has proved who it is by its certificate."""
        with suppress(Refused):
            await self.identification.prove(proof)
        if not self.has_ended:
            self.opened()

    def not_admitted(self, refusal: OverLimit) -> None:
        """The client is over a limit, and there is no session: write to :attr:`transport` what tells the client."""

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk. Its events are served in the next slice of the session."""
        if self._is_renewed:
            self.heard()
        self.input.take(data)

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended, or does so a slice at a time."""
        return self.input.has_ended

    @property
    def is_busy(self) -> bool:
        """Whether something that the client asked for is under way, so that its later input waits."""
        return self.input.is_busy

    def is_unserved(self) -> bool:
        """Whether input of the client waits to be served, so that the server and not the client is late."""
        return self.input.is_unserved

    def has_input(self) -> bool:
        """Whether something that the client sent may be left."""
        return True

    def input_has_ended(self) -> None:
        """The client has sent its last, and all of it is served."""
        why = self._why_it_ends("client-closed")
        self.end_services(why, partial(self.end, why))

    def end_services(self, reason: str, then: Callable[[], object]) -> None:
        """End the services of the session for ``reason``, some in each slice, then call ``then``."""
        self._ending.end_services("" if self.has_ended else self.session_id, reason, then)

    def refuse_input(self, error: RemoteProtocolError) -> None:
        """The client sent something malformed: its session ends."""
        self._bus.counters[error.reason] += 1
        self.factory.complaints.malformed(self.session_id, peer_text(self.transport.getPeer()), error)
        self.fault = error.message
        try:
            self.malformed(error)
        except Exception:
            self.serving_failed(Failure())
        self.end(error.reason)

    # Authors of wire formats serve clients with these methods. The registry and the bus themselves ask no policy.

    @property
    def settings(self) -> Settings:
        """The options of the server, as they are now."""
        return self._bus.settings

    def busy_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``. The client's later input waits until it is done."""
        self.busy_until(Deferred.fromCoroutine(work))

    def busy_until(self, done: Deferred[Any]) -> None:
        """Let the client's later input wait until ``done`` fires."""
        if not done.called:
            self.input.begin_work()
        done.addErrback(self.serving_failed).addBoth(self.input.work_is_done)

    def send(self, frames: Sequence[bytes]) -> None:
        """Send the client frames of its wire format, after what was collected for it.

        :raises TypeError: a frame is no ``bytes``.
        """
        check_frames(frames)
        self._bus.send(self.session_id, frames)

    async def subscribe(self, service: str, options: dict[str, Any] | None = None, *, or_pattern: bool = False) -> None:
        """The client wants the publications on a service from now on, or on those that a pattern covers; await it.

        :raises Refused: ``not-authenticated``, ``not-allowed``, or as :meth:`IRegistry.subscribe` does.
        :raises TypeError: the link is no :class:`IFilteringLink`, so patterns would give the client nothing.
        """
        registry = self._bus.registry
        check_takes_patterns(self.link, or_pattern=or_pattern)
        self.check_may("watch", filter_of(service))
        await self.until_ready(service)
        await failing.counted(self._bus, registry.subscribe(self.session_id, service, options, or_pattern=or_pattern))
        if registry.state.subscription(self.session_id, service) is None:
            raise _withdrawn("watch", service)

    async def unsubscribe(self, service: str) -> None:
        """End a subscription. :raises Refused: ``no-such-subscription`` or ``journal-unavailable``."""
        await failing.counted(self._bus, self._bus.registry.unsubscribe(self.session_id, service))

    async def provide(self, service: str) -> None:
        """The client provides a service from now on; to be awaited by :meth:`busy_with`.

        :raises Refused: ``not-authenticated``, ``not-allowed``, or as :meth:`IRegistry.register_service` does.
        """
        self.check_may("provide", service)
        await failing.counted(self._bus, self._bus.registry.register_service(self.session_id, service))
        self.check_still_provides(service)

    def check_still_provides(self, service: str) -> None:
        """Check, after a service was registered, that its permission was not withdrawn meanwhile.

        :raises Refused: ``not-allowed``: it was, so the session lost the service at once.
        """
        if not self._bus.registry.state.provides(self.session_id, service):
            raise _withdrawn("provide", service)

    async def unprovide(self, service: str) -> None:
        """The client stops providing a service. :raises Refused: ``not-registered`` or ``journal-unavailable``."""
        await failing.counted(self._bus, self._bus.registry.unregister_service(self.session_id, service))

    def publish(self, publication: Publication) -> None:
        """The client publishes on a service that it provides.

        :raises Refused: ``not-authenticated``, ``not-allowed`` or ``not-registered``.
        :raises TypeError: the payload is no ``bytes``, or the content type no text.
        :raises UnicodeEncodeError: the content type cannot be encoded, so that other clients could not be told it.
        """
        service = publication.service
        check_publication(publication)
        self.check_may("publish", service)
        rules.may_unregister(self._bus.registry.state, self.session_id, service)
        self._bus.publish(self.session_id, publication)
        if not self.input.is_serving:
            self._bus.flush()

    def state_of(self, service: str) -> bytes:
        """The present state of a service, as the client may know it: to be sent right after :meth:`subscribe`.

        :returns: the last payload that was published, or the snapshot of a hosted service; empty if there is none.
        :raises Refused: ``internal-error``: the hosted service failed.
        """
        return self._bus.last(service, self.permissions())

    def send_state(self, service: str, content_type: str = OCTET_STREAM) -> None:
        """Send the client the present state of a service, as a publication; nothing if there is none.

        To be called right after :meth:`subscribe`, with no ``await`` in between. Then nothing is missing before the
        first update, and nothing comes twice.

        :raises Refused: ``internal-error``: the hosted service failed.
        """
        state = self.state_of(service)
        subscription = self._bus.registry.state.subscription(self.session_id, service)
        options = None if subscription is None else subscription.options
        encoding = self.encoding_for(options) if options else self.encoding()
        delivery = Delivery(b"", state, Publication(service, content_type, state))
        frame = encoding.encode(delivery) if state else None
        if frame is not None:
            self.send([frame])

    async def until_ready(self, service: str) -> None:
        """Wait until the present state of a service can be made in little time. The session may end meanwhile."""
        ready = self._bus.ready(service, self.permissions())
        if ready is not None:
            await ready

    def permissions(self) -> Permissions:
        """The permissions of the session, as they are now."""
        return self._bus.access.of(self._bus.registry.state.sessions.get(self.session_id))

    def check_may(self, action: Action, service: object) -> None:
        """Check that the client may do something with a service.

        :raises Refused: ``not-authenticated`` or ``not-allowed``.
        """
        self.identification.check_may_join()
        if isinstance(service, str) and not self._bus.may(self.session_id, action, service):
            raise NotAllowed(f"the policy does not allow you to {action} {quoted(service)}")

    @property
    def asks_for_login(self) -> bool:
        """Whether the server asks clients who they are. Otherwise no login can be checked."""
        return self._bus.access.asks

    @property
    def has_joined(self) -> bool:
        """Whether the client may do anything at all: it has logged in, or need not."""
        return not self.has_ended and self.permissions() is not NOTHING

    def check_may_join(self) -> None:
        """Check that the client may do anything at all. A denial is journaled.

        :raises Refused: ``not-authenticated``, ``not-allowed``, or ``session-closed`` if the client is gone.
        """
        self.identification.check_may_join()

    async def log_in(self, credentials: Credentials) -> None:
        """The client says who it is; to be awaited by :meth:`busy_with`. The outcome is journaled.

        After three failures the session ends with ``authentication-failed``, once this reactor turn is over: tell the
        client at once.

        :raises Refused: ``bad-credentials``, ``too-many-logins`` (nothing was checked, so the client may try again),
            ``actor-fixed`` (it has logged in as another user), or ``session-closed`` if the client is gone.
        """
        try:
            await self.identification.log_in(credentials)
        except Refused:
            if self.identification.has_failed_too_often:
                self.reactor.callLater(0, self._unless_ended, partial(self.end, "authentication-failed"))
            raise

    def held_memory(self, forget: Callable[[], object]) -> HeldMemory:
        """Counts memory that the wire format itself keeps for this client towards ``--max-outbound-total``.

        The address that holds most loses a session when there is too much. Release what is held when the session is
        closed, too.

        :param forget: called when this session is the one: lets go of the memory, and releases it.
        """

        def give_up() -> None:
            failing.ask(self, lambda _: forget(), "outbound-full")
            self.outbound_is_full()

        return self._bus.streams.outbound.open(self._ending.address, give_up)

    async def send_in_slices(self, frames: Iterator[bytes]) -> None:
        """Send an answer that may be long; to be awaited by :meth:`busy_with`. Others are served in between."""
        send = partial(self._bus.send, self.session_id)
        await LongAnswer(frames, send, self.link, self._bus.slices, self._ending.address).sent

    def serving_failed(self, failure: Failure) -> None:
        """Serving the client failed. That is a fault of the server or of a plugin, not of the client."""
        failing.note(self, failure)
        self.end("internal-error")

    def fail_soon(self, failure: Failure) -> None:
        """The same, at the end of the reactor turn: others are being served just now."""
        self.reactor.callLater(0, self._unless_ended, partial(self.serving_failed, failure))

    def _unless_ended(self, call: Callable[[], object]) -> None:
        if not self.has_ended:
            call()

    def overflow(self, limit: int) -> None:
        """The client reads too slowly: end its session, after the present frames were sent to the others."""
        self._end_soon_over_limit("max-outbound", limit, "slow-consumer")

    def outbound_is_full(self) -> None:
        """All backlogs together are too large: end this session soon; see :mod:`bussrv.memory.limits`."""
        self.link.discard()
        most = self._bus.settings.max_outbound_total
        self._end_soon_over_limit("max-outbound-total", most, "outbound-full")

    def _end_soon_over_limit(self, limit: str, value: int, reason: str) -> None:
        self.input.cut()
        # In slices: an object that is one too many may be so for thousands of clients.
        then = partial(self._end_over_limit, limit, value, reason)
        self.reactor.callLater(0, self.end_services, reason, then)

    def _end_over_limit(self, limit: str, value: int, reason: str) -> None:
        if self.has_ended:
            return
        self._bus.counters[reason] += 1
        self.factory.complaints.cut(self.session_id, peer_text(self.transport.getPeer()), reason, limit, value)
        self._note_limit(limit, value, reason)
        # If the memory of all is full, what was begun is lost already, and nothing that follows could be read.
        words = failing.ask(self, self.last_words, reason) if reason == "slow-consumer" else None
        self._ending.cut(self, reason, words, self.LAST_WORDS)

    def _inbound_is_full(self) -> None:
        """The unfinished input of all clients is too large: end this session; see :mod:`bussrv.memory.limits`."""
        most = self._bus.settings.max_inbound_total
        self._note_limit("max-inbound-total", most, "inbound-full")
        message = f"more than {most} bytes of unfinished input, of all clients together, are waiting"
        self.refuse_input(RemoteProtocolError("inbound-full", message))

    def input_is_large(self) -> None:
        """A client that may do nothing before it proves who it is sends no more than a login needs."""
        if not (self.has_ended or self.dialed or self.is_link) and self.permissions() is NOTHING:
            message = (
                f"a client that has not said who it is sends at most {FREE_INPUT} bytes before its login is checked"
            )
            self.refuse_input(RemoteProtocolError("packet-too-large", message))

    def _note_limit(self, limit: str, value: int, reason: str) -> None:
        session = self._bus.registry.state.sessions[self.session_id]
        self._bus.registry.note_from_stranger(LimitReached(limit=limit, value=value, reason=reason, **session.about()))

    def end(self, reason: str, most: float | None = None) -> Deferred[None]:
        """End the session for ``reason``, and the connection when the client has taken what is queued.

        :param most: seconds after which the connection is cut; no longer than ``--close-timeout``.
        :returns: fires when the connection is gone.
        """
        gone = self.gone()
        self._ending.end(self, reason, most)
        return gone

    def end_over(self, refusal: Refused) -> Deferred[None]:
        """End the session, as :meth:`end` does, in a format that ends it with each refusal."""
        self.fault = refusal.message
        return self.end(refusal.reason)

    def evict(self, reason: str) -> Deferred[None]:
        """End the session, and tell the client why, if the wire format has a message for that."""
        return self.end(reason)

    def server_stops(self, seconds: float) -> None:
        """Called when the server is about to stop: the session ends within so many seconds."""

    def gone(self) -> Deferred[None]:
        """:returns: fires when the connection is gone."""
        return self._ending.gone()

    def close_session(self, reason: str) -> None:
        """The client has gone: close its session. A wire format may have sessions that stay."""
        self._bus.close(self.session_id, reason, self.traffic)

    def session_gone(self) -> Deferred[None]:
        """:returns: fires when the connection has no session any more."""
        return self._ending.closed()

    def closed(self, reason: str) -> None:
        """Called when the session is closed for ``reason``: nothing can be sent any more. Cancel timers here."""

    def reason_of_end(self, reason: str) -> str:
        """The reason of the end of a session whose connection was not ended by this server.

        :param reason: as the transport has it: ``client-closed`` or ``connection-lost``.
        """
        return reason

    def _why_it_ends(self, reason: str) -> str:
        return failing.ask(self, self.reason_of_end, reason) or "internal-error"

    def readConnectionLost(self) -> None:
        """The client sends no more, but may still read: finish its requests, then close."""
        self.input.last_came()

    def writeConnectionLost(self) -> None:
        """The client reads no more; the end of the connection is reported separately."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        if self.input.state is State.NO_SESSION:
            self._ending.over(self)
            return
        self.input.cut()
        self.link.stopProducing()
        why = self._why_it_ends("client-closed" if reason.check(ConnectionDone) else "connection-lost")
        # In slices: thousands of connections may be lost at once, for example if a machine goes down.
        self.end_services(why, partial(self._ending.lost, self, why))

    def work_is_over(self) -> None:
        """The session has ended, and its work is done now."""
        self._ending.let_go(self)


def _withdrawn(action: Action, service: str) -> Refused:
    """The session ended, or its permission was withdrawn, while the change was on its way to the disk."""
    return NotAllowed(f"you are not allowed any more to {action} {quoted(service)}")
