"""The audience: who gets an object. This is the only place that decides it; all of routing asks here.

1. A request is for one of the registered providers of its service: :class:`OneOf`. :meth:`Audience.next_of` says whose
   turn it is. Members that want requests see it, too. If no provider can be asked, it is for everybody who wants it:
   services in the field do not register.
2. A reply or an error is for the client that asked: :class:`Asker`.
3. An object with a ``to`` is for its addressees: :class:`OneByOne`.
4. An event that only servers send is for :class:`Nobody`, unless it comes from one.
5. Everything else is for everybody who wants it: :class:`Everyone`. If its sender provides a service and publishes on
   it, it is also for the subscribers of that; those among the members are in the groups of members that want it.

The permissions of the sender decide before, those of the receivers are part of the groups that they are in.

Plans are remembered, and :attr:`Audience.generation` says how long they are right. It is one number, which grows
whenever somebody may get other objects than before:

1. A group or a link comes or goes, or has other members, permissions or interests. Then all caches of plans are empty.
2. A session begins or ceases to provide a service. That concerns few plans: those of requests, and those of a sender
   that provides something else than before. These alone are made anew when they are asked for: they carry the number of
   their generation. Emptying the caches for it, too, makes a change of a service cost 1.4 to 1.8 times as much, while
   objects pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Any, NamedTuple
from zlib import crc32

from msgspec import Struct

from bussrv.bus.groups.fanout import Group
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind, kind_of, kind_of_content
from bussrv.bus.interest.vocabulary import PARTED, REPLYING, REQUEST, SERVERS_ONLY
from bussrv.bus.links.link import Link
from bussrv.bus.links.links import Links
from bussrv.bus.links.marks import Flood
from bussrv.bus.origins import Origin
from bussrv.bus.requests.exchanges import Exchanges
from bussrv.bus.requests.open_requests import OpenRequests
from bussrv.bus.requests.records import OpenRequest
from bussrv.bus.send_rights import SendRights
from bussrv.bus.services.bridge import as_publication
from bussrv.bus.shared import Shared
from bussrv.bus.uses import Uses
from bussrv.registry.state.session import SERVER_ROLE
from bussrv.values import Publication
from bussrv.wire.objects import BusObject, encode_json

NO_SERVERS = Flood([])

MOST_REMEMBERED = 1024
"""Of how many services it is remembered whether members provide them."""


class Everyone(Struct, frozen=True):
    """Everybody who wants it.

    :ivar members: the groups of members of this server.
    :ivar servers: the linked servers.
    :ivar publication: what it is to the subscribers of a service, if it is one.
    """

    kind: Kind
    members: tuple[Group, ...]
    servers: Flood
    publication: Publication | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of members and of linked servers."""
        return (*self.members, *(given.link.group for given in self.servers.given))

    @property
    def marked(self) -> dict[Group, tuple[str, ...]]:
        """The ids that are added to the route for the groups of some servers; see :mod:`bussrv.bus.links.marks`."""
        return {given.link.group: given.marks for given in self.servers.given if given.marks}


class AbleProvider(NamedTuple):
    """A provider that can be asked.

    :ivar session: its session.
    :ivar link: the link that leads to it; ``None``: it is a member of this server.
    """

    session: str
    link: Link | None


class OneOf(Struct, frozen=True):
    """One provider of a service, in turn; and members who see requests, but cannot answer this one.

    :ivar able: the providers that can be asked. None: another server asks one, so only observers are given it here.
    :ivar providers: all providers of the service.
    :ivar members: the groups of members that want it; providers are among them.
    """

    kind: Kind
    service: str
    able: Sequence[AbleProvider]
    providers: Set[str]
    members: tuple[Group, ...]

    @property
    def is_observed(self) -> bool:
        """Whether members other than the providers want it."""
        return any(not group.links.keys() <= self.providers for group in self.members)


class Asker(Struct, frozen=True):
    """The client that asked.

    :ivar ask: the request that this replies to; ``None``: its sender was given no such request.
    """

    kind: Kind
    ask: OpenRequest | None


