"""Inbus: small devices, connectionless. Source: seed 001, and version 2 as deployed; datagrams are in
:mod:`bussrv.wire.inbus`.

A *subscriber* is a stated address; it lives for its lease, renewed by subscribing again, and outlives a restart of
the server. A *publisher* is a source IP address, because deployed publishes come from a new port each time; what it
publishes on becomes a service, for as long as it keeps publishing there.

Nothing is ever answered: an answer to a forged source would be an attack. What is wrong is dropped, counted and logged.
For the same reason the stated address has to be the sender's own, unless ``--inbus-allow`` says otherwise.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import InvalidAddressError, MessageLengthError
from twisted.internet.protocol import DatagramProtocol
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from bussrv import events as ev
from bussrv.addresses import format_address, parse_address
from bussrv.bus.delivery import Batch, Delivery
from bussrv.errors import Refused, RemoteProtocolError
from bussrv.formats.listening import DatagramListener
from bussrv.interfaces import IBus, IEncoding, ISessionLink
from bussrv.registry import rules
from bussrv.registry.throttle import Throttle
from bussrv.values import MAX_SERVICE_NAME, OCTET_STREAM, UTF8_TEXT, Publication, Traffic, check_service_name
from bussrv.wire import inbus as wire

FORMAT = "inbus"
RENEWALS_PER_LEASE = 4
"""How many renewals of one lease reach the journal at the most."""

MAX_WAITING = 1 << 20
"""The most bytes of datagrams of one publisher that wait for its service to be registered."""

LOG_RATE = 1.0
LOG_BURST = 5

_Refused = ev.ServiceRefused | ev.SubscriptionRefused

log = Logger()


@implementer(IEncoding)
class InbusPublish:
    """Publications as datagrams of one version of Inbus; what no datagram can carry is dropped and counted."""

    def __init__(self, version: int, counters: Counter[str]) -> None:
        self._version = version
        self._counters = counters

    def encode(self, delivery: Delivery) -> bytes | None:
        """The datagram of a publication: text in version 1, unless it is none; base64 in version 2."""
        publication = delivery.publication
        if publication is None:
            return None
        try:
            datagram = self._datagram(publication)
        except ValueError:
            self._counters["bad-element"] += 1
            return None
        if len(datagram) <= wire.MAX_DATAGRAM:
            return datagram
        self._counters["datagram-too-large"] += 1
        log.warn(
            "inbus: {size} bytes on {service!r} are too many for a datagram",
            size=len(publication.payload),
            service=publication.service,
        )
        return None

    def _datagram(self, publication: Publication) -> bytes:
        service, app_type, payload = publication.service, publication.app_type, publication.payload
        if self._version == 1:
            try:
                return wire.publish(service, app_type, payload, 1)
            except UnicodeDecodeError:
                payload = b64encode(payload)
        return wire.publish(service, app_type, payload, self._version)


class Subscriber:
    """A stated address: what was ``heard``, and ``asked`` of the registry, by app-key. In seconds of the reactor."""

    def __init__(self, session_id: str, link: InbusLink) -> None:
        self.session_id = session_id
        self.link = link
        self.heard: dict[str, float] = {}
        self.asked: dict[str, tuple[int, float]] = {}  # with which version, and when
        self.pending = 0


class Publisher:
    """A source address. ``heard`` is when it last published on each of its services, in seconds of the reactor."""

    def __init__(self, session_id: str, link: InbusLink) -> None:
        self.session_id = session_id
        self.link = link
        self.heard: dict[str, float] = {}
        self.waiting: deque[tuple[Publication, int]] = deque()  # with the size of the datagram
        self.waiting_bytes = 0


@implementer(ISessionLink)
class InbusLink:
    """The way out to a stated address; to a publisher, which has none, nothing is ever sent."""

    def __init__(self, server: InbusServer, address: tuple[str, int] | None) -> None:
        self.traffic = Traffic()
        self._server = server
        self._address = address

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """The version that was subscribed with."""
        return self._server.encodings[(options or {}).get("version", 1)]

    def send(self, batch: Batch) -> None:
        """Send datagrams; what the system does not take at once is dropped and counted."""
        if self._address is None:
            return
        for frame in batch.frames:
            if self._server.send(frame, self._address):
                self.traffic.objects_out += 1
                self.traffic.bytes_out += len(frame)

    def close(self, reason: str) -> None:
        """There is no connection."""


class InbusServer(DatagramProtocol):
    """The Inbus port: every subscriber and every publisher."""

    transport: Any

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self.encodings = {version: InbusPublish(version, bus.counters) for version in wire.VERSIONS}
        self._bus = bus
        self._reactor = reactor
        self._lease = bus.settings.inbus_lease
        self._subscribers: dict[tuple[str, int], Subscriber] = {}
        self._publishers: dict[str, Publisher] = {}
        self._sweeping = LoopingCall(self._sweep)
        self._sweeping.clock = reactor
        self._log_throttle = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)

    def startProtocol(self) -> None:
        """Take up the subscribers that the journal knows, and begin to look for leases that ran out."""
        for session in tuple(self._bus.registry.state.sessions.values()):
            if session.protocol == FORMAT and session.persistent:
                self._resume(session.id, parse_address(session.peer))
        if self._lease:
            self._sweeping.start(min(60.0, max(1.0, self._lease / 8)), now=False)

    def _resume(self, session_id: str, address: tuple[str, int]) -> None:
        subscriber = Subscriber(session_id, InbusLink(self, address))
        now, utc = self._reactor.seconds(), self._bus.utc()
        for subscription in self._bus.registry.state.subscriptions.get(session_id, {}).values():
            heard = now - max(0, utc - subscription.renewed) / 1_000_000
            subscriber.heard[str(subscription.service)] = heard
            version = (subscription.options or {}).get("version", 1)
            subscriber.asked[str(subscription.service)] = (version, heard)
        self._subscribers[address] = subscriber
        self._bus.resume(session_id, subscriber.link)

    def stop(self) -> None:
        """Close the publishers; the subscribers outlive a restart."""
        if self._sweeping.running:
            self._sweeping.stop()
        for publisher in self._publishers.values():
            self._bus.close(publisher.session_id, "server-stopped", publisher.link.traffic)
        self._publishers.clear()

    def send(self, datagram: bytes, address: tuple[str, int]) -> bool:
        """Send a datagram. :returns: whether the system took it; if not, that is counted."""
        try:
            if self.transport is not None:
                self.transport.write(datagram, address)
                return True
        except (OSError, MessageLengthError, InvalidAddressError):
            pass  # The last: an address that is allowed may be of the other version of IP than the port is.
        self._bus.counters["inbus-send-failed"] += 1
        return False

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        """A datagram came: do what it says, or drop it."""
        host = addr[0]
        try:
            message = wire.decode(datagram)
            if message.opcode == wire.PUBLISH:
                self._publish(message, host, len(datagram))
            else:
                self._subscribe_or_unsubscribe(message, host, len(datagram))
        except RemoteProtocolError as error:
            self._drop(error.reason, error.message, host)
        except Refused as refusal:
            self._drop(refusal.reason, refusal.message, host)
        finally:
            self._bus.flush()

    def _drop(self, reason: str, message: str, host: str) -> None:
        self._bus.counters[reason] += 1
        suppressed = self._log_throttle.admit(host)
        if suppressed is not None:
            log.warn(
                "inbus: dropped a datagram from {host}: {message} ({suppressed} more not logged)",
                host=host,
                message=message,
                suppressed=suppressed,
            )

    def _check_name(self, check: Callable[[str], Any], kind: type[_Refused], message: wire.Datagram, host: str) -> None:
        """Refuse what the registry would, before a session is opened for it: strangers must not fill the journal."""
        try:
            check(message.app_key)
        except Refused as refusal:
            self._note_refusal(kind, message, host, refusal.reason)
            raise

    def _note_refusal(self, kind: type[_Refused], message: wire.Datagram, host: str, reason: str) -> None:
        service = message.app_key[:MAX_SERVICE_NAME]
        self._bus.registry.note_from_stranger(kind(protocol=FORMAT, peer=host, service=service, reason=reason))

    # Subscribers.

    def _subscribe_or_unsubscribe(self, message: wire.Datagram, host: str, size: int) -> None:
        address = self._stated_address(message, host)
        if message.opcode == wire.SUBSCRIBE:
            self._check_name(check_service_name, ev.SubscriptionRefused, message, host)
            self._subscribe(message, address, size)
        else:
            self._unsubscribe(message, address, size)

    def _stated_address(self, message: wire.Datagram, host: str) -> tuple[str, int]:
        """The subscriber's address, when the sender may state it."""
        try:
            stated, source = ip_address(message.host), ip_address(host.partition("%")[0])
        except ValueError as error:
            raise Refused("bad-element", f"address: {error}") from error
        if message.port == 0:
            raise Refused("bad-element", "address: port 0 receives nothing")
        if stated != source and not any(stated in network for network in self._bus.settings.inbus_allow):
            self._note_refusal(ev.SubscriptionRefused, message, host, "foreign-address")
            raise Refused("foreign-address", f"{stated} is not the sender's address and not allowed")
        return str(stated), message.port

    def _subscribe(self, message: wire.Datagram, address: tuple[str, int], size: int) -> None:
        subscriber = self._subscribers.get(address)
        if subscriber is None:
            link = InbusLink(self, address)
            session = self._bus.open(FORMAT, format_address(*address), link, persistent=True)
            subscriber = self._subscribers[address] = Subscriber(session.id, link)
        _count(subscriber.link.traffic, size)
        now = self._reactor.seconds()
        if message.app_key in subscriber.heard:
            subscriber.heard[message.app_key] = now
        version, when = subscriber.asked.get(message.app_key, (0, 0.0))
        if version == message.version and (not self._lease or now - when < self._lease / RENEWALS_PER_LEASE):
            return
        subscriber.asked[message.app_key] = (message.version, now)
        subscriber.pending += 1
        asked = self._bus.registry.subscribe(subscriber.session_id, message.app_key, {"version": message.version})
        asked.addCallback(self._subscribed, subscriber, message.app_key, now)
        self._settle(asked, address, subscriber, message.app_key)

    def _subscribed(self, _: None, subscriber: Subscriber, app_key: str, now: float) -> None:
        subscriber.heard[app_key] = max(now, subscriber.heard.get(app_key, now))

    def _unsubscribe(self, message: wire.Datagram, address: tuple[str, int], size: int) -> None:
        subscriber = self._subscribers.get(address)
        if subscriber is None:
            raise Refused("no-such-subscription", f"{format_address(*address)} has no subscription")
        _count(subscriber.link.traffic, size)
        subscriber.asked.pop(message.app_key, None)
        subscriber.pending += 1
        asked = self._bus.registry.unsubscribe(subscriber.session_id, message.app_key)
        asked.addCallback(self._unsubscribed, subscriber, message.app_key)
        self._settle(asked, address, subscriber, message.app_key)

    def _unsubscribed(self, _: None, subscriber: Subscriber, app_key: str) -> None:
        subscriber.heard.pop(app_key, None)

    def _settle(self, asked: Deferred[None], address: tuple[str, int], subscriber: Subscriber, app_key: str) -> None:
        """When a change is made or refused, see whether the subscriber has any subscription left."""
        settling = Deferred.fromCoroutine(self._settled(asked, address, subscriber, app_key))
        settling.addErrback(lambda failure: log.failure("inbus: serving {address} failed", failure, address=address))

    async def _settled(
        self, asked: Deferred[None], address: tuple[str, int], subscriber: Subscriber, app_key: str
    ) -> None:
        try:
            await asked
        except Refused as refusal:
            subscriber.asked.pop(app_key, None)
            self._drop(refusal.reason, refusal.message, address[0])
        subscriber.pending -= 1
        self._close_if_idle(address, subscriber, "unsubscribed")

    def _close_if_idle(self, address: tuple[str, int], subscriber: Subscriber, reason: str) -> None:
        held = self._bus.registry.state.subscriptions.get(subscriber.session_id)
        if not held and not subscriber.pending and self._subscribers.get(address) is subscriber:
            del self._subscribers[address]
            self._bus.close(subscriber.session_id, reason, subscriber.link.traffic)

    # Publishers.

    def _publish(self, message: wire.Datagram, host: str, size: int) -> None:
        if message.app_type == 0:
            self._bus.counters["reserved-app-type"] += 1
        publisher = self._publishers.get(host)
        is_new = publisher is None or message.app_key not in publisher.heard
        if is_new:
            self._check_name(rules.may_register, ev.ServiceRefused, message, host)
        if publisher is None:
            link = InbusLink(self, None)
            publisher = self._publishers[host] = Publisher(self._bus.open(FORMAT, host, link).id, link)
        _count(publisher.link.traffic, size)
        publication = Publication(message.app_key, _content_type(message), message.payload, message.app_type)
        if publisher.waiting or is_new:
            self._wait(publisher, publication, host, size)
        else:
            self._deliver(publisher, publication)

    def _deliver(self, publisher: Publisher, publication: Publication) -> None:
        publisher.heard[publication.service] = self._reactor.seconds()
        self._bus.publish(publisher.session_id, publication)

    def _wait(self, publisher: Publisher, publication: Publication, host: str, size: int) -> None:
        """Keep a publication, and all behind it, until its service is registered."""
        if publisher.waiting_bytes + size > MAX_WAITING:
            raise Refused("publisher-waiting", "too much waits for a service to be registered")
        publisher.waiting.append((publication, size))
        publisher.waiting_bytes += size
        if len(publisher.waiting) == 1:
            Deferred.fromCoroutine(self._deliver_waiting(publisher, host)).addErrback(
                lambda failure: log.failure("inbus: serving {host} failed", failure, host=host)
            )

    async def _deliver_waiting(self, publisher: Publisher, host: str) -> None:
        while publisher.waiting:
            publication, size = publisher.waiting[0]
            try:
                if publication.service not in publisher.heard:
                    await self._bus.registry.register_service(publisher.session_id, publication.service)
                self._deliver(publisher, publication)
            except Refused as refusal:
                self._drop(refusal.reason, refusal.message, host)
            publisher.waiting.popleft()
            publisher.waiting_bytes -= size
        self._bus.flush()
        self._close_if_silent(host, publisher)

    def _close_if_silent(self, host: str, publisher: Publisher) -> None:
        if not publisher.heard and not publisher.waiting and self._publishers.get(host) is publisher:
            del self._publishers[host]
            self._bus.close(publisher.session_id, "lease-expired", publisher.link.traffic)

    # Leases.

    def _sweep(self) -> None:
        """End every subscription and service that was not renewed within the lease."""
        oldest = self._reactor.seconds() - self._lease
        registry = self._bus.registry
        for address, subscriber in tuple(self._subscribers.items()):
            for service in [service for service, heard in subscriber.heard.items() if heard < oldest]:
                registry.lose_subscription(subscriber.session_id, service, "lease-expired")
                subscriber.asked.pop(service, None)
                self._unsubscribed(None, subscriber, service)
            self._close_if_idle(address, subscriber, "lease-expired")
        for host, publisher in tuple(self._publishers.items()):
            for service in [service for service, heard in publisher.heard.items() if heard < oldest]:
                registry.lose_service(publisher.session_id, service, "lease-expired")
                del publisher.heard[service]
            self._close_if_silent(host, publisher)


def _count(traffic: Traffic, size: int) -> None:
    traffic.objects_in += 1
    traffic.bytes_in += size


def _content_type(message: wire.Datagram) -> str:
    try:
        message.payload.decode()
    except UnicodeDecodeError:
        return OCTET_STREAM
    return UTF8_TEXT


def listen(bus: IBus, endpoint: str, reactor: Any) -> DatagramListener:
    """Serve Inbus; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return DatagramListener(InbusServer(bus, reactor), endpoint, reactor)
