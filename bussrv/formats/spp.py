"""The Service providing protocol: clients that watch services. Source: seed 003; the packets are in
:mod:`bussrv.wire.spp`.

A client is offered every service when it connects, and each one that appears or goes later. Subscribing brings a
*snapshot*, the service's state, and then every update; both are info packets. The protocol has no errors: subscribing
to what is not offered is ignored on the wire and journaled as refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.delivery import Batch, Delivery
from bussrv.errors import Refused
from bussrv.formats.listening import StreamListener
from bussrv.formats.stream import StreamFactory, StreamProtocol
from bussrv.interfaces import IBus, IEncoding, IRegistryObserver
from bussrv.journal.record import Stamped
from bussrv.wire import spp as wire

HEADER_BYTES = 8
"""msgtype and length, which a packet's length does not count."""

log = Logger()


@implementer(IEncoding)
class SppInfo:
    """Publications as info packets.

    :param max_packet: the most bytes a client can be expected to take; what is larger is dropped and counted.
    """

    def __init__(self, max_packet: int, counters: Counter[str]) -> None:
        self._max_packet = max_packet
        self._counters = counters

    def encode(self, delivery: Delivery) -> bytes | None:
        """The packet of a publication."""
        publication = delivery.publication
        return None if publication is None else self.packet(publication.service, publication.payload)

    def packet(self, service: str, message: bytes) -> bytes | None:
        """The info packet of a message, unless it is too large."""
        packet = wire.info(service, message)
        if len(packet) <= HEADER_BYTES + self._max_packet:
            return packet
        self._counters["packet-too-large"] += 1
        log.warn("spp: {size} bytes on {service!r} are too many for a packet", size=len(message), service=service)
        return None


class SppProtocol(StreamProtocol):
    """One connection of a client that watches services."""

    FORMAT = "spp"

    factory: SppFactory

    def make_reader(self) -> wire.SppReader:
        """Reads what clients send."""
        return wire.SppReader("client", self.bus.settings.max_packet)

    def encoding(self) -> IEncoding:
        """Info packets, the same for every client."""
        return self.factory.info

    def opened(self) -> None:
        """Offer every service there is."""
        offers = [wire.offer(service) for service in sorted(self.bus.registry.state.services)]
        if offers:
            self.link.send(Batch(offers))

    def received(self, event: wire.Event) -> None:
        """A packet came."""
        if isinstance(event, wire.Subscribe):
            self._subscribe(event.service)
        elif isinstance(event, wire.Unsubscribe):
            self._unsubscribe(event.service)
        else:
            self.bus.counters["spp-ignored"] += 1

    def _subscribe(self, service: str) -> None:
        state = self.bus.registry.state
        if service not in state.services:
            self.bus.counters["no-such-service"] += 1
            self.bus.registry.refuse_subscription(self.session_id, service, "no-such-service")
        elif state.subscription(self.session_id, service) is not None:
            self._send_snapshot(service)
        else:
            self.busy_with(self._subscribe_anew(service))

    async def _subscribe_anew(self, service: str) -> None:
        try:
            await self.bus.registry.subscribe(self.session_id, service)
        except Refused as refusal:
            self.bus.counters[refusal.reason] += 1
        else:
            self._send_snapshot(service)

    def _send_snapshot(self, service: str) -> None:
        """The state as it is now."""
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
    """The connections, and what all of them are told when a service appears or goes."""

    def __init__(self, bus: IBus, reactor: Any) -> None:
        super().__init__(SppProtocol, bus, reactor)
        self.info = SppInfo(bus.settings.max_packet, bus.counters)
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
        """Send a packet to everybody, behind the updates that were published before."""
        self._bus.flush()
        batch = Batch([packet])
        for protocol in tuple(self.protocols):
            protocol.link.send(batch)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve SPP; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(SppFactory(bus, reactor), endpoint, reactor)
