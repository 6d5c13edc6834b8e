"""Objects and publications that are routed by themselves, each as :mod:`bussrv.bus.routing.audience` says."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from bussrv.bus.groups.fanout import Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.vocabulary import DISCOVERY, PARTED, REPLY, REQUEST
from bussrv.bus.origins import Origin
from bussrv.bus.requests.gone_providers import REASON as PROVIDER_GONE
from bussrv.bus.requests.gone_providers import GoneProviders
from bussrv.bus.requests.records import OpenRequest, Targets, is_id
from bussrv.bus.routing.audience import Asker, Everyone, Nobody, OneByOne, OneOf, Plan
from bussrv.bus.routing.parts import RoutingParts
from bussrv.bus.services.bridge import as_metadata
from bussrv.bus.shared import Shared
from bussrv.values import Publication
from bussrv.wire.forwarded import plainly, with_value
from bussrv.wire.objects import BusObject, decode_fields, decode_raw, encode_json


class Copies(NamedTuple):
    """The two forms of a request; of any other object they are the same.

    :ivar plain: for links, observers, and its sender.
    :ivar shown: for the sessions of this server that may answer it.
    """

    plain: Delivery
    shown: Delivery


class Routed(NamedTuple):
    """The outcome of routing an object.

    :ivar others: how many sessions other than its sender are given it, as far as this server knows: a link over which
        somebody may take it counts as one. A sender that is asked for its own service counts, too.
    :ivar may_answer: whether one of them may answer, if the object asks for something.
    """

    others: int
    may_answer: bool = True


class SingleRouter:
    """Routes objects and publications, one by one.

    :ivar gone: tells askers of providers that are gone.
    """

    def __init__(
        self,
        shared: Shared,
        parts: RoutingParts,
        gone: GoneProviders,
    ) -> None:
        self._state = shared.registry.state
        self._audience = parts.audience
        self._receivers = parts.receivers
        self._fanout = parts.fanout
        self._links = parts.links
        self._publisher = parts.publisher
        self._requests = parts.requests
        self._exchanges = parts.exchanges
        self._answerers = parts.answerers
        self._counters = shared.counters
        self._new_id = shared.new_id
        self._gone = gone
        self._taps = parts.taps

    def route_one(self, origin: Origin, obj: BusObject, metadata: bytes, provided: Set[str]) -> int:
        """Give an object to its recipients, and as a publication to the subscribers of its service.

        :param metadata: the metadata of the object in the form that is forwarded.
        :param provided: the services that its sender provides. It publishes only on these.
        :returns: how many sessions other than the sender are given it; 0 if none of them may answer a question.
        :raises Refused: the sender may not send it, or there are too many requests.
        """
        plan = self._audience.plan(origin, obj, provided)
        if isinstance(plan, OneByOne) and plan.to is not obj.head.to:
            metadata = with_value(metadata, "to", encode_json(plan.to))
            obj = BusObject(obj.metadata, replace(obj.head, to=plan.to), obj.payload)
        publication = plan.publication if isinstance(plan, (Everyone, Nobody)) else None
        delivery = Delivery(metadata, obj.payload, publication)
        if publication is not None:
            self._publisher.publish_one(delivery, publication)
        others, may_answer = self._give(plan, origin, obj, delivery)
        given = others if may_answer else 0
        if self._taps.is_on:
            if isinstance(plan, Everyone) and plan.kind.event not in PARTED:
                others = self._audience.others(plan, origin.sender)
            self._taps.saw(origin, obj, plan.kind.event, publication, others)
        return given

    def publish(self, origin: Origin, publication: Publication) -> None:
        """Give a publication of another wire format to everybody who wants it."""
        plan, route = self._audience.everyone(origin, publication), origin.route
        is_shown = plan.members or plan.servers.given
        metadata = as_metadata(publication, self._new_id(), route, with_app_type=True) if is_shown else b""
        delivery = Delivery(metadata, publication.payload, publication)
        self._publisher.publish_one(delivery, publication)
        for group in plan.members:
            self._fanout.add(group, delivery)
        if plan.servers.given:
            self._links.send_flood(plan.servers, delivery, route)
        if self._taps.is_on:
            self._taps.saw_publication(origin, publication, self._audience.others(plan, origin.sender))

    def publish_many(self, origin: Origin, publications: Sequence[Publication]) -> None:
        """The same with publications that differ in nothing but their payloads."""
        plan = self._audience.everyone(origin, publications[0])
        if plan.members or plan.servers.given or self._taps.is_on:
            for each in publications:
                self.publish(origin, each)
        else:
            self._publisher.publish_many(publications)

    def _give(self, plan: Plan, origin: Origin, obj: BusObject, delivery: Delivery) -> Routed:
        if isinstance(plan, Asker):
            return Routed(self._answer(plan, origin, obj, delivery))
        if isinstance(plan, Nobody):
            self._counters["reserved-event"] += 1
            return Routed(0)
        if plan.kind.event == REQUEST:
            return self._ask(plan, origin, delivery)
        copies = Copies(delivery, delivery)
        if isinstance(plan, OneByOne):
            return Routed(self._to_addressees(plan, origin, copies))
        assert isinstance(plan, Everyone)
        if plan.kind.event == DISCOVERY:
            return self._question(plan, origin, copies)[0]
        return Routed(self._to_members(plan, origin, copies) + self._to_servers(plan, origin, delivery))

    def unregistered(self, session_id: str, service: str) -> None:
        """A session of this server provides a service no longer."""
        self._gone.unregistered(session_id, service)
        self._audience.unregistered(service)

    def session_closed(self, session_id: str) -> None:
        """A session ended."""
        self._answerers.forget(session_id)
        self._gone.session_closed(session_id)

    # To everybody who wants it.

    def _question(self, plan: Everyone, origin: Origin, copies: Copies) -> tuple[Routed, list[str]]:
        """Give a question to every session that wants it.

        :returns: also the members of this server that may answer it, at most two.
        """
        members = self._to_members(plan, origin, copies)
        answerers = list(islice(self._answerers.among(plan.kind, origin.sender), 2)) if members else []
        servers = self._to_servers(plan, origin, copies.plain)
        return Routed(members + servers, bool(answerers) or servers), answerers

    def _to_members(self, plan: Everyone, origin: Origin, copies: Copies) -> int:
        return sum(self._to_group(group, origin.sender, copies) for group in plan.members)

    def _to_group(self, group: Group, sender: str, copies: Copies) -> int:
        echoes = sender in group.links
        if copies.shown is copies.plain or not echoes or group.no_echo:
            self._fanout.add(group, copies.shown, sender if group.no_echo else None)
        else:
            self._fanout.add_for_others(group, copies.shown, sender)
            self._fanout.add_for_one(group, sender, copies.plain)
        return len(group.links) - echoes

    def _to_servers(self, plan: Everyone, origin: Origin, delivery: Delivery) -> bool:
        """Give it to every server that may not have it yet; see :meth:`Links.send_flood`."""
        return bool(self._links) and self._links.send_flood(plan.servers, delivery, origin.route)

    # To its addressees.

    def _to_addressees(self, plan: OneByOne, origin: Origin, copies: Copies) -> int:
        """Give it to its addressees. An unknown one may be a client of any server."""
        if not plan.local and not plan.links:
            self._counters["no-such-recipient"] += 1
        several = len(plan.local) > 1
        others = 0
        for recipient in plan.local:
            is_echo = several and recipient == origin.sender
            others += self._to_one(origin, recipient, plan.kind, copies.plain if is_echo else copies.shown)
        if plan.servers is not None:
            return others + self._links.send_flood(plan.servers, copies.plain, origin.route)
        return others + self._links.send_to(plan.links.values(), copies.plain, plan.kind, origin.route)

    def _to_one(self, origin: Origin, recipient: str, kind: Kind, delivery: Delivery) -> bool:
        """Give a session an object that is for it alone, if it wants such objects.

        :returns: whether somebody other than the sender was given it.
        """
        if not self._audience.accepts(recipient, origin.sender, kind):
            return False
        return self._put(recipient, delivery) and recipient != origin.sender

    def _put(self, recipient: str, delivery: Delivery) -> bool:
        """Put an object on the list of a session. :returns: whether its wire format can carry it."""
        group = self._receivers.group_of(recipient)
        if group is None:
            return self._exchanges.give(recipient, delivery)
        self._fanout.add_for_one(group, recipient, delivery)
        return True

    # Requests.

    def _ask(self, plan: Everyone | OneByOne | OneOf, origin: Origin, delivery: Delivery) -> Routed:
        """Give a request to those who may answer it, and open it.

        :raises OverLimit: there are too many.
        """
        if isinstance(plan, OneByOne):
            return self._ask_addressees(plan, origin, delivery)
        if isinstance(plan, Everyone):
            return self._ask_everybody(plan, origin, delivery)
        if not plan.able:
            return Routed(self._to_observers(plan, origin, delivery))
        return self._ask_provider(plan, origin, delivery)

    def _ask_provider(self, plan: OneOf, origin: Origin, delivery: Delivery) -> Routed:
        """Give a request to one provider, and to observers, who cannot answer it."""
        number = self._audience.next_of(plan)
        chosen, link = plan.able[number]
        if not origin.is_marked:
            self._audience.provider_round[plan.service] += 1
        if link is None:
            asked = self._requests.of_provider(chosen, plan.service)
        else:
            behind = self._state.sessions[chosen].routing_id
            asked = self._requests.of_provider(link.session_id, plan.service, behind=behind)
        ask = self._open(origin, delivery, asked)
        others, is_given = self._to_observers(plan, origin, delivery), True
        if link is not None:
            is_given = self._links.send_last_hop(link, delivery, plan.kind, origin.route)
        else:
            is_given = self._put(chosen, _shown(ask, delivery))
        return self._asked(ask, Routed(others + is_given, is_given))

    def _to_observers(self, plan: OneOf, origin: Origin, delivery: Delivery) -> int:
        """Give it to the members of this server that want it and are not among the providers."""
        sender, provided = origin.sender, plan.providers
        others = 0
        for group in plan.members:
            if provided.isdisjoint(group.links):
                self._fanout.add(group, delivery, sender if group.no_echo else None)
                others += len(group.links) - (sender in group.links)
                continue
            for member in tuple(group.links):
                if member not in provided:
                    others += self._to_one(origin, member, plan.kind, delivery)
        return others

    def _ask_everybody(self, plan: Everyone, origin: Origin, delivery: Delivery) -> Routed:
        """No registered provider can be asked: give the request to every session that wants its event."""
        links = tuple(given.link.session_id for given in plan.servers.given)
        asked = Targets(kind=plan.kind, joins=self._receivers.joins, links=links)
        ask = self._open(origin, delivery, asked)
        routed, answerers = self._question(plan, origin, Copies(delivery, _shown(ask, delivery)))
        return self._asked(ask, routed, answerers)

    def _ask_addressees(self, plan: OneByOne, origin: Origin, delivery: Delivery) -> Routed:
        if plan.servers is None:
            links = tuple(plan.links)
        else:
            links = tuple(given.link.session_id for given in plan.servers.given)
        if len(plan.local) > 1:
            joins = self._receivers.joins
            asked = Targets(kind=plan.kind, addresses=plan.addresses, joins=joins, links=links)
        elif plan.local and self._audience.accepts(plan.local[0], origin.sender, plan.kind):
            asked = Targets(session=plan.local[0], links=links)
        else:
            asked = Targets(links=links)
        ask = self._open(origin, delivery, asked)
        others = self._to_addressees(plan, origin, Copies(delivery, _shown(ask, delivery)))
        return self._asked(ask, Routed(others, others > 0), self._holders(plan, origin.sender))

    def _holders(self, plan: OneByOne, sender: str) -> list[str]:
        """The first two sessions of this server, other than the sender, that an object was addressed to and given."""
        accepts = self._audience.accepts
        return list(islice((each for each in plan.local if each != sender and accepts(each, sender, plan.kind)), 2))

    def _open(self, origin: Origin, delivery: Delivery, asked: Targets) -> OpenRequest | None:
        request_id: Any = decode_fields(delivery.metadata)["id"]
        if not is_id(request_id):
            return None
        requester_id = bytes(decode_raw(delivery.metadata)["id"])
        remote = origin.link is not None
        return self._requests.open(origin.asker, origin.route[0], request_id, requester_id, asked, is_remote=remote)

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

    # Replies and errors.

    def _answer(self, plan: Asker, origin: Origin, obj: BusObject, delivery: Delivery) -> int:
        """Give a reply to the asker, if its sender was given the request."""
        ask = plan.ask
        if ask is None:
            self._counters["no-such-request"] += 1
            return 0
        is_of_server = origin.link is not None and self._audience.is_of_server(origin, obj)
        if is_of_server and obj.fields().get("reason") == PROVIDER_GONE:
            self._gone.nobody_over(origin.asker, ask)
            return 0
        self._requests.answered(ask)
        if origin.link is None and plan.kind.event == REPLY:
            self._answerers.replied(origin.sender)
        metadata = plainly(delivery.metadata)
        if ask.provider_id is not None and ask.requester_id is not None:
            metadata = with_value(metadata, "in-reply-to", ask.requester_id)
        is_addressed = obj.head.to is not None
        if not is_addressed and self._requests.is_ambiguous(ask):
            is_addressed = True
            metadata = with_value(metadata, "to", encode_json(ask.routing_id))
        answer = delivery if metadata == delivery.metadata else Delivery(metadata, delivery.payload)
        asker = ask.asker.session
        link = self._links.get(asker)
        if link is None:
            return self._to_one(origin, asker, plan.kind, answer)
        if is_addressed:
            return self._links.send_to([link], answer, plan.kind, origin.route)
        return self._links.send_last_hop(link, answer, plan.kind, origin.route)


def _shown(ask: OpenRequest | None, delivery: Delivery) -> Delivery:
    """A request with the id that is shown to sessions that may answer it."""
    if ask is None or ask.provider_id is None:
        return delivery
    return Delivery(ask.as_shown(delivery.metadata), delivery.payload)
