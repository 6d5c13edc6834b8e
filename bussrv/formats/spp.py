"""The Service providing protocol: clients that subscribe to services. Source: seed 003; the packets are in
:mod:`bussrv.wire.spp`.

A client is offered every service when it connects, and each one that appears or goes later. Subscribing brings a
*snapshot*, the service's state, and then every update; both are info packets. The protocol has no errors: subscribing
to what is not offered is ignored on the wire and journaled as refused.

If there is an authenticator, a client is *admitted* when a packet of type 32 proves who it is. Before that it is
offered nothing, and may not subscribe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.interfaces import IBus, IEncoding
from bussrv.bus.outgoing import Bundle
from bussrv.errors import OverLimit, Refused
from bussrv.formats.backlog import Backlog
from bussrv.formats.listening import StreamListener
from bussrv.formats.spp_authentication import make_authenticator
from bussrv.formats.spp_coalescing import NewestStates
from bussrv.formats.spp_info import SppInfo
from bussrv.formats.spp_offers import Offers, SppLink
from bussrv.formats.spp_silence import SilentClients
from bussrv.formats.stream import StreamFactory, StreamProtocol
from bussrv.interfaces import IAuthenticator
from bussrv.journal.record import Stamped
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.session import Session
from bussrv.slices import by_steps
from bussrv.values import excerpt
from bussrv.wire import spp as wire

MAX_FAILURES = 3
"""How often a client may fail to say who it is before its connection is closed."""

METHOD = "password"
"""How a client proves who it is."""

ACCEPTED = 0
REFUSED = 1


class SppProtocol(StreamProtocol):
    """One connection of a client.

    :ivar is_admitted: whether it may subscribe: no login is needed, or its login succeeded.
    """

    FORMAT = "spp"

    factory: SppFactory
    link: SppLink
    is_admitted = False
    _failures = 0
    _checking: Deferred[bool] | None = None

    def make_reader(self) -> wire.SppReader:
        """Reads what clients send."""
        return wire.SppReader("client", self.bus.settings.max_packet)

    def encoding(self) -> IEncoding:
        """Info packets, the same for every client."""
        return self.factory.info

    def make_backlog(self) -> Backlog:
        """The backlog of the client: all packets, or the newest states."""
        if self.bus.settings.slow_spp == "coalesce":
            return NewestStates(self._is_state, self.bus.counters, self.traffic)
        return super().make_backlog()

    def _is_state(self, service: str) -> bool:
        """Services of the server itself tell what changes; what others publish is all there is to know."""
        return self.bus.hosted_type(service) is None

    def make_link(self, backlog: Backlog) -> SppLink:
        """The link to the client."""
        settings, outflow = self.bus.settings, self.bus.streams.outflow
        return SppLink(self.factory.offers, self, self.encoding(), settings.max_outbound, backlog, outflow)

    def opened(self) -> None:
        """A client that needs no login may subscribe at once."""
        self._be_silent()
        if self.factory.authenticator is None:
            self._admit()

    def _be_silent(self) -> None:
        self.factory.silent.enter(self, self.session().peer)

    def turn_out(self, refusal: OverLimit) -> None:
        """There are too many silent clients, and this one has waited longest."""
        self.bus.counters[refusal.limit] += 1
        self.bus.registry.note_from_stranger(ev.limit_reached(refusal, **self.session().about()))
        self.end(refusal.reason)

    def closed(self, reason: str) -> None:
        """The session is closed."""
        self.factory.silent.leave(self)
        self.factory.offers.leave(self.link)
        if self._checking is not None:
            self._checking.cancel()

    def session(self) -> Session:
        """The session as the registry has it."""
        session: Session = self.bus.registry.state.sessions[self.session_id]
        return session

    def _admit(self) -> None:
        """Offer every service there is, and from now on every one that appears."""
        self.is_admitted = True
        self.factory.offers.join(self.link)

    def received(self, event: wire.Event) -> None:
        """A packet came."""
        if isinstance(event, wire.Subscribe):
            self._subscribe(event.service)
        elif isinstance(event, wire.Unsubscribe):
            self._unsubscribe(event.service)
        elif isinstance(event, wire.Other) and event.msgtype == wire.AUTHENTICATE and not self.is_admitted:
            user, secret = wire.credentials(event.data)
            self.factory.silent.leave(self)
            self.busy_with(self._authenticate(user, secret))
        else:
            self.bus.counters["spp-ignored"] += 1

    async def _authenticate(self, user: str, secret: str) -> None:
        authenticator, sessions = self.factory.authenticator, self.bus.registry.state.sessions
        assert authenticator is not None
        peer = sessions[self.session_id].peer
        self._checking = authenticator.authenticate(user, secret.encode(), peer)
        try:
            accepted = await self._checking
        except CancelledError:
            return
        finally:
            self._checking = None
        if accepted:
            await self.bus.registry.spending.ready(sessions.get(self.session_id))
        session = sessions.get(self.session_id)
        if session is None:
            return
        if accepted:
            self.bus.registry.note(ev.AuthSucceeded(**{**session.about(), "actor": user}, method=METHOD))
            self.link.send(Bundle([wire.auth_result(ACCEPTED)]))
            self._admit()
            return
        self._be_silent()
        self._failures += 1
        self.bus.counters["bad-credentials"] += 1
        tried = {**session.about(), "claimed": excerpt(user)}
        self.bus.registry.note_from_stranger(ev.AuthFailed(reason="bad-credentials", method=METHOD, **tried))
        self.link.send(Bundle([wire.auth_result(REFUSED)]))
        if self._failures == MAX_FAILURES:
            self.end("authentication-failed")

    def _subscribe(self, service: str) -> None:
        state = self.bus.registry.state
        if not self.is_admitted:
            self._refuse(service, "not-authenticated")
            return
        if not self.bus.may(self.session_id, "watch", service):
            return
        if service not in state.services:
            self._refuse(service, "no-such-service")
            return
        self.factory.silent.leave(self)
        if state.subscription(self.session_id, service) is not None:
            self.busy_with(self.send_in_slices(self._snapshot(service)))
        else:
            self.busy_with(self._subscribe_anew(service))

    def _refuse(self, service: str, reason: str) -> None:
        self.bus.counters[reason] += 1
        self.bus.registry.refuse_subscription(self.session_id, service, reason)

    async def _subscribe_anew(self, service: str) -> None:
        registry = self.bus.registry
        try:
            await registry.subscribe(self.session_id, service)
        except Refused as refusal:
            self.bus.counters[refusal.reason] += 1
            return
        if registry.state.subscription(self.session_id, service) is None:
            # It was not allowed any more when it was made.
            return
        if service in registry.state.services:
            self._send_snapshot(service)
            return
        # It went while this was being written, and the client was told so: nobody can subscribe after that.
        registry.lose_subscription(self.session_id, service, "no-such-service")
        self.bus.counters["no-such-service"] += 1

    def _snapshot(self, service: str) -> Iterator[bytes]:
        """The state when the client is ready for it, after every update before it."""
        packet = self.factory.info.snapshot(service, self.bus.last(service))
        if packet is not None:
            yield packet

    def _send_snapshot(self, service: str) -> None:
        """The same at once: every later update is sent, too."""
        self.bus.send(self.session_id, list(self._snapshot(service)))

    def _unsubscribe(self, service: str) -> None:
        if self.bus.registry.state.subscription(self.session_id, service) is None:
            self.bus.counters["no-such-subscription"] += 1
        else:
            self.busy_with(self._unsubscribe_from(service))

    async def _unsubscribe_from(self, service: str) -> None:
        try:
            await self.bus.registry.unsubscribe(self.session_id, service)
        except Refused as refusal:
            self.bus.counters[refusal.reason] += 1


@implementer(IRegistryObserver)
class SppFactory(StreamFactory):
    """The connections, and what all of them are told when a service appears or goes.

    :ivar authenticator: decides who may subscribe; ``None``: everybody may.
    :ivar silent: those that never subscribed.
    """

    protocols: set[SppProtocol]  # type: ignore[assignment]

    def __init__(self, bus: IBus, reactor: Any, authenticator: IAuthenticator | None = None) -> None:
        super().__init__(SppProtocol, bus, reactor)
        self.authenticator = authenticator
        self.silent = SilentClients(bus.settings, SppProtocol.turn_out, reactor)
        self.info = SppInfo(
            bus.settings, lambda service: bus.hosted_type(service) is not None, bus.counters, reactor.seconds
        )
        self.offers = Offers(bus)
        self._services = bus.registry.state.services
        bus.registry.observe(self)

    def withdraw(self, users: frozenset[str]) -> None:
        """End the sessions of users who are gone, or have another secret now."""
        sessions = self.bus.registry.state.sessions
        ended = (each for each in tuple(self.protocols) if each.session_id in sessions)
        steps = (each.end("user-withdrawn") for each in ended if each.session().actor in users)
        self.bus.slices.do(by_steps(steps, self._reactor.seconds))

    def registry_changed(self, stamped: Stamped) -> None:
        """Offer a service with its first provider, remove it with its last; see :class:`IRegistryObserver`."""
        event = stamped.event
        if event.service is None:
            return
        appeared = isinstance(event, ev.ServiceRegistered) and len(self._services.get(event.service, ())) == 1
        went = isinstance(event, ev.ServiceUnregistered) and event.service not in self._services
        if appeared or went:
            # Earlier publications are sent first.
            self.bus.flush()
        if appeared:
            self.offers.appeared(event.service)
        elif went:
            self.offers.went(event.service)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve SPP; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    factory = SppFactory(bus, reactor)
    factory.authenticator = make_authenticator(bus, factory.withdraw, reactor)
    return StreamListener(factory, endpoint, reactor)
