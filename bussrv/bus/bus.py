"""The bus: decides who is given what, and keeps the audience in step with the registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.audience import Audience
from bussrv.bus.bridge import as_metadata, as_publication
from bussrv.bus.delivery import Batch, Delivery, Fanout, Group
from bussrv.bus.interest import Kind, kind_of, kind_of_content, passes
from bussrv.bus.lastvalue import LastValues
from bussrv.bus.requests import OpenRequests
from bussrv.clock import Clock
from bussrv.interfaces import IBus, IRegistryObserver, ISession, ISessionLink
from bussrv.journal.record import Stamped
from bussrv.registry.registry import Registry
from bussrv.registry.state import Session
from bussrv.settings import Settings
from bussrv.values import ModeInterest, Publication, Traffic
from bussrv.wire import objects as wire
from bussrv.wire.objects import BusObject


@implementer(IBus, IRegistryObserver)
class Bus:
    """Routes objects and publications among the sessions of one server.

    :param new_id: makes ids of objects; printable ASCII.
    :param clock: where times come from.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        server_id: str,
        new_id: Callable[[], str],
        clock: Clock,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.server_id = server_id
        self.counters: Counter[str] = Counter()
        self.utc = clock.utc
        self._new_id = new_id
        self._fanout = Fanout()
        self._audience = Audience(self._fanout)
        self._last_values = LastValues(settings.max_last_values)
        self._requests = OpenRequests(lambda: clock.mono() / 1_000_000)
        self._routes: dict[str, tuple[list[str], bytes]] = {}
        self._turns: Counter[str] = Counter()
        registry.observe(self)

    # Sessions.

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
        self._fanout.flush()
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
            self._routes.pop(session_id, None)
        elif isinstance(event, ev.ServiceUnregistered):
            self._forget_service(event.service)
        elif isinstance(event, ev.SessionClosed):
            self._audience.leave(session_id)
            self._routes.pop(session_id, None)

    def _subscribed(self, session_id: str, event: ev.SubscriptionAdded) -> None:
        if event.service is not None:
            self._audience.watch(session_id, event.service, event.options)
        elif event.interest is not None:
            # It may be closed by now: observers are told in order, even when one of them closes a session.
            session = self.registry.state.sessions.get(session_id)
            if session is not None:
                self._audience.join(session_id, event.interest, session.vocabulary)

    def _renewed(self, session_id: str, event: ev.SubscriptionRenewed) -> None:
        if event.service is not None and event.options is not None:
            self._audience.unwatch(session_id, event.service)
            self._audience.watch(session_id, event.service, event.options)

    def _forget_service(self, service: str | None) -> None:
        if service is not None and service not in self.registry.state.services:
            self._last_values.forget(service)
            self._turns.pop(service, None)

    # Objects.

    def route(self, session_id: str, obj: BusObject) -> int:
        """Route an object that a member of the object network sent.

        :returns: how many sessions other than the sender are given it.
        """
        if self._audience.group_of(session_id) is None:
            self.counters["not-subscribed"] += 1
            return 0
        metadata = wire.with_route(obj, self._route(session_id)[1], self._new_id)
        publication = as_publication(obj, self.registry.state.provided_by(session_id))
        delivery = Delivery(metadata, obj.payload, publication)
        kind = kind_of(obj)
        if publication is not None:
            self._to_watchers(delivery, publication)
        if obj.head.to is not None:
            return self._to_addresses(session_id, obj.head.to, kind, delivery)
        if obj.head.event == "services/request":
            return self._to_provider(session_id, obj, kind, delivery)
        if obj.head.event == "services/reply":
            return self._to_requester(session_id, obj, kind, delivery)
        return self._to_all(session_id, kind, delivery)

    def _route(self, session_id: str) -> tuple[list[str], bytes]:
        """The route of what a session sends, as a list and as JSON."""
        route = self._routes.get(session_id)
        if route is None:
            ids = [self.registry.state.sessions[session_id].routing_id, self.server_id]
            route = self._routes[session_id] = (ids, wire.encode_json(ids))
        return route

    def _to_all(self, session_id: str, kind: Kind, delivery: Delivery) -> int:
        others = 0
        for group in self._audience.wanting(kind):
            self._fanout.add(group, delivery, session_id if _no_echo(group) else None)
            others += len(group.links) - (session_id in group.links)
        return others

    def _to_addresses(self, sender: str, to: str | list[str], kind: Kind, delivery: Delivery) -> int:
        state = self.registry.state
        recipients: dict[str, None] = {}
        for routing_id in [to] if isinstance(to, str) else to:
            recipients.update(dict.fromkeys(sorted(state.sessions_at(routing_id))))
        if not recipients:
            self.counters["no-such-recipient"] += 1
        return sum(self._to_one(sender, recipient, kind, delivery) for recipient in recipients)

    def _to_one(self, sender: str, recipient: str, kind: Kind, delivery: Delivery) -> bool:
        """Give a member an object if it wants it. :returns: whether somebody other than the sender was given it."""
        group = self._audience.group_of(recipient)
        if group is None or group.interest is None or not passes(group.interest, kind):
            return False
        if recipient == sender and _no_echo(group):
            return False
        self._fanout.add_one(group, recipient, delivery)
        return recipient != sender

    def _to_provider(self, sender: str, obj: BusObject, kind: Kind, delivery: Delivery) -> int:
        """To one provider, in turn, and to those who merely observe; an unregistered name is routed plainly."""
        fields = wire.decode_fields(delivery.metadata)
        request_id = fields["id"]
        self._requests.remember(_request_key(request_id), sender)
        name = fields.get("name", fields.get("service"))
        providers = self.registry.state.services.get(name, {}) if isinstance(name, str) else {}
        chosen = self._next_provider(str(name), sender, kind, providers)
        if chosen is None:
            return self._to_all(sender, kind, delivery)
        others = 0
        for group in self._audience.wanting(kind):
            if providers.keys().isdisjoint(group.links):
                self._fanout.add(group, delivery, sender if _no_echo(group) else None)
                others += len(group.links) - (sender in group.links)
                continue
            for member in tuple(group.links):
                if member == chosen or member not in providers:
                    others += self._to_one(sender, member, kind, delivery)
        return others

    def _next_provider(self, name: str, sender: str, kind: Kind, providers: Iterable[str]) -> str | None:
        """The provider whose turn it is, of those that can be given objects of this kind."""
        able = [provider for provider in providers if self._wants(provider, sender, kind)]
        if not able:
            return None
        turn = self._turns[name]
        self._turns[name] += 1
        return able[turn % len(able)]

    def _wants(self, session_id: str, sender: str, kind: Kind) -> bool:
        group = self._audience.group_of(session_id)
        if group is None or group.interest is None or (session_id == sender and _no_echo(group)):
            return False
        return passes(group.interest, kind)

    def _to_requester(self, sender: str, obj: BusObject, kind: Kind, delivery: Delivery) -> int:
        key = _request_key(obj.fields().get("in-reply-to"))
        requester = self._requests.requester(key) if key is not None else None
        if requester is None or self._audience.group_of(requester) is None:
            return self._to_all(sender, kind, delivery)
        return self._to_one(sender, requester, kind, delivery)

    # Publications.

    def publish(self, session_id: str, publication: Publication) -> None:
        """Deliver a publication to everybody who wants it, in every format; once the session is closed, to nobody."""
        if session_id not in self.registry.state.sessions:
            return
        route, _ = self._route(session_id)
        groups = self._audience.wanting(kind_of_content(publication.content_type, bool(publication.payload)))
        metadata = b""
        if groups:
            metadata = as_metadata(publication, self._new_id(), route, with_app_type=True)
        delivery = Delivery(metadata, publication.payload, publication)
        self._to_watchers(delivery, publication)
        for group in groups:
            self._fanout.add(group, delivery)

    def last(self, service: str) -> bytes:
        """The last payload published on a service; empty when there is none."""
        return self._last_values.get(service)

    def _to_watchers(self, delivery: Delivery, publication: Publication) -> None:
        self._last_values.put(publication.service, publication.payload)
        for group in self._audience.watching(publication.service):
            self._fanout.add(group, delivery)

    # The server's own words.

    def announce(self, fields: dict[str, Any], vocabulary: str | None, accepts: Callable[[ISession], bool]) -> None:
        """Give an event of the server itself to the members of one vocabulary that ``accepts`` picks."""
        metadata = wire.encode_metadata({**fields, "id": self._new_id(), "route": [self.server_id]})
        delivery = Delivery(metadata, b"")
        kind = Kind(event=fields["event"])
        for group in tuple(self._audience.member_groups()):
            if group.vocabulary != vocabulary or group.interest is None or not passes(group.interest, kind):
                continue
            for session_id in tuple(group.links):
                session = self.registry.state.sessions.get(session_id)
                if session is not None and accepts(session):
                    self._fanout.add_one(group, session_id, delivery)

    def tell(self, session_id: str, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Answer one session: an event of the server itself, whatever its subscription says."""
        link = self._audience.link(session_id)
        if link is None:
            return
        group = self._audience.group_of(session_id)
        if group is not None:
            self._fanout.flush_group(group)
        frame = link.encoding_for(None).encode(Delivery(wire.encode_metadata(fields, payload), payload))
        if frame is not None:
            link.send(Batch([frame]))

    def flush(self) -> None:
        """Send what was routed and published."""
        self._fanout.flush()


def _no_echo(group: Group) -> bool:
    return isinstance(group.interest, ModeInterest) and group.interest.receive == "no_echo"


def _request_key(request_id: Any) -> tuple[type, Any] | None:
    """Ids are equal when they are of one kind and equal: 1 is not true, and not 1.0."""
    if isinstance(request_id, (str, int, float)):
        return type(request_id), request_id
    return None
