"""The Service providing protocol: clients that watch services. Source: seed 003; the packets are in
:mod:`bussrv.wire.spp`.

A client is offered every service when it connects, and each one that appears or goes later. Subscribing brings a
*snapshot*, the service's state, and then every update; both are info packets. The protocol has no errors: subscribing
to what is not offered is ignored on the wire and journaled as refused.

When there is an authenticator, a client is offered nothing and may watch nothing until it is *admitted*: until a packet
of type 32 said who it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.delivery import Batch, Delivery
from bussrv.errors import Refused
from bussrv.formats.backlog import Backlog
from bussrv.formats.listening import StreamListener
from bussrv.formats.spp_authentication import make_authenticator
from bussrv.formats.spp_coalescing import NewestStates
from bussrv.formats.stream import StreamFactory, StreamProtocol
from bussrv.interfaces import IAuthenticator, IBus, IEncoding, IRegistryObserver
from bussrv.journal.record import Stamped
from bussrv.registry.throttle import Throttle
from bussrv.wire import spp as wire

HEADER_BYTES = 8
"""msgtype and length, which a packet's length does not count."""

MAX_FAILURES = 3
"""How often a client may fail to say who it is before its connection is closed."""

ACCEPTED = 0
REFUSED = 1

LOG_RATE = 0.1
"""How often one service may cause a line of the log, per second; its first ``LOG_BURST`` at once."""

LOG_BURST = 5

log = Logger()


@implementer(IEncoding)
class SppInfo:
    """Publications as info packets.

    :param max_packet: the most bytes a client can be expected to take; what is larger is dropped and counted.
    :param seconds: a clock, in seconds.
    """

    def __init__(self, max_packet: int, counters: Counter[str], seconds: Callable[[], float]) -> None:
        self._max_packet = max_packet
        self._counters = counters
        self._log_throttle = Throttle(LOG_RATE, LOG_BURST, seconds)

    def encode(self, delivery: Delivery) -> bytes | None:
        """The packet of a publication."""
        publication = delivery.publication
        return None if publication is None else self.packet(publication.service, publication.payload)

    def encode_run(self, service: str, payloads: Sequence[bytes]) -> list[bytes]:
        """The packets of publications on one service; see :class:`bussrv.bus.publishing.RunEncoding`."""
        packets = wire.infos(service, payloads)
        if max(map(len, packets)) <= HEADER_BYTES + self._max_packet:
            return packets
        checked = (self.packet(service, payload) for payload in payloads)
        return [packet for packet in checked if packet is not None]

    def packet(self, service: str, message: bytes) -> bytes | None:
        """The info packet of a message, unless it is too large."""
        packet = wire.info(service, message)
        if len(packet) <= HEADER_BYTES + self._max_packet:
            return packet
        self._counters["packet-too-large"] += 1
        suppressed = self._log_throttle.admit(service)
        if suppressed is not None:
            log.warn(
                "spp: {size} bytes on {service!r} are too many for a packet ({suppressed} more not logged)",
                size=len(message),
                service=service,
                suppressed=suppressed,
            )
        return None


