"""The bus: routes objects and publications among sessions and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.copied_limits import CopiedLimits
from bussrv.bus.flush_schedule import NEVER, FlushSchedule
from bussrv.bus.generation import Generation
from bussrv.bus.groups.fanout import FailedEncodings, Fanout
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind, is_request
from bussrv.bus.interfaces import IBus, IReloadable, ISessionLink, Shown, Withdrawn
from bussrv.bus.link_clocks import LinkClocks
from bussrv.bus.links.gaps import Gaps
from bussrv.bus.links.links import Links
from bussrv.bus.links.lost_links import LostLinks
from bussrv.bus.origins import Origins
from bussrv.bus.requests.answerers import Answerers
from bussrv.bus.requests.exchanges import Exchanges
from bussrv.bus.requests.gone_providers import GoneProviders
from bussrv.bus.requests.open_requests import OpenRequests
from bussrv.bus.routing.audience import Audience
from bussrv.bus.routing.batch import BatchRouter
from bussrv.bus.routing.compiled import CompiledRouter
from bussrv.bus.routing.compiled_exchanges import CompiledExchanges
from bussrv.bus.routing.compiled_forward import CompiledForwarder
from bussrv.bus.routing.forward import Forwarder
from bussrv.bus.routing.object_ids import ObjectIds
from bussrv.bus.routing.parts import RoutingParts
from bussrv.bus.routing.seen import newest
from bussrv.bus.routing.single import SingleRouter
from bussrv.bus.send_rights import SendRights
from bussrv.bus.services.announcements import Announcements
from bussrv.bus.services.directory import Directory
from bussrv.bus.services.hosted import Hosted
from bussrv.bus.services.hosted_subscribers import HostedSubscribers, seen_with
from bussrv.bus.services.last_values import LastValues
from bussrv.bus.services.own_topics import OwnTopics
from bussrv.bus.services.publishing import Publisher
from bussrv.bus.services.retained import Retained
from bussrv.bus.services.traffic import ServiceTraffic
from bussrv.bus.sessions.admission import Admission
from bussrv.bus.sessions.totals import Totals
from bussrv.bus.sessions.withdrawal import Withdrawal
from bussrv.bus.shared import Shared
from bussrv.bus.taps.taps import Taps
from bussrv.bus.uses import Uses
from bussrv.journal.record import Stamped
from bussrv.memory.bundle import Bundle
from bussrv.memory.resources import ConnectionResources
from bussrv.policy.logins.identity import Identity
from bussrv.policy.permissions.access import Access
from bussrv.policy.permissions.permissions import Action, Permissions
from bussrv.registry.changes.observers import Kinds
from bussrv.registry.changes.registry import Registry
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.state.session import Session
from bussrv.settings import Settings
from bussrv.spool.file import SpoolFile
from bussrv.spool.interfaces import ISpool
from bussrv.spool.spool import Spool
from bussrv.turns.clock import Clock
from bussrv.turns.slices import Slices
from bussrv.values import Publication, Traffic
from bussrv.wire import objects as wire
from bussrv.wire.forwarded import with_route
from bussrv.wire.objects import BusObject


@implementer(IBus, IRegistryObserver)
class Bus:
    """Routes objects and publications among the sessions of one server.

    :param new_id: makes ids of objects; printable ASCII.
    :param clock: returns the present time.
    :param reactor: calls later.
    :param access: the permissions of each session; by default all.
    :param ids: of objects that come without one.
    :param spool: makes the spool, with the counters of the bus; by default one in memory.
    :param audience: makes what says who gets an object.
    """

    KINDS: ClassVar[Kinds] = frozenset(
        {
            ev.SubscriptionAdded,
            ev.SubscriptionRenewed,
            ev.SubscriptionRemoved,
            ev.SessionIdentified,
            ev.SessionLeft,
            ev.SessionResumed,
            ev.AuthSucceeded,
            ev.ServiceUnregistered,
            ev.SessionClosed,
        }
    )

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        server_id: str,
        new_id: Callable[[], str],
        clock: Clock,
        reactor: Any,
        *,
        access: Access | None = None,
        ids: ObjectIds | None = None,
        spool: Callable[[Counter[str]], ISpool] | None = None,
        audience: type[Audience] = Audience,
    ) -> None:
        self.registry, self.settings, self.server_id = registry, settings, server_id
        self.access = Access() if access is None else access
        self.identity = Identity(reactor)
        self.counters: Counter[str] = Counter()
        self.utc = clock.utc
        self.slices: Slices = Slices(reactor, settings.slice_seconds, self.counters)
        self.spool: ISpool
        if spool is None:
            self.spool = Spool(SpoolFile(None), settings, self.counters, clock, reactor)
        else:
            self.spool = spool(self.counters)
        self._new_id, self._ids = new_id, ObjectIds() if ids is None else ids
        generation = Generation()
        shared = Shared(
            registry=registry,
            settings=settings,
            server_id=server_id,
            access=self.access,
            counters=self.counters,
            slices=self.slices,
            clock=clock,
            reactor=reactor,
            new_id=new_id,
            generation=generation,
        )
        self._fanout = fanout = Fanout(generation, FailedEncodings(self.counters, reactor).failed, self.slices)
        self._receivers = receivers = Receivers(fanout, generation)
        self._last_values = LastValues(settings.max_last_values, settings.max_last_value, self.counters)
        self.retained = Retained(settings, self.counters, self._last_values)
        self.queued: dict[str, Callable[[], int]] = {}
        self._origins = Origins(registry, self.access, server_id)
        self._flush_schedule = flushes = FlushSchedule(fanout, reactor)
        self.delivery, self.totals, self.flush_soon = flushes.delivery, Totals(), flushes.flush_soon
        self.poll_ends, self.back_pressure, self.caught_up = flushes.poll_ends, flushes.back_pressure, fanout.caught_up
        self._hosted = HostedSubscribers(shared, receivers, fanout, flushes.wait)
        self._gaps = Gaps(shared, fanout=fanout, receivers=receivers, wake=flushes.wait)
        self.own_topics = OwnTopics(shared, receivers, fanout, flushes.wait)
        self._reports: dict[str, Callable[[], object]] = {}
        self._rights = rights = SendRights(registry, self.access, self.counters)
        self.uses = Uses(registry)
        self._requests = requests = OpenRequests(
            lambda: clock.mono() / 1_000_000,
            settings.max_requests,
            settings.max_requests_per_asker,
            settings.request_timeout,
            new_id,
        )
        self._answerers = answerers = Answerers(receivers)
        self.exchanges = exchanges = Exchanges(registry.state, receivers)
        gone = GoneProviders(shared, requests, self._tell_asker)
        self.links = links = Links(
            shared,
            fanout=fanout,
            reach=receivers.link,
            deny=rights.deny,
            answerers=answerers,
            exchanges=exchanges,
            gone=gone,
            lost=LostLinks(settings, clock.utc()),
            total=receivers.total,
        )
        self.audience = audience(
            shared,
            receivers=receivers,
            links=links,
            requests=requests,
            exchanges=exchanges,
            rights=rights,
            uses=self.uses,
        )
        self.link_clocks = LinkClocks(server_id, clock, new_id, links.all, self.tell)
        self.taps, self.service_traffic = Taps(shared), ServiceTraffic()
        parts = RoutingParts(
            audience=self.audience,
            receivers=receivers,
            fanout=fanout,
            links=links,
            publisher=Publisher(receivers, fanout, self._last_values, self.service_traffic),
            requests=requests,
            exchanges=exchanges,
            answerers=answerers,
            taps=self.taps,
        )
        self._router = SingleRouter(shared, parts, gone)
        longest = wire.max_relayed(settings.max_metadata)
        self._batches = BatchRouter(parts, hosted_type=self.hosted_type, new_id=self._ids, longest=longest)
        self.compiled_router = CompiledRouter(
            parts, registry=registry, origins=self._origins, batches=self._batches, ids=self._ids
        )
        self._exchanges = CompiledExchanges(parts, registry=registry, batches=self._batches, ids=self._ids)
        self._seen = newest(settings.max_seen)
        self._forwarder = Forwarder(
            shared,
            links=links,
            batches=self._batches,
            seen=self._seen,
            router=self._router,
            deny=rights.deny,
            tell=self.tell,
            max_metadata=longest,
            new_id=self._ids,
        )
        self.compiled_forwarder = CompiledForwarder(parts, self.compiled_router, self._forwarder, self._seen)
        self.streams = ConnectionResources(settings, self.slices, reactor)
        self.permission_observers: list[Callable[[str], None]] = []
        self.announcements = Announcements(registry)
        self.reloadables: list[IReloadable] = [CopiedLimits(self._copy_limits)]
        self._directory = Directory(registry)
        self._admission = Admission(registry, settings, self.counters, reactor.seconds)
        registry.spending.enforce(reactor.callLater, self.counters)
        registry.observe(self._directory, Directory.KINDS)
        registry.observe(self._admission, Admission.KINDS)
        registry.observe(self.totals, Totals.KINDS)
        registry.observe(self, self.KINDS)
        registry.observe(links)
        self._withdrawal = Withdrawal(shared, receivers.link, exchanges, self.permissions_changed)
        registry.observe(self._withdrawal, Withdrawal.KINDS)

    def _copy_limits(self) -> None:
        settings = self.settings
        self._admission.copy_limits()
        self._last_values.limit(settings.max_last_values, settings.max_last_value)
        self._requests.limit(settings.max_requests, settings.max_requests_per_asker, settings.request_timeout)
        self._seen.capacity = settings.max_seen
        self.streams.copy_limits()

    # Sessions.

    def admit(self, protocol: str, peer: str) -> None:
        """Whether a client may come in; see :class:`IBus`."""
        self._admission.admit(protocol, peer)

    def expect(self, protocol: str, peer: str, is_admitted: bool = False) -> Callable[[], None]:
        """Whether a client may come in whose session opens later; see :class:`IBus`."""
        return self._admission.expect(protocol, peer, is_admitted)

    def open(
        self,
        protocol: str,
        peer: str,
        link: ISessionLink,
        persistent: bool = False,
        *,
        expiry: int | None = None,
        actor: str | None = None,
    ) -> Session:
        """A client is present: open its session, reached by ``link``."""
        session = self.registry.open_session(protocol, peer, persistent, expiry=expiry, actor=actor)
        self._reached(session, link)
        return session

    def leave(self, session_id: str, reason: str, until: int) -> None:
        """A durable session has lost its connection; see :class:`ISessions`."""
        self._catch_up(session_id)
        self.registry.leave_session(session_id, reason, until)

    def resume(self, session_id: str, link: ISessionLink) -> None:
        """A persistent session of an earlier boot, with its subscriptions, is reached by ``link`` from now on."""
        self._reached(self.registry.state.sessions[session_id], link)
        for subscription in self.registry.state.subscriptions.get(session_id, {}).values():
            if subscription.service is not None:
                self._hosted.subscribe(session_id, subscription.service, subscription.options)

    def close(self, session_id: str, reason: str, traffic: Traffic) -> None:
        """A session ended."""
        self._catch_up(session_id)
        session = self.registry.state.sessions.get(session_id)
        if session is not None:
            self.totals.closed(session.protocol, session_id)
        self.registry.close_session(session_id, reason, traffic)

    def _reached(self, session: Session, link: ISessionLink) -> None:
        self._receivers.add(session.id, link)
        self.totals.opened(session.protocol, session.id, link.traffic, is_away=session.is_away)

    def registry_changed(self, stamped: Stamped) -> None:
        """Keep all that the bus knows of sessions and services in step; see :class:`IRegistryObserver`."""
        event, session_id = stamped.event, stamped.event.session
        if session_id is None:
            return
        if isinstance(event, ev.ServiceUnregistered):
            self._unregistered(session_id, event.service)
        elif isinstance(event, ev.SubscriptionAdded):
            self._subscribed(session_id, event)
        elif isinstance(event, ev.SubscriptionRenewed):
            self._renewed(session_id, event)
        elif isinstance(event, ev.SubscriptionRemoved):
            self._unsubscribed(session_id, event)
        elif isinstance(event, (ev.SessionIdentified, ev.SessionResumed)):
            self._origins.forget(session_id)
        elif isinstance(event, ev.AuthSucceeded):
            self.permissions_changed(session_id)
        elif isinstance(event, ev.SessionLeft):
            # It asks and answers no more, though it is given what it is subscribed to.
            self._router.session_closed(session_id)
            self.exchanges.end(session_id)
        elif isinstance(event, ev.SessionClosed):
            self._receivers.remove(session_id)
            self.exchanges.end(session_id)
            self._forwarder.forget(session_id)
            self._router.session_closed(session_id)
            self._origins.forget(session_id)

    def _subscribed(self, session_id: str, event: ev.SubscriptionAdded) -> None:
        if event.service is not None:
            self._hosted.subscribe(session_id, event.service, event.options)
        elif event.interest is not None:
            # It may be closed by now: observers are told in order, even when one of them closes a session.
            session = self.registry.state.sessions.get(session_id)
            if session is not None and not session.is_link:
                services = frozenset(self.registry.state.subscribed_by(session_id))
                permissions = self.access.of(session)
                self._receivers.join(session_id, event.interest, session.vocabulary, permissions, services)

    def _renewed(self, session_id: str, event: ev.SubscriptionRenewed) -> None:
        if event.service is not None and event.options is not None:
            self._receivers.unsubscribe(session_id, event.service)
            self._hosted.subscribe(session_id, event.service, event.options)

    def _unsubscribed(self, session_id: str, event: ev.SubscriptionRemoved) -> None:
        if event.service is not None:
            self._receivers.unsubscribe(session_id, event.service)
            if event.service in self.exchanges.answered_by(session_id):
                self.registry.lose_service(session_id, event.service, event.reason or "unsubscribed")

    def _unregistered(self, session_id: str, service: str | None) -> None:
        if service is None:
            return
        self.exchanges.stop_answering(session_id, service)
        self._router.unregistered(session_id, service)
        if service not in self.registry.state.services:
            self._last_values.forget(service)

    def link_of(self, session_id: str) -> ISessionLink | None:
        """The link to the client of a session of this server."""
        return self._receivers.link(session_id)

    # Permissions.

    def may(self, session_id: str, action: Action, target: str) -> bool:
        """Whether a session may do something; see :class:`IBus`."""
        return self._rights.may(session_id, action, target)

    def may_share(self, session_id: str) -> Callable[[str], bool]:
        """Which further routing ids of others a session may have, too; see :class:`IBus`."""
        return self._rights.may_share(session_id)

    def takes_requests(self, session_id: str, service: str) -> bool:
        """Whether some provider of a service takes requests; see :class:`IBus`."""
        return self.audience.takes_requests(service) and self._rights.permissions(session_id).sees_service(service)

    def register_all(self, session_id: str, *, registers_all: bool) -> None:
        """A member says whether it registers every service that it serves; see :class:`IBus`."""
        self._answerers.register_all(session_id, registers_all=registers_all)

    def hear_gaps(self, session_id: str, *, hears_gaps: bool) -> None:
        """A member says whether it is to be told when objects were lost; see :class:`IBus`."""
        self._receivers.hear_gaps(session_id, hears_gaps=hears_gaps)

    def permissions_changed(self, session_id: str) -> None:
        """A session has other permissions from now on: they decide about everything that it sends or is given."""
        permissions = self._rights.permissions(session_id)
        self._origins.forget(session_id)
        self._receivers.permissions_changed(session_id, permissions)
        self.links.permissions_changed(session_id, permissions)
        self._forwarder.forget(session_id)
        self._hosted.permissions_changed(session_id)
        for tell in self.permission_observers:
            tell(session_id)

    def policy_changed(self) -> Deferred[Withdrawn]:
        """The policy is another one; see :class:`IBus`."""
        judged = self._withdrawal.judge_all()
        self.taps.policy_changed()
        return judged

    # Objects.

    def route(self, session_id: str, obj: BusObject) -> int:
        """Route an object that a member of the object network sent, or a session that takes part in exchanges.

        :returns: how many sessions other than the sender are given it; 0 if none of them may answer a question.
        """
        if self._receivers.group_of(session_id) is None and session_id not in self.exchanges:
            self.counters["not-subscribed"] += 1
            return 0
        source = self._origins.of(session_id)
        metadata = with_route(obj, source.route, self._new_id if is_request(obj) else self._ids)
        return self._router.route_one(source.origin, obj, metadata, self.registry.state.provided_by(session_id))

    def route_batch(self, session_id: str, batch: Iterator[BusObject]) -> BusObject | None:
        """Route objects that a member of the object network sent, up to one that is not for this; see :class:`IBus`."""
        if self._receivers.group_of(session_id) is None:
            return next(batch, None)
        return self._batches.route_batch(
            self._origins.of(session_id), self.registry.state.provided_by(session_id), batch
        )

    def route_exchanges(self, session_id: str, data: bytes, limits: tuple[int, int, int]) -> tuple[int, int]:
        """Route the plain requests and replies at the beginning of a chunk of a member; see :class:`IBus`."""
        if self._receivers.group_of(session_id) is None:
            return 0, 0
        return self._exchanges.route_chunk(self._origins.of(session_id), data, limits)

    # Links.

    def forward(self, session_id: str, obj: BusObject) -> Deferred[None] | None:
        """Forward an object of a linked server, unless it was here before; see :class:`IForwarding`."""
        facts = self._forwarder.route_of(session_id, obj)
        durable = self.links.all_durable()
        if durable is None:
            self._forwarder.forward(facts, obj)
            return None
        return durable.addCallback(lambda _: self._forwarder.forward(facts, obj))

    def forward_batch(self, session_id: str, batch: Iterator[BusObject]) -> BusObject | None:
        """Forward objects of a linked server, up to one that may be for this server; see :class:`IForwarding`."""
        return (
            self._forwarder.forward_batch(session_id, batch) if self.links.all_durable() is None else next(batch, None)
        )

    def receive_advertisement(self, session_id: str, obj: BusObject) -> None:
        """Take an advertisement of a linked server; see :class:`IForwarding`."""
        facts = self._forwarder.route_of(session_id, obj)
        self.links.receive_advertisement(session_id, obj.fields(), facts.route, is_unusable=facts.is_unusable)

    def receive_gap(self, session_id: str, fields: dict[str, Any]) -> None:
        """Objects were lost on their way here; see :class:`IForwarding`."""
        link = self.links.get(session_id)
        assert link is not None, "only linked servers tell of gaps"
        self._gaps.receive(link, fields)

    def route_of(self, session_id: str, obj: BusObject) -> list[str]:
        """The route of an object of a linked server; see :class:`IForwarding`."""
        return self._forwarder.route_of(session_id, obj).route

    # Publications.

    def publish(self, session_id: str, publication: Publication) -> None:
        """Deliver a publication to everybody who wants it, in every format.

        Nobody gets it if the session is closed, or may not publish on the service.
        """
        if session_id not in self.registry.state.sessions:
            return
        origin = self._origins.of(session_id).origin
        if origin.permissions.may("publish", publication.service):
            self._router.publish(origin, publication)
        else:
            self._rights.deny(session_id, origin.permissions, "publish", publication.service)

    def publish_many(self, session_id: str, publications: Sequence[Publication]) -> None:
        """Deliver publications that differ in nothing but their payloads; see :class:`IRouting`."""
        service = publications[0].service
        if session_id not in self.registry.state.sessions:
            return
        origin = self._origins.of(session_id).origin
        if origin.permissions.may("publish", service):
            self._router.publish_many(origin, publications)
        else:
            self._rights.deny(session_id, origin.permissions, "publish", service)

    def last(self, service: str, permissions: Permissions) -> bytes:
        """The last payload published on a service, or else retained, empty when there is none; or the snapshot of one
        of the server.

        :raises Refused: ``internal-error``: that service failed.
        """
        hosted = self._hosted.get(service)
        if hosted is not None:
            return hosted.snapshot(seen_with(permissions))
        last, retained = self._last_values.get(service), self.retained.get(service)
        return last if last or retained is None else retained.payload

    def ready(self, service: object, permissions: Permissions) -> Deferred[None] | None:
        """Fires when :meth:`last` takes little time; see :class:`IBus`."""
        return self._hosted.ready(service, permissions)

    # Services of the server itself.

    def host(self, service: str, hosted: Hosted) -> None:
        """A service is provided by the server itself."""
        self.registry.reserved.add(service)
        self._hosted.declare(service, hosted)

    def service_names(self) -> list[str]:
        """The names of all services, sorted; see :class:`IBus`."""
        return self._directory.names

    def visible_names(self, permissions: Permissions) -> Iterator[list[str] | None]:
        """The names that a session with these permissions may know, in steps; see :class:`IBus`."""
        return self._directory.visible(permissions)

    def hosted_type(self, service: object) -> str | None:
        """The content type of a service of the server itself; ``None`` for every other name."""
        return self._hosted.content_type(service)

    def report(self, name: str, make: Callable[[], object]) -> None:
        """Show the result of ``make`` under ``name`` in ``bus/statistics``."""
        self._reports[name] = make

    def reports(self) -> dict[str, object]:
        """All reports by name, as they are now."""
        return {name: make() for name, make in self._reports.items()}

    def has_subscribers(self, service: str) -> bool:
        """Whether somebody is subscribed to a service."""
        return self._receivers.has_subscribers(service) or self._hosted.is_awaited(service)

    def update(self, service: str, payloads: Callable[[Permissions], Iterable[bytes]]) -> None:
        """Give an update to those who are subscribed to a service of the server itself."""
        self._hosted.update(service, payloads)

    # The server's own words.

    def announce(self, event: str, fields: Shown, vocabulary: str | None, about: str) -> None:
        """Give an event of the server itself to the members of one vocabulary, save the session that it is about."""
        common = {"id": self._new_id(), "route": [self.server_id]}
        made: dict[Permissions, Delivery | None] = {}
        for group in self._receivers.wanting(Kind(event=event)):
            if group.vocabulary != vocabulary:
                continue
            if group.permissions not in made:
                shown = fields(group.permissions)
                metadata = None if shown is None else wire.encode_metadata({"event": event, **shown, **common})
                made[group.permissions] = None if metadata is None else Delivery(metadata, b"")
            delivery = made[group.permissions]
            if delivery is not None:
                self._fanout.add_for_others(group, delivery, about)
        self._flush_schedule.wait()

    def tell(self, session_id: str, fields: dict[str, Any]) -> None:
        """Answer one session: an event of the server itself, whatever its subscription says."""
        link = self._receivers.link(session_id)
        if link is None:
            return
        frame = link.encoding_for(None).encode(Delivery(wire.encode_metadata(fields), b""))
        if frame is not None:
            self.send(session_id, [frame])

    def _tell_asker(self, session_id: str, fields: dict[str, Any]) -> None:
        """Answer the request of a client, unless it wants nothing at all, or of a linked server's client."""
        group = self._receivers.group_of(session_id)
        if session_id in self.exchanges:
            self.exchanges.give(session_id, Delivery(wire.encode_metadata(fields), b""))
            self._flush_schedule.wait()
        elif group is not None and group.is_deaf:
            self.counters["receive-none"] += 1
        else:
            self.tell(session_id, fields)

    def send(self, session_id: str, frames: Sequence[bytes]) -> None:
        """Send one session frames of its wire format, after what was collected for it."""
        link = self._receivers.link(session_id)
        if link is not None:
            if self._fanout.collected:
                self._catch_up(session_id)
            if frames:
                link.send(Bundle(frames))

    def _catch_up(self, session_id: str) -> None:
        """Send a session what was collected for it."""
        server = self.links.get(session_id)
        if server is not None:
            self._fanout.send_one(server.group, session_id)
        else:
            self._receivers.catch_up(session_id)

    def poll_begins(self) -> None:
        """Connections of a port are about to be read; see :class:`IBus`."""
        self.slices.begin_turn()
        self._flush_schedule.poll_begins()

    def flush(self, since: float = NEVER) -> bool:
        """Send what was routed and published; see :class:`IRouting`."""
        self._flush_schedule.send(since)
        return not self._fanout.is_behind

    @property
    def is_behind(self) -> bool:
        """Whether what was routed and published is being sent to many; see :class:`IRouting`."""
        return self._fanout.is_behind
