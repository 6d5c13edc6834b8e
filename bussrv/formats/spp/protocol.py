"""The Service providing protocol: clients that subscribe to services. Source: seed 003; the packets are in
:mod:`bussrv.wire.spp`.

A client is offered every service when it connects, and each one that appears or goes later. Subscribing brings a
*snapshot*, the service's state, and then every update; both are info packets. The protocol has no errors: subscribing
to what is not offered is ignored on the wire and journaled as refused.

A client may log in by a packet of type 32, if the server asks who clients are. It is *watching* when it may do
anything at all: at once, or after its login. Before that it is offered nothing, and may not subscribe.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from bussrv import events as ev
from bussrv.counts.throttle import Throttle
from bussrv.errors import TOO_MANY_LOGINS
from bussrv.formats.spp.offers import Offers, SppLink
from bussrv.formats.spp.silence import SilentClients
from bussrv.plugin import (
    Backlog,
    Bundle,
    Chunk,
    Credentials,
    Delivery,
    IBus,
    IEncoding,
    IRegistryObserver,
    OverLimit,
    Password,
    Refused,
    Session,
    Settings,
    Stamped,
    StreamFactory,
    StreamListener,
    StreamProtocol,
    Token,
    Traffic,
)
from bussrv.wire import spp as wire
from bussrv.wire.spp import service_of_info

HEADER_BYTES = 8
"""msgtype and length, which a packet's length does not count."""

MOST_COPIED = 64 << 10
"""A state of more bytes than this is not copied for each client that asks for it."""

LOG_RATE = 0.1
"""How often one service may cause a line of the log, per second; its first ``LOG_BURST`` at once."""

LOG_BURST = 5

log = Logger()


