"""The bus: decides who is given what, and keeps the audience in step with the registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Set
from typing import Any

from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.admission import Admission
from bussrv.bus.audience import Audience
from bussrv.bus.bridge import as_metadata, as_publication
from bussrv.bus.delivery import Batch, Delivery, Fanout
from bussrv.bus.interest import Kind, kind_of, kind_of_content, passes
from bussrv.bus.lastvalue import LastValues
from bussrv.bus.links import Links
from bussrv.bus.publishing import Publisher
from bussrv.bus.relay import Relay
from bussrv.bus.requests import OpenRequests
from bussrv.bus.router import Origin, Router
from bussrv.bus.runs import Runs, Source
from bussrv.bus.seen import Seen
from bussrv.bus.turns import Turns
from bussrv.bus.ways import Way, Ways
from bussrv.clock import Clock
from bussrv.errors import OverLimit
from bussrv.interfaces import IBus, IRegistryObserver, ISessionLink
from bussrv.journal.record import Stamped
from bussrv.registry.registry import Registry
from bussrv.registry.state import Session
from bussrv.settings import Settings
from bussrv.values import Publication, Traffic
from bussrv.wire import objects as wire
from bussrv.wire.objects import BusObject
from bussrv.wire.onward import with_route


@implementer(IBus, IRegistryObserver)
class Bus:
    """Routes objects and publications among the sessions of one server.

    :param new_id: makes ids of objects; printable ASCII.
    :param clock: where times come from.
    :param reactor: calls later.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        server_id: str,
        new_id: Callable[[], str],
        clock: Clock,
        reactor: Any,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.server_id = server_id
        self.counters: Counter[str] = Counter()
        self.utc = clock.utc
        self._new_id = new_id
        self._fanout = Fanout()
        self._audience = Audience(self._fanout)
        self._last_values = LastValues(settings.max_last_values, settings.max_last_value, self.counters)
        self._sources: dict[str, Source] = {}
        self._hosted: dict[str, tuple[str, Callable[[], bytes]]] = {}
        self._reports: dict[str, Callable[[], Any]] = {}
        self.links = Links(
            registry, settings, server_id, new_id, self._fanout, self._audience.link, self.counters, reactor
        )
        requests = OpenRequests(
            lambda: clock.mono() / 1_000_000, settings.max_requests, settings.request_timeout, self.counters
        )
        self._router = Router(registry, server_id, self._audience, self._fanout, self.links, requests, self.counters)
        publisher = Publisher(self._audience, self._fanout, self._last_values, self._to_watchers)
        self._runs = Runs(self._audience, self._fanout, self.links, publisher, new_id)
        seen, most = Seen(settings.max_seen), wire.max_relayed(settings.max_metadata)
        self._relay = Relay(self.links, self._runs, seen, self.counters, self._deliver, most, new_id)
        self._turns = Turns(self._fanout.flush, reactor)
        self._admission = Admission(registry, settings, reactor.seconds)
        registry.observe(self._admission)
        registry.observe(self)
        registry.observe(self.links)

    # Sessions.

    def admit(self, protocol: str, peer: str) -> None:
        """Whether a client may come in; see :class:`IBus`."""
        try:
            self._admission.check(peer)
        except OverLimit as refusal:
            self.counters[refusal.limit] += 1
            self.registry.note_from_stranger(ev.limit_reached(refusal, protocol=protocol, peer=peer))
            raise

    def open(self, protocol: str, peer: str, link: ISessionLink, persistent: bool = False) -> Session:
        """A client is present: open its session, reached by ``link``."""
        session = self.registry.open_session(protocol, peer, persistent)
        self._audience.seat(session.id, link)
        return session

    def resume(self, session_id: str, link: ISessionLink) -> None:
        """A persistent session of an earlier boot, with its subscriptions, is reached by ``link`` from now on."""
        self._audience.seat(session_id, link)
        for subscription in self.registry.state.subscriptions.get(session_id, {}).values():
            if subscription.service is not None:
                self._audience.watch(session_id, subscription.service, subscription.options)

    def close(self, session_id: str, reason: str, traffic: Traffic) -> None:
        """A session ended."""
        self._catch_up(session_id)
        self.registry.close_session(session_id, reason, traffic)

    def registry_changed(self, stamped: Stamped) -> None:
        """Keep the audience in step; see :class:`IRegistryObserver`."""
        event = stamped.event
        session_id = event.session
        if session_id is None:
            return
        if isinstance(event, ev.SubscriptionAdded):
            self._subscribed(session_id, event)
        elif isinstance(event, ev.SubscriptionRenewed):
            self._renewed(session_id, event)
        elif isinstance(event, ev.SubscriptionRemoved):
            if event.service is not None:
                self._audience.unwatch(session_id, event.service)
        elif isinstance(event, ev.SessionIdentified):
            self._sources.pop(session_id, None)
        elif isinstance(event, ev.ServiceUnregistered):
            self._forget_service(event.service)
        elif isinstance(event, ev.SessionClosed):
            self._audience.leave(session_id)
            self._sources.pop(session_id, None)

    def _subscribed(self, session_id: str, event: ev.SubscriptionAdded) -> None:
        if event.service is not None:
            self._audience.watch(session_id, event.service, event.options)
        elif event.interest is not None:
            # It may be closed by now: observers are told in order, even when one of them closes a session.
            session = self.registry.state.sessions.get(session_id)
            if session is not None and not session.is_link:
                self._audience.join(session_id, event.interest, session.vocabulary)

    def _renewed(self, session_id: str, event: ev.SubscriptionRenewed) -> None:
        if event.service is not None and event.options is not None:
            self._audience.unwatch(session_id, event.service)
            self._audience.watch(session_id, event.service, event.options)

    def _forget_service(self, service: str | None) -> None:
        if service is not None and service not in self.registry.state.services:
            self._last_values.forget(service)
            self._router.forget_turns(service)

    # Objects.

    def route(self, session_id: str, obj: BusObject) -> int:
        """Route an object that a member of the object network sent.

        :returns: how many sessions other than the sender are given it.
        """
        if self._audience.group_of(session_id) is None:
            self.counters["not-subscribed"] += 1
            return 0
        source = self._source(session_id)
        metadata = with_route(obj, source.route, self._new_id)
        return self._deliver(source.origin, obj, metadata, self.registry.state.provided_by(session_id))

    def route_run(self, session_id: str, run: Iterator[BusObject], served: Container[str | None]) -> BusObject | None:
        """Route objects that a member of the object network sent, up to one that is not for this; see :class:`IBus`."""
        if self._audience.group_of(session_id) is None:
            return next(run, None)
        return self._runs.route(self._source(session_id), self.registry.state.provided_by(session_id), run, served)

    def _source(self, session_id: str) -> Source:
        """Where what a session sends comes from."""
        source = self._sources.get(session_id)
        if source is None:
            route = [self.registry.state.sessions[session_id].routing_id, self.server_id]
            source = self._sources[session_id] = Source(Origin(session_id, route), wire.encode_json(route))
        return source

    def relay(self, way: Way, obj: BusObject) -> None:
        """Route an object that a linked server passed on, unless it was here before."""
        self._relay.one(way, obj)

    def relay_run(self, ways: Ways, run: Iterator[BusObject], served: Container[str | None]) -> BusObject | None:
        """Route objects that a linked server passed on, up to one that is not for this; see :class:`IBus`."""
        return self._relay.run(ways, run, served)

    def _deliver(self, origin: Origin, obj: BusObject, metadata: bytes, provided: Set[str]) -> int:
        """Give an object to those it is for, and as a publication to watchers of one of the services ``provided``.

        :param metadata: as it goes on.
        :returns: as :meth:`route` does.
        """
        publication = as_publication(obj, provided)
        delivery = Delivery(metadata, obj.payload, publication)
        if publication is not None:
            self._to_watchers(delivery, publication)
        return self._router.route(origin, obj, kind_of(obj), delivery)

    # Publications.

    def publish(self, session_id: str, publication: Publication) -> None:
        """Deliver a publication to everybody who wants it, in every format; once the session is closed, to nobody."""
        if session_id not in self.registry.state.sessions:
            return
        route = self._source(session_id).origin.route
        kind = kind_of_content(publication.content_type, bool(publication.payload))
        groups = self._audience.wanting(kind)
        metadata = b""
        if groups or self.links:
            metadata = as_metadata(publication, self._new_id(), route, with_app_type=True)
        delivery = Delivery(metadata, publication.payload, publication)
        self._to_watchers(delivery, publication)
        for group in groups:
            self._fanout.add(group, delivery)
        if self.links:
            self.links.flood(delivery, kind, route)

    def last(self, service: str) -> bytes:
        """The last payload published on a service, empty when there is none; or the snapshot of one of the server."""
        hosted = self._hosted.get(service)
        return self._last_values.get(service) if hosted is None else hosted[1]()

    # Services of the server itself.

    def host(self, service: str, content_type: str, snapshot: Callable[[], bytes]) -> None:
        """A service is provided by the server itself."""
        self._hosted[service] = (content_type, snapshot)

    def hosted_type(self, service: Any) -> str | None:
        """The content type of a service of the server itself; ``None`` for every other name."""
        return self._hosted[service][0] if isinstance(service, str) and service in self._hosted else None

    def report(self, name: str, make: Callable[[], Any]) -> None:
        """Show under ``name`` in ``bus/statistics`` what ``make`` returns."""
        self._reports[name] = make

    def reports(self) -> dict[str, Any]:
        """What is to be shown, by name, as it is now."""
        return {name: make() for name, make in self._reports.items()}

    def is_watched(self, service: str) -> bool:
        """Whether somebody is subscribed to a service."""
        return any(group.links for group in self._audience.watching(service))

    def update(self, service: str, payload: bytes) -> None:
        """Give ``payload`` to those who are subscribed to a service of the server itself."""
        self._give_watchers(service, Delivery(b"", payload, Publication(service, self._hosted[service][0], payload)))

    def _to_watchers(self, delivery: Delivery, publication: Publication) -> None:
        self._last_values.put(publication.service, publication.payload)
        self._give_watchers(publication.service, delivery)

    def _give_watchers(self, service: str, delivery: Delivery) -> None:
        for group in self._audience.watching(service):
            self._fanout.add(group, delivery)

    # The server's own words.

    def announce(self, fields: dict[str, Any], vocabulary: str | None, about: str) -> None:
        """Give an event of the server itself to the members of one vocabulary, save the session that it is about."""
        metadata = wire.encode_metadata({**fields, "id": self._new_id(), "route": [self.server_id]})
        delivery = Delivery(metadata, b"")
        kind = Kind(event=fields["event"])
        for group in tuple(self._audience.member_groups()):
            if group.vocabulary == vocabulary and group.interest is not None and passes(group.interest, kind):
                self._fanout.add_for_others(group, delivery, about)
        self._turns.wait()

    def tell(self, session_id: str, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Answer one session: an event of the server itself, whatever its subscription says."""
        link = self._audience.link(session_id)
        if link is None:
            return
        self._catch_up(session_id)
        frame = link.encoding_for(None).encode(Delivery(wire.encode_metadata(fields, payload), payload))
        if frame is not None:
            link.send(Batch([frame]))

    def _catch_up(self, session_id: str) -> None:
        """Send a session what was collected for it."""
        server = self.links.get(session_id)
        if server is not None:
            self._fanout.send_one(server.group, session_id)
        else:
            self._audience.catch_up(session_id)

    def flush(self) -> None:
        """Send what was routed and published."""
        self._fanout.flush()

    def flush_in_turn(self, session_id: str, size: int) -> None:
        """Send what was routed and published, at once or together with what others have sent; see :class:`IBus`."""
        self._turns.read(session_id, size)
