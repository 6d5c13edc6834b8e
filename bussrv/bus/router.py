"""Where an object goes: to those it is addressed to, to one provider, to who asked, or to everybody who wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from bussrv.bus.audience import Audience
from bussrv.bus.delivery import Delivery, Fanout, Group
from bussrv.bus.interest import Kind, passes
from bussrv.bus.links import Link, Links
from bussrv.bus.requests import OpenRequests
from bussrv.registry.registry import Registry
from bussrv.values import ModeInterest
from bussrv.wire import objects as wire
from bussrv.wire.objects import BusObject

ASKING = ("services/request", "services/reply")
"""Events that go to one provider, and back to who asked."""


class Origin(Struct, frozen=True):
    """Where an object came from.

    :ivar sender: the session that sent it; empty when a session of another server did.
    :ivar route: its route, this server last.
    :ivar link: the session of the server that passed it on; ``None`` for objects of this server's sessions.
    """

    sender: str
    route: list[str]
    link: str | None = None

    @property
    def asker(self) -> str:
        """Whom a reply is given to."""
        return self.link or self.sender


class Router:
    """Routes objects among the sessions of this server, and to other servers.

    Each method returns how many are given the object, other than its sender, as far as this server knows: a link behind
    which somebody may take it counts as one. A sender that is asked for a service of its own counts, too.
    """

    def __init__(
        self,
        registry: Registry,
        server_id: str,
        audience: Audience,
        fanout: Fanout,
        links: Links,
        requests: OpenRequests,
        counters: Counter[str],
    ) -> None:
        self._registry = registry
        self._server_id = server_id
        self._audience = audience
        self._fanout = fanout
        self._links = links
        self._requests = requests
        self._counters = counters
        self._turns: Counter[str] = Counter()

    def route(self, origin: Origin, obj: BusObject, kind: Kind, delivery: Delivery) -> int:
        """Give an object to those it is for."""
        if obj.head.to is not None:
            self._follow(origin, obj, delivery)
            return self._to_addresses(origin, obj.head.to, kind, delivery)
        if obj.head.event == "services/request":
            return self._to_provider(origin, kind, delivery)
        if obj.head.event == "services/reply":
            return self._to_asker(origin, obj, kind, delivery)
        return self._to_all(origin, kind, delivery)

    def _follow(self, origin: Origin, obj: BusObject, delivery: Delivery) -> None:
        """Remember a request that is addressed, and that a reply that is addressed was given."""
        if obj.head.event == "services/request":
            fields = wire.decode_fields(delivery.metadata)
            self._requests.remember(fields["id"], origin.asker, None, _service(fields))
        elif obj.head.event == "services/reply":
            self._asker(origin, obj)

    def forget_turns(self, service: str) -> None:
        """Nobody provides the service any more."""
        self._turns.pop(service, None)

    def _to_all(self, origin: Origin, kind: Kind, delivery: Delivery) -> int:
        sender = origin.sender
        others = 0
        for group in self._audience.wanting(kind):
            self._fanout.add(group, delivery, sender if no_echo(group) else None)
            others += len(group.links) - (sender in group.links)
        if self._links:
            others += self._links.flood(delivery, kind, origin.route)
        return others

    # To addresses.

    def _to_addresses(self, origin: Origin, to: str | list[str], kind: Kind, delivery: Delivery) -> int:
        state = self._registry.state
        recipients: dict[str, None] = {}
        is_known = True
        for routing_id in dict.fromkeys([to] if isinstance(to, str) else to):
            sessions = state.sessions_at(routing_id)
            is_known = is_known and bool(sessions or routing_id == self._server_id)
            recipients.update(dict.fromkeys(sorted(sessions)))
        if not recipients:
            self._counters["no-such-recipient"] += 1
        others = 0
        onward: dict[str, Link] = {}
        for recipient in recipients:
            link = self._links.towards(state.sessions[recipient])
            if link is None:
                others += self._to_one(origin.sender, recipient, kind, delivery)
            else:
                onward[link.session_id] = link
        return others + self._onward(origin, onward, kind, delivery, everywhere=not is_known)

    def _onward(
        self, origin: Origin, onward: dict[str, Link], kind: Kind, delivery: Delivery, *, everywhere: bool
    ) -> int:
        """To the servers of those it is addressed to; whom nobody here knows may be a client of any server."""
        if everywhere and self._links:
            return self._links.flood(delivery, kind, origin.route)
        return sum(self._links.give(link, delivery, kind, origin.route) for link in onward.values())

    def _to_one(self, sender: str, recipient: str, kind: Kind, delivery: Delivery) -> bool:
        """Give a member an object if it wants it. :returns: whether somebody other than the sender was given it."""
        if not self._wants(recipient, sender, kind):
            return False
        group = self._audience.group_of(recipient)
        assert group is not None
        self._fanout.add_for_one(group, recipient, delivery)
        return recipient != sender

    def _wants(self, session_id: str, sender: str, kind: Kind) -> bool:
        group = self._audience.group_of(session_id)
        if group is None or group.interest is None or (session_id == sender and no_echo(group)):
            return False
        return passes(group.interest, kind)

    # To a provider, and back.

    def _to_provider(self, origin: Origin, kind: Kind, delivery: Delivery) -> int:
        """To one provider, in turn, and to those who merely observe; an unregistered name is routed plainly."""
        fields = wire.decode_fields(delivery.metadata)
        name = _service(fields)
        providers = self._registry.state.services.get(name, {}) if isinstance(name, str) else {}
        chosen = self._next_provider(str(name), origin, kind, providers)
        if chosen is None:
            self._requests.remember(fields["id"], origin.asker, None, name)
            return self._to_all(origin, kind, delivery)
        others = self._to_observers(origin.sender, kind, delivery, providers)
        link = self._links.towards(self._registry.state.sessions[chosen])
        asked = link.session_id if link is not None else chosen
        self._requests.remember(fields["id"], origin.asker, asked, name)
        if link is not None:
            return others + self._links.give(link, delivery, kind, origin.route)
        self._to_one(origin.sender, chosen, kind, delivery)
        return others + 1

    def _next_provider(self, name: str, origin: Origin, kind: Kind, providers: Iterable[str]) -> str | None:
        """The provider whose turn it is, of those that can be given objects of this kind.

        What came over a link may go on over another one: the turns of all servers on the way make up the choice. Only
        ways on which it has not been are open. The next server knows the rest of the way, so it does not get lost.
        """
        able = [provider for provider in providers if self._can_ask(provider, origin, kind)]
        if not able:
            return None
        turn = self._turns[name]
        self._turns[name] += 1
        return able[turn % len(able)]

    def _can_ask(self, provider: str, origin: Origin, kind: Kind) -> bool:
        session = self._registry.state.sessions[provider]
        if session.home is None:
            return self._wants(provider, origin.sender, kind)
        return self._links.leads_on(session, origin.route)

    def _to_observers(self, sender: str, kind: Kind, delivery: Delivery, providers: Iterable[str]) -> int:
        """To the members of this server that want it, and do not provide the service."""
        provided = set(providers)
        others = 0
        for group in self._audience.wanting(kind):
            if provided.isdisjoint(group.links):
                self._fanout.add(group, delivery, sender if no_echo(group) else None)
                others += len(group.links) - (sender in group.links)
                continue
            for member in tuple(group.links):
                if member not in provided:
                    others += self._to_one(sender, member, kind, delivery)
        return others

    def _asker(self, origin: Origin, obj: BusObject) -> str | None:
        fields = obj.fields()
        return self._requests.asker(fields.get("in-reply-to"), origin.asker, _service(fields))

    def _to_asker(self, origin: Origin, obj: BusObject, kind: Kind, delivery: Delivery) -> int:
        """To who made the request; a reply to a request that nobody here made is routed plainly."""
        asker = self._asker(origin, obj)
        if asker is None:
            return self._to_all(origin, kind, delivery)
        link = self._links.get(asker)
        if link is not None:
            return self._links.give(link, delivery, kind, origin.route)
        if asker not in self._registry.state.sessions:
            self._counters["no-such-recipient"] += 1
            return 0
        return self._to_one(origin.sender, asker, kind, delivery)


def _service(fields: dict[str, Any]) -> Any:
    """The service that a request, or a reply, is about."""
    return fields.get("name", fields.get("service"))


def no_echo(group: Group) -> bool:
    """Whether members are not given what they sent themselves."""
    return isinstance(group.interest, ModeInterest) and group.interest.receive == "no_echo"