@implementer(IEncoding)
class SppInfo:
    """Publications as info packets. A message that is too large for a client is dropped and counted.

    Clients take packets as large as they may send themselves. A service of the server itself may say more, up to what
    may wait for a client: whoever subscribes to it has to be ready for that.

    :param is_hosted: whether a service is one of the server itself.
    :param seconds: a clock, in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        is_hosted: Callable[[str], bool],
        counters: Counter[str],
        seconds: Callable[[], float],
    ) -> None:
        self._max_packet = settings.max_packet
        self._max_hosted = settings.max_outbound - HEADER_BYTES
        self._is_hosted = is_hosted
        self._counters = counters
        self._log_throttle = Throttle(LOG_RATE, LOG_BURST, seconds)
        self._latest: tuple[str, bytes, bytes] = ("", b"", b"")

    def encode(self, delivery: Delivery) -> bytes | None:
        """The packet of a publication."""
        publication = delivery.publication
        return None if publication is None else self.packet(publication.service, publication.payload)

    def encode_batch(self, service: str, payloads: Sequence[bytes]) -> list[bytes]:
        """The packets of publications on one service; see :class:`bussrv.bus.services.publishing.BatchEncoding`."""
        packets = wire.infos(service, payloads)
        if max(map(len, packets)) <= HEADER_BYTES + self._max_packet:
            return packets
        checked = (self.packet(service, payload) for payload in payloads)
        return [packet for packet in checked if packet is not None]

    def packet(self, service: str, message: bytes) -> bytes | None:
        """The info packet of a message, unless it is too large."""
        packet = wire.info(service, message)
        most = self._max_hosted if self._is_hosted(service) else self._max_packet
        if len(packet) <= HEADER_BYTES + most:
            return packet
        self._counters["packet-too-large"] += 1
        suppressed = self._log_throttle.admit(service)
        if suppressed is not None:
            log.warn(
                "spp: {size} bytes on {service!r} are too many for a packet ({suppressed} more not logged)",
                event="spp.too-large",
                size=len(message),
                service=service,
                suppressed=suppressed,
            )
        return None

    def snapshot(self, service: str, message: bytes) -> bytes | None:
        """The packet of the present state of a service. Clients that get a large one share its bytes."""
        if len(message) <= MOST_COPIED:
            return self.packet(service, message)
        latest_service, latest_message, packet = self._latest
        if service == latest_service and message is latest_message:
            return packet
        made = self.packet(service, message)
        if made is not None:
            self._latest = (service, message, made)
        return made


class NewestStates(Backlog):
    """Packets in the order in which they were sent, without info packets that have a newer one of their service.

    The older one goes, and the newer one stands where it stood anyway: what is left is in order, and every offer,
    removal and answer is among it.

    :param is_state: whether the messages of a service are states. Those that are changes of a state are all kept.
    :param counters: ``spp-coalesced`` counts the packets that went.
    :param traffic: counts what the client is sent; what goes is not.
    """

    def __init__(self, is_state: Callable[[str], bool], counters: Counter[str], traffic: Traffic) -> None:
        super().__init__()
        self._is_state = is_state
        self._counters = counters
        self._traffic = traffic
        self._packets: OrderedDict[str | int, Chunk] = OrderedDict()
        self._kept = 0

    def put(self, bundle: Bundle) -> None:
        """Add packets at the end."""
        for chunk in bundle.chunks:
            service = service_of_info(chunk.data)
            if service is not None and self._is_state(service):
                self._let_go(service)
                self._packets[service] = chunk
            else:
                self._kept += 1
                self._packets[self._kept] = chunk
            self.count(chunk)

    def _let_go(self, service: str) -> None:
        older = self._packets.pop(service, None)
        if older is None:
            return
        size = len(older.data)
        self.size -= size
        self.uncount(older)
        self._traffic.objects_out -= 1
        self._traffic.bytes_out -= size
        self._counters["spp-coalesced"] += 1

    def following(self) -> Collection[Chunk]:
        """The packets after the one that was begun."""
        return self._packets.values()

    def next_chunk(self) -> Chunk:
        """The first of them, which must be there; it goes."""
        return self._packets.popitem(last=False)[1]

    def detach(self) -> Iterator[None]:
        """See :class:`Backlog`."""
        packets, self._packets = self._packets, OrderedDict()
        return _let_go(packets)


def _let_go(packets: OrderedDict[str | int, Chunk]) -> Iterator[None]:
    while packets:
        packets.popitem()
        yield


STRANGERS_PACKET = 4 << 10
"""The most bytes of a packet of a client that may do nothing before it proves who it is."""


class SppProtocol(StreamProtocol):
    """One connection of a client.

    :ivar is_watching: whether it is offered services, and may subscribe.
    """

    FORMAT = "spp"

    factory: SppFactory
    link: SppLink
    is_watching = False
    _is_logging_in = False

    def __init__(self, bus: IBus, reactor: Any) -> None:
        super().__init__(bus, reactor)
        self.bus = bus

    def make_reader(self) -> wire.SppReader:
        """Reads what clients send."""
        self._packets = wire.SppReader("client", self.settings.max_packet)
        return self._packets

    def encoding(self) -> IEncoding:
        """Info packets, the same for every client."""
        return self.factory.info

    def make_backlog(self) -> Backlog:
        """The backlog of the client: all packets, or the newest states."""
        if self.settings.slow_spp == "coalesce":
            return NewestStates(self._is_state, self.bus.counters, self.traffic)
        return super().make_backlog()

    def _is_state(self, service: str) -> bool:
        """Services of the server itself tell what changes; what others publish is all there is to know."""
        return self.bus.hosted_type(service) is None

    def make_link(self, backlog: Backlog) -> SppLink:
        """The link to the client."""
        settings, outflow = self.settings, self.bus.streams.outflow
        return SppLink(self.factory.offers, self, self.encoding(), settings.max_outbound, backlog, outflow)

    def opened(self) -> None:
        """A client that needs no login, or has a certificate, may subscribe at once."""
        self.factory.by_session[self.session_id] = self
        self._be_silent()
        self._packets.limit(min(STRANGERS_PACKET, self.settings.max_packet))
        self._watch()

    def _be_silent(self) -> None:
        self.factory.silent.enter(self, self.session().peer)

    def turn_out(self, refusal: OverLimit) -> None:
        """There are too many silent clients, and this one has waited longest."""
        self.bus.counters[refusal.limit] += 1
        self.bus.registry.note_from_stranger(ev.limit_reached(refusal, **self.session().about()))
        self.end(refusal.reason)

    def closed(self, reason: str) -> None:
        """The session is closed."""
        self.factory.by_session.pop(self.session_id, None)
        self.factory.silent.leave(self)
        self.factory.offers.leave(self.link)

    def session(self) -> Session:
        """The session as the registry has it."""
        session: Session = self.bus.registry.state.sessions[self.session_id]
        return session

    def _watch(self) -> None:
        """Offer every service there is, and from now on every one that appears, if the client may do anything."""
        if self.is_watching:
            return
        try:
            self.identification.check_may_join()
        except Refused:
            return
        self.is_watching = True
        self._packets.limit(self.settings.max_packet)
        self.factory.offers.join(self.link, self.bus.access.of(self.session()))

    def permissions_changed(self) -> None:
        """The client may know of other services now."""
        session = self.bus.registry.state.sessions.get(self.session_id)
        if self._is_logging_in or session is None:
            return
        if self.is_watching:
            self.factory.offers.permit(self.link, self.bus.access.of(session))
        else:
            self._watch()

    def received(self, event: wire.Event) -> None:
        """A packet came."""
        if isinstance(event, wire.Subscribe):
            self._subscribe(event.service)
        elif isinstance(event, wire.Unsubscribe):
            self._unsubscribe(event.service)
        elif isinstance(event, wire.Other) and event.msgtype == wire.AUTHENTICATE and self._may_log_in():
            user, secret = wire.credentials(event.data)
            self.factory.silent.leave(self)
            # A token says whose it is, so the name of the user is not needed.
            self.busy_with(self._log_in(Password(user, secret.encode()) if user else Token(secret)))
        else:
            self.bus.counters["spp-ignored"] += 1

    def _may_log_in(self) -> bool:
        return self.bus.access.asks and self.session().actor is None

    async def _log_in(self, credentials: Credentials) -> None:
        # The result comes before everything that follows from it.
        self._is_logging_in = True
        try:
            await self.identification.log_in(credentials)
        except Refused as refusal:
            self._not_logged_in(refusal)
        else:
            self.link.send(Bundle([wire.auth_result(wire.AUTH_ACCEPTED)]))
        finally:
            self._is_logging_in = False
        self.permissions_changed()

    def _not_logged_in(self, refusal: Refused) -> None:
        if self.has_ended:
            return
        if not self.bus.registry.state.subscriptions.get(self.session_id):
            self._be_silent()
        self.bus.counters[refusal.reason] += 1
        code = wire.AUTH_UNCHECKED if refusal.reason == TOO_MANY_LOGINS else wire.AUTH_REFUSED
        self.link.send(Bundle([wire.auth_result(code)]))
        if self.identification.has_failed_too_often:
            self.end("authentication-failed")

    def _subscribe(self, service: str) -> None:
        state = self.bus.registry.state
        if not self.is_watching:
            self._refuse(service, "not-authenticated" if self.session().actor is None else "not-allowed")
            return
        if not self.bus.may(self.session_id, "watch", service):
            return
        if service not in state.services:
            self._refuse(service, "no-such-service")
            return
        self.factory.silent.leave(self)
        if state.subscription(self.session_id, service) is not None:
            self.busy_with(self._answer_snapshot(service))
        else:
            self.busy_with(self._subscribe_anew(service))

    def _refuse(self, service: str, reason: str) -> None:
        self.bus.counters[reason] += 1
        self.bus.registry.refuse_subscription(self.session_id, service, reason)

    async def _answer_snapshot(self, service: str) -> None:
        await self.until_ready(service)
        if not self.has_ended:
            await self.send_in_slices(self._snapshot(service))

    async def _subscribe_anew(self, service: str) -> None:
        registry = self.bus.registry
        await self.until_ready(service)
        if self.has_ended:
            return
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
        try:
            state = self.state_of(service)
        except Refused:
            return  # The service failed. The client is sent its next update.
        packet = self.factory.info.snapshot(service, state)
        if packet is not None:
            yield packet

    def _send_snapshot(self, service: str) -> None:
        """Send the snapshot of a service immediately. All later updates follow it."""
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

    :ivar silent: those that never subscribed.
    :ivar by_session: those whose sessions are open, by session.
    """

    def __init__(self, bus: IBus, reactor: Any) -> None:
        super().__init__(SppProtocol, bus, reactor)
        self.silent = SilentClients(bus.settings, SppProtocol.turn_out, reactor)
        self.info = SppInfo(
            bus.settings, lambda service: bus.hosted_type(service) is not None, bus.counters, reactor.seconds
        )
        self.offers = Offers(bus)
        self.by_session: dict[str, SppProtocol] = {}
        bus.permission_observers.append(self._permissions_changed)
        self._services = bus.registry.state.services
        bus.registry.observe(self, (ev.ServiceRegistered, ev.ServiceUnregistered))

    def _permissions_changed(self, session_id: str) -> None:
        protocol = self.by_session.get(session_id)
        if protocol is not None:
            protocol.permissions_changed()

    def registry_changed(self, stamped: Stamped) -> None:
        """Offer a service with its first provider, remove it with its last; see :class:`IRegistryObserver`."""
        event, service = stamped.event, stamped.event.service
        if service is None:
            return
        providers = self._services.get(service)
        appeared = isinstance(event, ev.ServiceRegistered) and providers is not None and len(providers) == 1
        went = isinstance(event, ev.ServiceUnregistered) and providers is None
        if (appeared or went) and self.protocols:
            # Earlier publications are sent first.
            self.bus.flush()
        if appeared:
            self.offers.appeared(service)
        elif went:
            self.offers.went(service)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve SPP; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(SppFactory(bus, reactor), endpoint, reactor)