class OneByOne(Struct, frozen=True):
    """Its addressees, as far as this server knows them.

    :ivar to: the routing ids that it is addressed to, without those that its sender may not address.
    :ivar addresses: those of them that sessions have.
    :ivar local: the sessions of this server.
    :ivar links: the links to the others, by session.
    :ivar servers: not ``None``: some address is known to nobody here, so it may be on any of these servers.
    """

    kind: Kind
    to: str | list[str]
    addresses: frozenset[str]
    local: tuple[str, ...]
    links: dict[str, Link]
    servers: Flood | None


class Nobody(Struct, frozen=True):
    """Nobody: a client may not send such an event.

    :ivar publication: see :class:`Everyone`.
    """

    kind: Kind
    publication: Publication | None


Plan = Everyone | OneOf | Asker | OneByOne | Nobody


class Audience:
    """Says who gets an object.

    :ivar provider_round: how many requests were given to providers of each service, so that these take turns.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        receivers: Receivers,
        links: Links,
        requests: OpenRequests,
        exchanges: Exchanges,
        rights: SendRights,
        uses: Uses,
    ) -> None:
        self._state = shared.registry.state
        self._server_id = shared.server_id
        self._settings = shared.settings
        self._receivers = receivers
        self._links = links
        self._paths = links.paths
        self._requests = requests
        self._exchanges = exchanges
        self._rights = rights
        self._uses = uses
        self._generation = shared.generation
        self.provider_round: Counter[str] = Counter()
        self._of_members: dict[str, tuple[int, bool]] = {}

    @property
    def generation(self) -> int:
        """The number of the present generation: a plan that was made in another one may be wrong.

        What linked servers advertise counts before it is in the registry.
        """
        return self._generation.number + self._state.service_changes + self._paths.service_changes

    def cache(self) -> dict[Any, Any]:
        """A dictionary for plans, which is empty whenever more than the services that somebody provides has changed."""
        return self._generation.cache()

    def plan(self, origin: Origin, obj: BusObject, provided: Set[str]) -> Plan:
        """Decide who gets an object.

        :param provided: the services that its sender provides. It publishes only on these.
        :raises Refused: the sender may not send it. That is counted, and journaled.
        """
        head = obj.head
        to = head.to
        counted = origin.counted.get(to) if type(to) is str else None
        if counted is not None and counted.looks == (head.event, head.type, head.size > 0, head.natures):
            publication, kind = None, counted.kind
        else:
            counted = None
            publication, kind = self._read(obj, provided)
        self._rights.check(origin, obj, kind)
        self._rights.check_addressees(origin, obj, self._settings.max_addressees)
        if counted is not None:
            counted.counter.count += 1
        elif self._uses.is_on:
            self._uses.note(origin, obj, kind, publication)
        return self._plan(origin, obj, kind, publication)

    def plan_of_many(self, origin: Origin, obj: BusObject, provided: Set[str]) -> Everyone | OneOf | None:
        """Decide who gets this object and all that are alike to interests; none of them has a ``to``.

        :returns: ``None``: such objects have to be routed one by one, or denied.
        """
        head = obj.head
        if head.event in PARTED and head.event != REQUEST:
            return None  # Most are in lower case.
        publication, kind = self._read(obj, provided)
        is_parted = kind.event in PARTED
        if (is_parted and kind.event != REQUEST) or (head.size and not head.type):
            return None
        if not self._rights.may_send(origin, obj, kind):
            return None
        if self._uses.is_on:
            self._uses.note(origin, obj, kind, publication)
        return self._provider(origin, obj, kind) if is_parted else self._everyone(origin, kind, publication)

    def _read(self, obj: BusObject, provided: Set[str]) -> tuple[Publication | None, Kind]:
        publication = as_publication(obj, provided)
        return publication, kind_of(obj, self._service_of(publication))

    def _service_of(self, publication: Publication | None) -> str | None:
        """The service of a publication, if it decides who may receive it; see :class:`Kind`."""
        if publication is not None:
            service = publication.service
            if self._receivers.members_on(service) or self._links.interests.covers(service):
                return service
        return self._rights.service_of(publication)

    def _plan(self, origin: Origin, obj: BusObject, kind: Kind, publication: Publication | None) -> Plan:
        event, to = kind.event, obj.head.to
        if event in REPLYING:
            return Asker(kind, self.asked(origin, obj.fields().get("in-reply-to"), to))
        if to is not None:
            to = self._rights.addressable(origin, to)
        if event in SERVERS_ONLY and not self.is_of_server(origin, obj):
            return Nobody(kind, publication)
        if to is not None:
            return self._addressees(origin, to, kind)
        if event == REQUEST:
            return self._provider(origin, obj, kind) or self._everyone(origin, kind)
        return self._everyone(origin, kind, publication)

    def everyone(self, origin: Origin, publication: Publication) -> Everyone:
        """Everybody who wants a publication of another wire format, which is no object."""
        service = self._service_of(publication)
        kind = kind_of_content(publication.content_type, bool(publication.payload), service)
        return self._everyone(origin, kind, publication)

    def _everyone(self, origin: Origin, kind: Kind, publication: Publication | None = None) -> Everyone:
        servers = self._links.flood_targets(kind, origin.route) if self._links else NO_SERVERS
        return Everyone(kind, self._receivers.wanting(kind), servers, publication)

    def others_of(self, origin: Origin, obj: BusObject, provided: Set[str]) -> int:
        """How many sessions other than the sender get an object that is for everybody; see :meth:`others`."""
        publication, kind = self._read(obj, provided)
        return self.others(self._everyone(origin, kind, publication), origin.sender)

    def others(self, plan: Everyone, sender: str) -> int:
        """How many sessions other than the sender get something, with linked servers, and subscribers of a service."""
        others = sum(len(group.links) - (sender in group.links) for group in plan.members)
        if plan.publication is not None:
            others += sum(len(group.links) for group in self._receivers.subscribed_to(plan.publication.service))
        return others + len(plan.servers.given)

    def is_of_server(self, origin: Origin, obj: BusObject) -> bool:
        """Whether the sender may be a server that addresses somebody. A sender that is not known here may be one."""
        session = self._state.sessions.get(self._state.owner(origin.route[0]) or "")
        is_client = session is not None and session.role != SERVER_ROLE
        return origin.link is not None and obj.head.to is not None and not is_client

    # Providers.

    def _provider(self, origin: Origin, obj: BusObject, kind: Kind) -> OneOf | None:
        fields = obj.fields()
        service = fields.get("name", fields.get("service"))
        providers = self._state.services.get(service, {}) if isinstance(service, str) else {}
        if not isinstance(service, str) or not providers:
            return None
        able: Sequence[AbleProvider] | None
        if origin.is_marked:
            able = self._agreed(origin, kind, service, fields.get("id"))
        else:
            found = (self._able(session_id, origin, kind, service) for session_id in providers)
            able = [each for each in found if each is not None] or None
        if able is None:
            return None
        return OneOf(kind, service, able, providers.keys(), self._receivers.wanting(kind))

    def takes_requests(self, service: str) -> bool:
        """Whether some provider of a service takes requests. Those that publish under a lease take none."""
        providers = self._state.services.get(service)
        if not providers:
            return False
        if self._exchanges.is_answered(service) or self._is_of_member(service, providers.keys()):
            return True
        return bool(self._links) and any(self._links.answers(self._state.sessions[each], service) for each in providers)

    def _is_of_member(self, service: str, providers: Set[str]) -> bool:
        """Whether a member of this server provides a service. Thousands may publish on it under a lease."""
        known = self._of_members.get(service)
        if known is None or known[0] != self.generation:
            if len(self._of_members) >= MOST_REMEMBERED:
                self._of_members.clear()
            known = self._of_members[service] = self.generation, not self._receivers.members.isdisjoint(providers)
        return known[1]

    def _able(self, session_id: str, origin: Origin, kind: Kind, service: str) -> AbleProvider | None:
        """A provider, if it can be given requests for its service.

        A request that came over a link may be forwarded over another one. Each server on its way makes its own choice.
        Only routes that it has not passed are open. The next server knows the rest of the way, so it is not lost.
        """
        session = self._state.sessions[session_id]
        if session.home is None:
            if session_id in self._exchanges:
                takes = self._exchanges.answers(session_id, service)
            else:
                takes = self.accepts(session_id, origin.sender, kind)
            return AbleProvider(session_id, None) if takes else None
        if not (self._links.answers(session, service) and self._links.leads_on(session, origin.route)):
            return None
        return AbleProvider(session_id, self._links.towards(session))

    def _agreed(self, origin: Origin, kind: Kind, service: str, request_id: object) -> Sequence[AbleProvider] | None:
        """Choose a provider for a request that several servers were given: all choose the same, and one asks it.

        So the choice depends on the request alone. The server on the way to the provider asks it.
        """
        sessions = self._state.sessions
        able = sorted(self._state.services[service], key=lambda provider: sessions[provider].routing_id)
        first = crc32(encode_json([*origin.route[:2], request_id])) % len(able)
        for session_id in (*able[first:], *able[:first]):
            provider = self._able(session_id, origin, kind, service)
            if provider is not None:
                return (provider,)
            session = sessions[session_id]
            if self._links.answers(session, service) and self._links.is_on_way(session, origin.route):
                return ()
        return None

    def next_of(self, plan: OneOf) -> int:
        """The number of the provider whose turn it is, among those that can be asked."""
        return self.provider_round[plan.service] % len(plan.able)

    def unregistered(self, service: str) -> None:
        """A session of this server provides a service no longer."""
        if service not in self._state.services:
            self.provider_round.pop(service, None)

    # Askers.

    def asked(
        self, origin: Origin, reply_id: object, to: str | list[str] | None, now: float | None = None
    ) -> OpenRequest | None:
        """The open request that the sender of a reply was given.

        :param reply_id: what the reply says in ``in-reply-to``.
        :param to: the addressees of the reply, if it has some: the asker is among them, or else there is no request.
        :param now: what the clock of the requests said, if that is not long ago.
        """
        addresses = [to] if isinstance(to, str) else to
        if origin.link is not None:
            ask = self._requests.went_over(origin.link, reply_id, addresses)
        else:
            ask = self._requests.given(origin.sender, reply_id, now)
            if ask is not None and ask.asked.kind is not None and not self._was_given(origin.sender, ask):
                return None
        if ask is None or ask.asker.session not in self._state.sessions:
            return None
        return ask if addresses is None or self._is_for(ask, addresses) else None

    def _was_given(self, session_id: str, ask: OpenRequest) -> bool:
        """Whether a session was given a request that several were."""
        asked, asker = ask.asked, ask.asker.session
        assert asked.kind is not None
        if not self._receivers.had_joined(session_id, asked.joins):
            return False
        if asked.addresses is None:
            group = self._group(session_id, asker)
            return group is not None and group.wants_broadcast(asked.kind)
        return not asked.addresses.isdisjoint(self._addresses(session_id)) and self.accepts(
            session_id, asker, asked.kind
        )

    def _is_for(self, ask: OpenRequest, to: list[str]) -> bool:
        """Whether a reply is addressed to the asker."""
        addresses = {ask.routing_id} if ask.asker.is_remote else {ask.routing_id, *self._addresses(ask.asker.session)}
        return not addresses.isdisjoint(to)

    def _addresses(self, session_id: str) -> set[str]:
        session = self._state.sessions[session_id]
        return {session.routing_id, *session.routing_ids}

    # Addressees.

    def _addressees(self, origin: Origin, to: str | list[str], kind: Kind) -> OneByOne:
        recipients: dict[str, None] = {}
        known: list[str] = []
        everywhere = False
        for routing_id in dict.fromkeys([to] if isinstance(to, str) else to):
            sessions = self._state.sessions_at(routing_id)
            if sessions:
                known.append(routing_id)
                recipients.update(dict.fromkeys(sorted(sessions)))
            elif routing_id != self._server_id:
                everywhere = True
        local: list[str] = []
        links: dict[str, Link] = {}
        for recipient in recipients:
            link = self._links.towards(self._state.sessions[recipient])
            if link is None:
                local.append(recipient)
            else:
                links[link.session_id] = link
        servers = None
        if everywhere and self._links:
            servers = self._links.flood_targets(kind, origin.route, is_addressed=True)
        return OneByOne(kind, to, frozenset(known), tuple(local), links, servers)

    def accepts(self, session_id: str, sender: str, kind: Kind) -> bool:
        """Whether a session wants such objects of that sender, if they are for it alone."""
        group = self._group(session_id, sender)
        return self._exchanges.accepts(session_id, kind.event) if group is None else group.wants_addressed(kind)

    def _group(self, session_id: str, sender: str) -> Group | None:
        group = self._receivers.group_of(session_id)
        return None if group is None or (session_id == sender and group.no_echo) else group
