"""Inbus: publishers. One is a source IP address, because deployed publishes come from a new port each time."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from bussrv import events as ev
from bussrv.bus.sessions.ending import end_services_then
from bussrv.formats.inbus.drops import FORMAT, Drops
from bussrv.formats.inbus.outlet import Outlet, SilentLink
from bussrv.formats.inbus.subscribers import Subscribers
from bussrv.formats.inbus.users import InbusUsers
from bussrv.plugin import OCTET_STREAM, UTF8_TEXT, IBus, Publication, Refused
from bussrv.registry.changes import rules
from bussrv.wire import inbus as wire

MAX_WAITING = 1 << 20
"""The most bytes of datagrams of one publisher that wait for its service to be registered."""

PAUSE = 2.0
"""Seconds. A payload that comes again after a longer time did not circulate in between."""

MOST_REMEMBERED = 10_000
"""The most payloads that are counted at a time."""

Address = tuple[str, int]


class InbusPublisher:
    """A source address. ``heard`` is when it last published on each of its services, in seconds of the reactor."""

    def __init__(self, session_id: str, link: SilentLink) -> None:
        self.session_id = session_id
        self.link = link
        self.heard: dict[str, float] = {}
        self.waiting: deque[tuple[Publication, int]] = deque()  # with the size of the datagram
        self.waiting_bytes = 0


class Publishers:
    """Every publisher of one port, by source address."""

    def __init__(self, bus: IBus, reactor: Any, outlet: Outlet, drops: Drops) -> None:
        self._users = InbusUsers(bus)
        self._bus = bus
        self._reactor = reactor
        self._outlet = outlet
        self._drops = drops
        self._by_host: dict[str, InbusPublisher] = {}
        self._ending: set[Deferred[None]] = set()

    def receive(self, message: wire.Datagram, host: str, size: int) -> None:
        """Deliver a publication; on a new service, as soon as that is registered.

        :raises Refused: if it goes nowhere.
        """
        publisher = self._by_host.get(host)
        is_new = publisher is None or message.app_key not in publisher.heard
        proof = self._users.admit(host, host, "publish", message.app_key) if is_new else None
        if is_new:
            may_register = partial(rules.may_register, reserved=self._bus.registry.reserved)
            self._drops.check_name(may_register, ev.ServiceRefused, message, host)
        if message.app_type == 0:
            self._bus.counters["reserved-app-type"] += 1
        if is_new:
            self._bus.registry.spending.require_budget(publisher.session_id if publisher is not None else None, host)
        if publisher is None:
            self._bus.admit(FORMAT, host)
            link = SilentLink(self._outlet)
            session = self._bus.open(FORMAT, host, link)
            publisher = self._by_host[host] = InbusPublisher(session.id, link)
            self._users.opened(session, proof)
        publisher.link.traffic.objects_in += 1
        publisher.link.traffic.bytes_in += size
        publication = Publication(message.app_key, _content_type(message), message.payload, message.app_type)
        if publisher.waiting or is_new:
            self._wait(publisher, publication, host, size)
        else:
            self._deliver(publisher, publication)

    def sweep(self, oldest: float) -> Iterator[None]:
        """End every service without a publication since ``oldest``, one service or publisher at a step.

        :param oldest: a time in seconds of the reactor.
        """
        for host, publisher in tuple(self._by_host.items()):
            for service in [service for service, heard in publisher.heard.items() if heard < oldest]:
                if publisher.heard.get(service, oldest) < oldest:  # not renewed since the last step
                    self._bus.registry.lose_service(publisher.session_id, service, "lease-expired")
                    del publisher.heard[service]
                    yield
            self._close_if_silent(host, publisher)
            yield

    def judge(self) -> Iterator[None]:
        """Close every publisher that is another user now, or may do nothing any more; one publisher at a step."""
        for host, publisher in tuple(self._by_host.items()):
            reason = self._users.judge(publisher.session_id, host)
            if reason is not None and self._by_host.get(host) is publisher:
                self._end(host, publisher, reason)
            yield

    def taken_away(self, host: str, service: str, reason: str) -> None:
        """A service of the publisher at an address was taken away."""
        publisher = self._by_host.get(host)
        if publisher is not None:
            publisher.heard.pop(service, None)
            self._close_if_silent(host, publisher, reason)

    def stop(self) -> Deferred[Any]:
        """Close every publisher. :returns: fires when all of them are closed."""
        for host, publisher in tuple(self._by_host.items()):
            self._end(host, publisher, "server-stopped")
        return DeferredList(tuple(self._ending))

    def _deliver(self, publisher: InbusPublisher, publication: Publication) -> None:
        publisher.heard[publication.service] = self._reactor.seconds()
        self._bus.publish(publisher.session_id, publication)

    def _wait(self, publisher: InbusPublisher, publication: Publication, host: str, size: int) -> None:
        """Keep a publication, and all later ones, until its service is registered."""
        if publisher.waiting_bytes + size > MAX_WAITING:
            raise Refused("publisher-waiting", "too much waits for a service to be registered")
        publisher.waiting.append((publication, size))
        publisher.waiting_bytes += size
        if len(publisher.waiting) == 1:
            Deferred.fromCoroutine(self._deliver_waiting(publisher, host)).addErrback(self._failed, publisher, host)

    async def _deliver_waiting(self, publisher: InbusPublisher, host: str) -> None:
        while publisher.waiting:
            publication, size = publisher.waiting[0]
            try:
                if publication.service not in publisher.heard:
                    await self._bus.registry.register_service(publisher.session_id, publication.service)
                if self._bus.registry.state.provides(publisher.session_id, publication.service):
                    self._deliver(publisher, publication)
                else:
                    # Withdrawn as soon as it was registered, so this is denied, and counted.
                    self._bus.publish(publisher.session_id, publication)
            except Refused as refusal:
                self._drops.drop(refusal.reason, refusal.message, host)
            publisher.waiting.popleft()
            publisher.waiting_bytes -= size
        self._bus.flush()
        self._close_if_silent(host, publisher)

    def _failed(self, failure: Failure, publisher: InbusPublisher, host: str) -> None:
        self._drops.failed(host, failure)
        # Otherwise what comes later would wait for these for ever.
        publisher.waiting.clear()
        publisher.waiting_bytes = 0

    def _close_if_silent(self, host: str, publisher: InbusPublisher, reason: str = "lease-expired") -> None:
        if not publisher.heard and not publisher.waiting and self._by_host.get(host) is publisher:
            del self._by_host[host]
            self._bus.close(publisher.session_id, reason, publisher.link.traffic)

    def _end(self, host: str, publisher: InbusPublisher, reason: str) -> None:
        """Close a publisher that may have many services, which end a slice at a time."""
        del self._by_host[host]
        ended: Deferred[None] = Deferred()
        self._ending.add(ended)

        def close() -> None:
            self._bus.close(publisher.session_id, reason, publisher.link.traffic)
            self._ending.discard(ended)
            ended.callback(None)

        seconds = self._reactor.seconds
        self._bus.slices.do(end_services_then(self._bus.registry, publisher.session_id, reason, seconds, close), host)


class Echoes:
    """Counts what subscribers publish on their own app-keys: publications that are sent back circulate for ever.

    Datagrams to subscribers have the opcode of a publication. If two servers are subscribers of each other, each takes
    what the other sends it for a publication, and sends it back. So a payload that a subscriber publishes on its own
    app-key again and again, without a pause, is dropped: then it stops.

    :param subscribers: those of the port.
    :param seconds: the clock of the reactor.
    """

    def __init__(self, bus: IBus, subscribers: Subscribers, seconds: Callable[[], float]) -> None:
        self._bus = bus
        self._subscribers = subscribers
        self._seconds = seconds
        # How often each payload came, and when it came last; the one that came last is at the end.
        self._counts: OrderedDict[tuple[Address, str, int], tuple[int, float]] = OrderedDict()

    def check(self, message: wire.Datagram, source: Address) -> None:
        """Check that a publication does not circulate.

        :param source: the address that sent it.
        :raises Refused: ``inbus-echo``.
        """
        session_id = self._subscribers.session_of(source, message.app_key)
        if session_id is None:
            return
        key, now = (source, message.app_key, hash(message.payload)), self._seconds()
        count, last = self._counts.pop(key, (0, now))
        count = count + 1 if now - last <= PAUSE else 1
        self._counts[key] = count, now
        if len(self._counts) > MOST_REMEMBERED:
            self._counts.popitem(last=False)
        most = self._bus.settings.inbus_max_echoes
        if count > most:
            self._stop(session_id, message.app_key, most)

    def _stop(self, session_id: str, app_key: str, most: int) -> None:
        about = self._bus.registry.state.sessions[session_id].about()
        reached = ev.LimitReached(
            limit="inbus-max-echoes", value=most, reason="inbus-echo", **{**about, "service": app_key}
        )
        self._bus.registry.note_from_stranger(reached)
        raise Refused(
            "inbus-echo",
            f"the subscriber sent back the same payload on {app_key!r} more than {most} times; two servers must not be "
            "subscribers of each other",
        )


def _content_type(message: wire.Datagram) -> str:
    try:
        message.payload.decode()
    except UnicodeDecodeError:
        return OCTET_STREAM
    return UTF8_TEXT