class SppProtocol(StreamProtocol):
    """One connection of a client that watches services.

    :ivar is_admitted: whether it may watch.
    """

    FORMAT = "spp"

    factory: SppFactory
    is_admitted = False
    _failures = 0

    def make_reader(self) -> wire.SppReader:
        """Reads what clients send."""
        return wire.SppReader("client", self.bus.settings.max_packet)

    def encoding(self) -> IEncoding:
        """Info packets, the same for every client."""
        return self.factory.info

    def make_backlog(self) -> Backlog:
        """Where waits what the client is slow to take: all of it, or the newest states."""
        if self.bus.settings.slow_spp == "coalesce":
            return NewestStates(self._is_state, self.bus.counters, self.traffic)
        return super().make_backlog()

    def _is_state(self, service: str) -> bool:
        """Services of the server itself tell what changes; what others publish is all there is to know."""
        return self.bus.hosted_type(service) is None

    def opened(self) -> None:
        """Whoever need not say who it is may watch at once."""
        if self.factory.authenticator is None:
            self._admit()

    def _admit(self) -> None:
        """Offer every service there is, and from now on every one that appears."""
        self.is_admitted = True
        offers = [wire.offer(service) for service in sorted(self.bus.registry.state.services)]
        if offers:
            self.link.send(Batch(offers))

    def received(self, event: wire.Event) -> None:
        """A packet came."""
        if isinstance(event, wire.Subscribe):
            self._subscribe(event.service)
        elif isinstance(event, wire.Unsubscribe):
            self._unsubscribe(event.service)
        elif isinstance(event, wire.Other) and event.msgtype == wire.AUTHENTICATE and not self.is_admitted:
            user, secret = wire.credentials(event.data)
            self.busy_with(self._authenticate(user, secret))
        else:
            self.bus.counters["spp-ignored"] += 1

    async def _authenticate(self, user: str, secret: str) -> None:
        authenticator, sessions = self.factory.authenticator, self.bus.registry.state.sessions
        assert authenticator is not None
        peer = sessions[self.session_id].peer
        accepted = await authenticator.authenticate(user, secret.encode(), peer)
        session = sessions.get(self.session_id)
        if session is None:
            return
        if accepted:
            self.bus.registry.note(ev.AuthSucceeded(**{**session.about(), "actor": user}))
            self.link.send(Batch([wire.auth_result(ACCEPTED)]))
            self._admit()
            return
        self._failures += 1
        self.bus.counters["bad-credentials"] += 1
        self.bus.registry.note_from_stranger(ev.AuthFailed(reason="bad-credentials", **session.about()))
        self.link.send(Batch([wire.auth_result(REFUSED)]))
        if self._failures == MAX_FAILURES:
            self.end("authentication-failed")

    def _subscribe(self, service: str) -> None:
        state = self.bus.registry.state
        if not self.is_admitted:
            self._refuse(service, "not-authenticated")
        elif service not in state.services:
            self._refuse(service, "no-such-service")
        elif state.subscription(self.session_id, service) is not None:
            self._send_snapshot(service)
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
        if service in registry.state.services:
            self._send_snapshot(service)
            return
        # It went while this was being written, and the client was told so: nobody can subscribe after that.
        registry.lose_subscription(self.session_id, service, "no-such-service")
        self.bus.counters["no-such-service"] += 1

    def _send_snapshot(self, service: str) -> None:
        """The state as it is now, behind every update before it."""
        self.bus.flush()
        packet = self.factory.info.packet(service, self.bus.last(service))
        if packet is not None:
            self.link.send(Batch([packet]))

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

    :ivar authenticator: decides who may watch; ``None``: everybody may.
    """

    protocols: set[SppProtocol]  # type: ignore[assignment]

    def __init__(self, bus: IBus, reactor: Any, authenticator: IAuthenticator | None = None) -> None:
        super().__init__(SppProtocol, bus, reactor)
        self.authenticator = authenticator
        self.info = SppInfo(bus.settings.max_packet, bus.counters, reactor.seconds)
        self._services = bus.registry.state.services
        bus.registry.observe(self)

    def registry_changed(self, stamped: Stamped) -> None:
        """Offer a service with its first provider, remove it with its last; see :class:`IRegistryObserver`."""
        event = stamped.event
        if event.service is None:
            return
        if isinstance(event, ev.ServiceRegistered) and len(self._services.get(event.service, ())) == 1:
            self._tell_all(wire.offer(event.service))
        elif isinstance(event, ev.ServiceUnregistered) and event.service not in self._services:
            self._tell_all(wire.removed(event.service))

    def _tell_all(self, packet: bytes) -> None:
        """Send a packet to everybody who may watch, behind the updates that were published before."""
        self._bus.flush()
        batch = Batch([packet])
        for protocol in tuple(self.protocols):
            if protocol.is_admitted:
                protocol.link.send(batch)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve SPP; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(SppFactory(bus, reactor, make_authenticator(bus.settings, reactor)), endpoint, reactor)
