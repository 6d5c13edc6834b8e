"""Routing of one object: to its addressees, to one provider, to the asker, or to every session that wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any, NamedTuple
from zlib import crc32

from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.vocabulary import ASKING, DISCOVERY, REPLY, REQUEST, SERVERS_ONLY
from bussrv.bus.links.links import Links
from bussrv.bus.origins import Origin
from bussrv.bus.requests.answerers import Answerers
from bussrv.bus.requests.gone_providers import REASON as PROVIDER_GONE
from bussrv.bus.requests.gone_providers import GoneProviders
from bussrv.bus.requests.open_requests import OpenRequests
from bussrv.bus.requests.records import OpenRequest, Targets, is_id
from bussrv.bus.routing.recipients import Addressed, Copies, Recipients
from bussrv.bus.shared import Shared
from bussrv.registry.state.session import SERVER_ROLE
from bussrv.wire import objects as wire
from bussrv.wire.forwarded import plainly, with_value
from bussrv.wire.objects import BusObject

_Fields = dict[str, Any]


class Routed(NamedTuple):
    """The outcome of routing an object.

    :ivar others: how many sessions, as :class:`Recipients` counts them. A sender that is asked for its own service
        counts, too.
    :ivar may_answer: whether one of them may answer, if the object asks for something.
    """

    others: int
    may_answer: bool = True


class SingleRouter:
    """Routes objects among the sessions of this server, and to other servers.

    :ivar gone: tells askers of providers that are gone.
    :ivar turns: how many requests were given to providers of each service, so that these take turns.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        receivers: Receivers,
        recipients: Recipients,
        links: Links,
        requests: OpenRequests,
        answerers: Answerers,
        gone: GoneProviders,
    ) -> None:
        self._registry = shared.registry
        self._receivers = receivers
        self._recipients = recipients
        self._links = links
        self._requests = requests
        self._answerers = answerers
        self._counters = shared.counters
        self._gone = gone
        self.turns: Counter[str] = Counter()

    def route(self, origin: Origin, obj: BusObject, kind: Kind, delivery: Delivery) -> Routed:
        """Give an object to its recipients.

        :raises OverLimit: it is a request, and there are too many.
        """
        if kind.event == REQUEST:
            return self._ask(origin, obj, kind, delivery)
        if kind.event in ASKING:
            return Routed(self._answer(origin, obj, kind, delivery))
        if kind.event in SERVERS_ONLY and not self._is_of_server(origin, obj):
            self._counters["reserved-event"] += 1
            return Routed(0)
        copies = Copies(delivery, delivery)
        if obj.head.to is not None:
            addressed = self._recipients.addressed(obj.head.to)
            return Routed(self._recipients.to_addressed(origin, addressed, kind, copies))
        if kind.event == DISCOVERY:
            return self._question(origin, kind, copies)[0]
        return Routed(self._recipients.to_all(origin, kind, copies))

    def _question(self, origin: Origin, kind: Kind, copies: Copies) -> tuple[Routed, list[str]]:
        """Give a question to every session that wants it.

        :returns: also the members of this server that may answer it, at most two.
        """
        members = self._recipients.to_members(origin, kind, copies)
        answerers = list(islice(self._answerers.among(kind, origin.sender), 2)) if members else []
        servers = self._recipients.to_servers(origin, kind, copies)
        return Routed(members + servers, bool(answerers) or servers), answerers

    def _is_of_server(self, origin: Origin, obj: BusObject) -> bool:
        """Whether the sender may be a server that addresses somebody. A sender that is not known here may be one."""
        state = self._registry.state
        session = state.sessions.get(state.owner(origin.route[0]) or "")
        is_client = session is not None and session.role != SERVER_ROLE
        return origin.link is not None and obj.head.to is not None and not is_client

    def unregistered(self, session_id: str, service: str) -> None:
        """A session of this server provides a service no longer."""
        self._gone.unregistered(session_id, service)
        if service not in self._registry.state.services:
            self.turns.pop(service, None)

    def session_closed(self, session_id: str) -> None:
        """A session ended."""
        self._answerers.forget(session_id)
        self._gone.session_closed(session_id)

    # Requests.

    def _ask(self, origin: Origin, obj: BusObject, kind: Kind, delivery: Delivery) -> Routed:
        fields = wire.decode_fields(delivery.metadata)
        if obj.head.to is not None:
            return self._ask_addressed(origin, fields, self._recipients.addressed(obj.head.to), kind, delivery)
        name = fields.get("name", fields.get("service"))
        providers = self._registry.state.services.get(name, {}) if isinstance(name, str) else {}
        if origin.is_marked and providers:
            return self._ask_agreed(origin, fields, kind, delivery, providers)
        chosen = self._next_provider(str(name), origin, kind, providers)
        if chosen is None:
            return self._ask_everybody(origin, fields, kind, delivery)
        return self._ask_one(origin, fields, kind, delivery, chosen, providers)

    def _ask_one(
        self, origin: Origin, fields: _Fields, kind: Kind, delivery: Delivery, chosen: str, providers: Iterable[str]
    ) -> Routed:
        """Give a request to one provider, and to observers, who cannot answer it."""
        session, service = self._registry.state.sessions[chosen], str(fields.get("name", fields.get("service")))
        link = self._links.towards(session)
        if link is None:
            asked = self._requests.of_provider(chosen, service)
        else:
            asked = self._requests.of_provider(link.session_id, service, behind=session.routing_id)
        ask = self._open(origin, fields, delivery, asked)
        others = self._recipients.to_observers(origin, kind, delivery, providers)
        is_given = True
        if link is not None:
            is_given = self._links.give_alone(link, delivery, kind, origin.route)
        else:
            self._recipients.to_one(origin, chosen, kind, _shown(ask, delivery))
        return self._asked(ask, Routed(others + is_given, is_given))

    def _ask_everybody(self, origin: Origin, fields: _Fields, kind: Kind, delivery: Delivery) -> Routed:
        """No registered provider can be asked: give the request to every session that wants its event."""
        asked = Targets(kind=kind, joins=self._receivers.joins, links=self._taking(kind, origin))
        ask = self._open(origin, fields, delivery, asked)
        routed, answerers = self._question(origin, kind, Copies(delivery, _shown(ask, delivery)))
        return self._asked(ask, routed, answerers)

    def _ask_addressed(
        self, origin: Origin, fields: _Fields, addressed: Addressed, kind: Kind, delivery: Delivery
    ) -> Routed:
        links = self._taking(kind, origin) if addressed.everywhere else tuple(addressed.links)
        if len(addressed.local) > 1:
            joins = self._receivers.joins
            asked = Targets(kind=kind, addresses=addressed.addresses, joins=joins, links=links)
        elif addressed.local and self._recipients.accepts(addressed.local[0], origin.sender, kind):
            asked = Targets(session=addressed.local[0], links=links)
        else:
            asked = Targets(links=links)
        ask = self._open(origin, fields, delivery, asked)
        copies = Copies(delivery, _shown(ask, delivery))
        others = self._recipients.to_addressed(origin, addressed, kind, copies)
        return self._asked(ask, Routed(others, others > 0), self._holders(origin, addressed, kind))

    def _taking(self, kind: Kind, origin: Origin) -> tuple[str, ...]:
        return tuple(link.session_id for link, _ in self._links.taking(kind, origin.route))

    def _open(self, origin: Origin, fields: _Fields, delivery: Delivery, asked: Targets) -> OpenRequest | None:
        request_id = fields["id"]
        if not is_id(request_id):
            return None
        own_id = bytes(wire.decode_raw(delivery.metadata)["id"])
        remote = origin.link is not None
        return self._requests.open(origin.asker, origin.route[0], request_id, own_id, asked, is_remote=remote)

    def _asked(self, ask: OpenRequest | None, routed: Routed, answerers: Collection[str] = ()) -> Routed:
        """Open the request if somebody was given it.

        If those merely observe, the asker is told that nobody provides the service. That is an answer. One of them may
        reply all the same, and counts from then on.
        """
        if ask is None:
            return routed
        if not routed.others:
            self._requests.withdraw(ask)
            return routed
        self._requests.taken(ask)
        if ask.asked.kind is not None:
            self._requests.watch(ask, answerers)
        if not routed.may_answer:
            self._requests.answered(ask)
        return routed

    def _holders(self, origin: Origin, addressed: Addressed, kind: Kind) -> list[str]:
        """The first two sessions of this server, other than the sender, that an object was addressed to and given."""
        sender, accepts = origin.sender, self._recipients.accepts
        return list(islice((each for each in addressed.local if each != sender and accepts(each, sender, kind)), 2))

    def _next_provider(self, name: str, origin: Origin, kind: Kind, providers: Iterable[str]) -> str | None:
        """The next provider in round robin, among those that can be given objects of this kind.

        A request that came over a link may be forwarded over another one. Each server on its way makes its own choice.
        Only routes that it has not passed are open. The next server knows the rest of the way, so it is not lost.
        """
        able = [provider for provider in providers if self._can_ask(provider, origin, kind)]
        if not able:
            return None
        turn = self.turns[name]
        self.turns[name] += 1
        return able[turn % len(able)]

    def _ask_agreed(
        self, origin: Origin, fields: _Fields, kind: Kind, delivery: Delivery, providers: Iterable[str]
    ) -> Routed:
        """Choose a provider for a request that several servers were given: all choose the same, and one asks it.

        So the choice depends on the request alone. The server on the way to the provider asks it.
        """
        sessions = self._registry.state.sessions
        able = sorted(providers, key=lambda provider: sessions[provider].routing_id)
        first = crc32(wire.encode_json([*origin.route[:2], fields["id"]])) % len(able)
        for provider in (*able[first:], *able[:first]):
            if self._can_ask(provider, origin, kind):
                return self._ask_one(origin, fields, kind, delivery, provider, providers)
            if self._links.is_on_way(sessions[provider], origin.route):
                return Routed(self._recipients.to_observers(origin, kind, delivery, providers))
        return self._ask_everybody(origin, fields, kind, delivery)

    def _can_ask(self, provider: str, origin: Origin, kind: Kind) -> bool:
        session = self._registry.state.sessions[provider]
        if session.home is None:
            return self._recipients.accepts(provider, origin.sender, kind)
        return self._links.leads_on(session, origin.route)

    # Replies and errors.

    def _answer(self, origin: Origin, obj: BusObject, kind: Kind, delivery: Delivery) -> int:
        """Give a reply to the asker, if its sender was given the request."""
        ask = self._ask_of(origin, obj)
        if ask is None or not self._is_for(ask, obj.head.to):
            self._counters["no-such-request"] += 1
            return 0
        if origin.link is not None and self._is_of_server(origin, obj) and obj.fields().get("reason") == PROVIDER_GONE:
            self._gone.nobody_over(origin.link, ask)
            return 0
        self._requests.answered(ask)
        if origin.link is None and kind.event == REPLY:
            self._answerers.replied(origin.sender)
        asker = ask.asker.session
        metadata = plainly(delivery.metadata)
        if ask.shown is not None and ask.own_id is not None:
            metadata = with_value(metadata, "in-reply-to", ask.own_id)
        is_addressed = obj.head.to is not None
        if not is_addressed and self._requests.is_ambiguous(ask):
            is_addressed = True
            metadata = with_value(metadata, "to", wire.encode_json(ask.routing_id))
        answer = delivery if metadata == delivery.metadata else Delivery(metadata, delivery.payload)
        link = self._links.get(asker)
        if link is not None:
            if is_addressed:
                return self._links.give([link], answer, kind, origin.route)
            return self._links.give_alone(link, answer, kind, origin.route)
        return self._recipients.to_one(origin, asker, kind, answer)

    def _ask_of(self, origin: Origin, obj: BusObject) -> OpenRequest | None:
        """The open request that an object replies to, if its sender was given that request."""
        reply_id, to = obj.fields().get("in-reply-to"), obj.head.to
        if origin.link is not None:
            ask = self._requests.went_over(origin.link, reply_id, [to] if isinstance(to, str) else to)
        else:
            ask = self._requests.given(origin.sender, reply_id)
            if ask is not None and not self._was_given(origin.sender, ask):
                ask = None
        return ask if ask is not None and ask.asker.session in self._registry.state.sessions else None

    def _was_given(self, session_id: str, ask: OpenRequest) -> bool:
        asked = ask.asked
        if asked.kind is None:
            return True
        if not self._receivers.had_joined(session_id, asked.joins):
            return False
        if asked.addresses is None:
            return self._recipients.wants(session_id, ask.asker.session, asked.kind)
        if asked.addresses.isdisjoint(self._addresses(session_id)):
            return False
        return self._recipients.accepts(session_id, ask.asker.session, asked.kind)

    def _is_for(self, ask: OpenRequest, to: str | list[str] | None) -> bool:
        """Whether a reply is addressed to the asker, or to nobody."""
        if to is None:
            return True
        addresses = {ask.routing_id} if ask.asker.is_remote else {ask.routing_id, *self._addresses(ask.asker.session)}
        return not addresses.isdisjoint([to] if isinstance(to, str) else to)

    def _addresses(self, session_id: str) -> set[str]:
        session = self._registry.state.sessions[session_id]
        return {session.routing_id, *session.routing_ids}


def _shown(ask: OpenRequest | None, delivery: Delivery) -> Delivery:
    """A request with the id that is shown to sessions that may answer it."""
    if ask is None or ask.shown is None:
        return delivery
    return Delivery(with_value(delivery.metadata, "id", wire.encode_json(ask.shown)), delivery.payload)
