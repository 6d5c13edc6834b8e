"""The links to other servers: their coming and going, advertisements, and the objects that go over them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from twisted.internet.defer import Deferred, DeferredLock, succeed
from twisted.logger import Logger, LogLevel
from zope.interface import implementer

from bussrv import events as ev
from bussrv.addresses import host_of, is_same_host
from bussrv.bus.groups.fanout import Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.total import TotalInterest
from bussrv.bus.interest.vocabulary import NET
from bussrv.bus.interfaces import ILinks, ISessionLink
from bussrv.bus.links.advertisement_fields import DISCONNECT, NOTIFY, UNREGISTER, ended, learn, path_of, subject
from bussrv.bus.links.advertisements import Advertisements
from bussrv.bus.links.interests import LinkInterests
from bussrv.bus.links.jobs import Jobs
from bussrv.bus.links.link import Link
from bussrv.bus.links.lost_links import LostLink, LostLinks
from bussrv.bus.links.marks import Flood, Given, directed, flood
from bussrv.bus.links.paths import MAX_HOPS, Paths, RemoteSession
from bussrv.bus.links.remote_sessions import RemoteSessions
from bussrv.bus.links.rights import Deny, LinkRights
from bussrv.bus.requests.answerers import Answerers
from bussrv.bus.requests.exchanges import Exchanges
from bussrv.bus.requests.gone_providers import GoneProviders
from bussrv.bus.shared import Shared
from bussrv.counts.throttle import LOG_RATE, Throttle
from bussrv.errors import OverLimit, Refused
from bussrv.journal.record import Stamped
from bussrv.policy.permissions.permissions import Permissions
from bussrv.registry.changes.rules import open_session
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.state.session import SERVER_ROLE, Session
from bussrv.values import Interest
from bussrv.wire.forwarded import with_marks
from bussrv.wire.objects import max_relayed

LINKS_LOG_BURST = 20
"""How often links to servers of one address may come and go before the log leaves some of it out."""

REPLACED = "replaced"
"""The reason of the end of a link that another one to the same server replaces."""

log = Logger()


@implementer(ILinks, IRegistryObserver)
class Links:
    """Every link that is up.

    :param reach: finds the link to a session's client.
    :param access: the permissions of each link.
    :param deny: is called with an action that a link may not do.
    :param answerers: say which sessions of this server may answer requests for services that nobody registered.
    :param exchanges: says for which services a session answers requests that is no member.
    :param gone: tells askers of providers that are gone.
    :param lost: remembers the links that are lost.
    :param total: what all sessions of this server want.
    :ivar paths: the sessions that other servers advertised.
    :ivar interests: what linked servers want of the objects that are for everybody.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        fanout: Fanout,
        reach: Callable[[str], ISessionLink | None],
        deny: Deny,
        answerers: Answerers,
        exchanges: Exchanges,
        gone: GoneProviders,
        lost: LostLinks,
        total: TotalInterest,
    ) -> None:
        self._registry = registry = shared.registry
        self._settings = settings = shared.settings
        self._server_id = shared.server_id
        self._fanout = fanout
        self._generation = shared.generation
        self._reach = reach
        self._access = shared.access
        self._links: dict[str, Link] = {}
        self._gone = gone
        self._lost = lost
        self._utc = shared.clock.utc
        self._is_stopping = False
        self._servers: frozenset[str] = frozenset()
        self.all_tell_all = True
        self._max_metadata = max_relayed(settings.max_metadata)
        self.paths = paths = Paths(self._told)
        self._remote = RemoteSessions(registry, paths, shared.slices, shared.reactor)
        self._locks: WeakValueDictionary[str, DeferredLock] = WeakValueDictionary()
        self._complaints = Throttle(LOG_RATE, LINKS_LOG_BURST, shared.reactor.seconds)
        self._jobs = Jobs(shared.slices, self._complaints)
        self._rights = LinkRights(paths, deny, self._changed, self._jobs)
        self._advertisements = Advertisements(
            shared,
            fanout=fanout,
            paths=paths,
            links=self._links,
            jobs=self._jobs,
            may_answer=answerers.may_answer,
            answered=exchanges.answered_by,
        )
        self.interests = LinkInterests(
            shared, fanout=fanout, total=total, links=self._links, complaints=self._complaints
        )
        answerers.observers.append(self.may_answer_now)
        self._own_ids: dict[str, str] = {}
        self._waiting: dict[str, list[Deferred[None]]] = {}
        self.token: Callable[[], str] | None = None

    def __len__(self) -> int:
        return len(self._links)

    def get(self, session_id: str) -> Link | None:
        """The link to the server that is that session."""
        return self._links.get(session_id)

    # Links come and go.

    @asynccontextmanager
    async def admitted(self, session_id: str, server_id: str, *, dialed: bool) -> AsyncIterator[None]:
        """Make the routing id of a server that wants to link free for it; see :class:`ILinks`."""
        # Others to the same server wait until this link stands or is refused. Otherwise each server may refuse the link
        # that the other one keeps, because its own is not durable yet.
        async with self._locks.setdefault(server_id, DeferredLock()):
            older = self._to_server(server_id)
            self._check_link(session_id, server_id, older, dialed)
            await self._remote.reserve_id(server_id)
            older = self._to_server(server_id)
            way = self._reach(older.session_id) if older is not None else None
            if way is not None:
                way.close(REPLACED)
            try:
                yield
            except Refused:
                self._remote.release_id(server_id)
                raise

    def _check_link(self, session_id: str, server_id: str, older: Link | None, dialed: bool) -> None:
        """Check that a server may link with this one.

        :param session_id: the session of the connection that the link is to use.
        :param server_id: the routing id that it states.
        :param older: the link to a server of that routing id.
        :param dialed: whether this server dialed it.
        :raises Refused: ``duplicate-link``, ``routing-id-taken``, ``too-many-links`` or ``session-closed``.
        """
        peer = open_session(self._registry.state, session_id).peer
        if older is not None:
            self._may_replace(older, peer, dialed)
        else:
            self._may_take(server_id)
            self._may_be_more(dialed)

    def _may_replace(self, older: Link, peer: str, dialed: bool) -> None:
        """Check that a new link may replace an older one to the same server, which may be dead unnoticed.

        A server that dialed this one has to come from the host of the older link: anybody can state its routing id.
        """
        is_kept = older.dialed != dialed and older.dialed == (self._server_id < older.server_id)
        if is_kept or not (dialed or is_same_host(peer, older.peer)):
            raise Refused("duplicate-link", f"there is a link to {older.server_id} already")

    def _may_take(self, server_id: str) -> None:
        """Check that no session has that routing id, except a server that is known over another link."""
        session = self._registry.state.sessions.get(self._registry.state.owner(server_id) or "")
        remote = self.paths.best(server_id)
        is_server = session.home is not None and session.role == SERVER_ROLE if session is not None else True
        if not is_server or (session is None and remote is not None and remote.role != SERVER_ROLE):
            raise Refused("routing-id-taken", f"a session has the routing id {server_id}")

    def _may_be_more(self, dialed: bool) -> None:
        most = self._settings.max_links
        if not dialed and self._remote.barred() >= most:
            raise OverLimit("too-many-links", f"there are at most {most} links", "max-links", most)

    def _to_server(self, server_id: str) -> Link | None:
        return next((link for link in self._links.values() if link.server_id == server_id), None)

    def up(
        self,
        session_id: str,
        link: ISessionLink,
        interest: Interest,
        *,
        tells_all: bool,
        dialed: bool,
        asks_interest: bool = False,
        takes_names: bool = False,
        is_logged: bool = True,
    ) -> None:
        """A link stands: advertise every session that can be reached from here.

        :param is_logged: whether the log says so.
        """
        session = self._registry.state.sessions[session_id]
        group = Group(link.encoding_for(None), interest, session.vocabulary, self._access.of(session))
        group.links[session_id] = link
        notify = NOTIFY[session.vocabulary == "rules"]
        made = self._links[session_id] = Link(
            session_id,
            session.routing_id,
            session.peer,
            dialed,
            group=group,
            notify=notify,
            tells_all=tells_all,
            takes_names=takes_names,
            asks_interest=asks_interest,
        )
        self._lost.forget(made.server_id)
        self._links_changed()
        server = RemoteSession(
            routing_id=made.server_id, path=(made.server_id,), is_member=True, role=SERVER_ROLE, tells_all=tells_all
        )
        self.paths.receive_advertisement(session_id, server)
        if is_logged:
            self._note(LogLevel.info, made, "link.up", "up")
        self.interests.begin(made)
        self._advertisements.begin(made)
        self._advertisements.advertise(made.server_id)

    def receive_interest(self, session_id: str, fields: dict[str, Any]) -> None:
        """A linked server says what it wants; see :class:`ILinks`."""
        self.interests.receive(session_id, fields)

    def permissions_changed(self, session_id: str, permissions: Permissions) -> None:
        """A link has these permissions from now on. It is sent what it was given before."""
        link = self._links.get(session_id)
        if link is not None and link.group.permissions is not permissions:
            self._fanout.flush_group(link.group)
            group = link.group
            link.group = Group(group.encoding, group.interest, group.vocabulary, permissions)
            link.group.links = group.links
            self._generation.end()
            if (way := self._reach(session_id)) is not None:
                self._rights.rights_changed(link, way)
            self.interests.tell_all(link)
            self._advertisements.begin(link)

    def _note(self, level: Any, link: Link, event: str, what: str) -> None:
        """Log that a link came or went, unless the same server does so too often."""
        suppressed = self._complaints.admit(host_of(link.peer))
        if suppressed is not None:
            log.emit(
                level,
                "link to {server} at {peer} is {what}, session {session} ({suppressed} more not logged)",
                event=event,
                server=link.server_id,
                session=link.session_id,
                peer=link.peer,
                what=what,
                suppressed=suppressed,
            )

    def down(self, session_id: str, reason: str, time: int) -> None:
        """A link is lost, and every session that was reached over it alone.

        Who else is told: see :mod:`bussrv.bus.links`. The journal has a :class:`bussrv.events.LinkDown` of it already.

        :param time: UTC microseconds.
        """
        link = self._links.pop(session_id, None)
        if link is None:
            return
        self._links_changed()
        self.interests.end(link)
        self._fanout.flush_group(link.group)
        is_missed = not (self._is_stopping or link.is_released)
        if link.is_released and not self._is_stopping:
            self._note_forgotten(link.server_id)
        if is_missed:
            self._lost.add(link, reason, time, max(0, self.paths.count_over(session_id) - 1))
        level = LogLevel.warn if is_missed and reason != REPLACED else LogLevel.info
        self._note(level, link, "link.down", f"down: {reason}")
        # The server itself at once: its routing id is free now.
        self._forget(session_id, link.server_id)
        self._remote.release_id(link.server_id)
        self._jobs.add(self._forget_all(session_id))
        self._advertisements.announce_neighbors()
        for waiting in self._waiting.pop(link.server_id, ()):
            waiting.callback(None)

    def _forget_all(self, session_id: str) -> Iterator[None]:
        for routing_id in self.paths.advertised_over(session_id):
            self._forget(session_id, routing_id)
            yield
        self.paths.drop(session_id)

    def _forget(self, session_id: str, routing_id: str) -> None:
        if self.paths.forget(session_id, routing_id):
            self._changed(routing_id, "link-lost")
        self._look_for(routing_id, "link-lost")

    def _look_for(self, server_id: str, reason: str) -> None:
        """Miss a server that is expected, and has left the net of an uplink, until it is back there."""
        if server_id not in self._settings.expect_link:
            return
        nets = (link for link in self._links.values() if link.server_id.startswith(NET))
        if any(self._is_told(link, server_id) for link in nets):
            self._lost.joined_net(server_id)
        elif server_id not in self._servers:
            self._lost.left_net(server_id, reason, self._utc())

    def _is_told(self, link: Link, server_id: str) -> bool:
        remote = self.paths.heard(link.session_id, server_id)
        return remote is not None and remote.role == SERVER_ROLE

    def _links_changed(self) -> None:
        self._generation.end()
        self._servers = frozenset(link.server_id for link in self._links.values())
        self.all_tell_all = all(link.tells_all for link in self._links.values())

    def _told(self, routing_id: str) -> None:
        if not self.all_tell_all and routing_id in self._servers:
            self._generation.end()  # Which servers give objects to a route-only one depends on their links.

    def missing(self) -> list[LostLink]:
        """The links that were lost, and those that are expected and were never up."""
        for expected in self._settings.expect_link:
            self._look_for(expected, "unreachable")  # It may be expected since a moment ago.
        return list(self._lost.all(self._servers))

    def forget(self, server_id: str) -> bool:
        """A lost link is not missed any more. :returns: whether there was one."""
        is_known = self._lost.forget(server_id)
        if is_known and not self._is_stopping:
            self._note_forgotten(server_id)
        return is_known

    def _note_forgotten(self, server_id: str) -> None:
        """Say in the journal that a link is not missed, so that an audit does not miss it either."""
        self._registry.note(ev.LinkForgotten(routing_id=server_id))

    def release(self, server_id: str) -> None:
        """Dial that server no more, so its link is not missed."""
        self.forget(server_id)
        link = self._to_server(server_id)
        if link is not None and link.dialed:
            link.is_released = True

    def lost(self, server_id: str) -> Deferred[None]:
        """:returns: fires when there is no link to that server."""
        lost: Deferred[None] = Deferred()
        if self._to_server(server_id) is None:
            lost.callback(None)
        else:
            self._waiting.setdefault(server_id, []).append(lost)
        return lost

    def is_server(self, routing_id: str) -> bool:
        """Whether a known server has that routing id."""
        remote = self.paths.best(routing_id)
        return remote is not None and remote.role == SERVER_ROLE

    def all(self) -> list[Link]:
        """The links that are up."""
        return list(self._links.values())

    def neighbors(self) -> list[str]:
        """The routing ids of the servers that this one is linked with."""
        return sorted(link.server_id for link in self._links.values())

    # Advertisements of other servers.

    def receive_advertisement(
        self, session_id: str, fields: dict[str, Any], route: list[str], *, is_unusable: bool = False
    ) -> None:
        """Take an advertisement of a session that another server can reach.

        :param is_unusable: whether the path that the route says is of no use; see
            :class:`bussrv.bus.routing.route_cache.RouteFacts`.
        :raises Refused: ``bad-attribute``, ``bad-service-name``, ``reserved-name`` or ``link-full``.
        """
        link = self._links[session_id]
        routing_id = subject(fields, route, link.server_id)
        if routing_id in (self._server_id, link.server_id):
            return
        if not self._rights.may_tell(link, routing_id):
            return
        ended_session = ended(fields)
        if ended_session is not None:
            if self.paths.finish(routing_id, ended_session):
                self._changed(routing_id, "unreachable", ended_session)
            self._look_for(routing_id, "unreachable")
            return
        before = self.paths.heard(session_id, routing_id)
        path = path_of(fields, route, routing_id, link.server_id)
        reserved = self._registry.reserved
        told = learn(before, fields, routing_id, path, self._settings.max_routing_ids, reserved)
        remote = None if told is None else self._rights.narrowed(link, before, told)
        if remote is None or is_unusable or len(remote.path) > MAX_HOPS or self.paths.has_ended(remote):
            changed = self.paths.forget(session_id, routing_id)
        else:
            self._check_room(link, remote.size() - (before.size() if before is not None else 0))
            self._check_total(link, routing_id)
            changed = self.paths.receive_advertisement(session_id, remote)
        if changed:
            self._changed(routing_id, "unreachable")
        self._look_for(routing_id, "unreachable")
        if not link.tells_all and before is not None and fields["event"] in (DISCONNECT, UNREGISTER):
            # Other servers say themselves that a provider is gone.
            left = frozenset() if told is None else told.services
            self._gone.gone_behind(session_id, routing_id, before.services - left)

    def _check_room(self, link: Link, more: int) -> None:
        most = self._settings.max_linked
        # The other server itself does not count.
        if self.paths.size(link.session_id) - 1 + more <= most:
            return
        if not link.is_full:
            link.is_full = True
            about = self._registry.state.sessions[link.session_id].about()
            self._registry.note(ev.LimitReached(limit="max-linked", value=most, reason="link-full", **about))
        raise Refused(
            "link-full", f"more than {most} sessions and services were advertised over the link to {link.server_id}"
        )

    def _check_total(self, link: Link, routing_id: str) -> None:
        most = self._settings.max_remote_sessions
        if len(self.paths) < most or self.paths.best(routing_id) is not None:
            return
        about = self._registry.state.sessions[link.session_id].about()
        reached = ev.LimitReached(limit="max-remote-sessions", value=most, reason="too-many-remote-sessions", **about)
        self._registry.note_from_stranger(reached)
        raise Refused("too-many-remote-sessions", f"other servers have told of {most} sessions, which is the most")

    def all_durable(self) -> Deferred[None] | None:
        """Fires when all advertisements so far are in the registry; ``None``: they are."""
        return self._remote.all_durable()

    def room(self) -> Deferred[None] | None:
        """Fires when there is room for further advertisements; ``None``: there is."""
        return self._remote.all_durable() if self._remote.is_crowded() else None

    def _changed(self, routing_id: str, reason: str, ended_session: str | None = None) -> None:
        self._remote.update(routing_id, reason)
        self._advertisements.advertise(routing_id, ended_session)

    # Advertisements of this server.

    def registry_changed(self, stamped: Stamped) -> None:
        """Tell the other servers of the sessions of this one; see :class:`IRegistryObserver`."""
        if (event := stamped.event).service is not None and not self._links and event.session in self._own_ids:
            return  # nobody to tell, and the session is known
        session = self._registry.state.sessions.get(event.session or "")
        if isinstance(event, ev.SessionClosed):
            self.down(event.session or "", event.reason or "", stamped.time)
            self._give_up(self._own_ids.pop(event.session or "", None), event.session)
        elif session is not None and session.home is None and not session.is_link:
            former = self._own_ids.get(session.id)
            self._own_ids[session.id] = session.routing_id
            if former != session.routing_id:
                self._give_up(former)
            if self._links and isinstance(event, (ev.SubscriptionAdded, ev.ServiceRegistered, ev.ServiceUnregistered)):
                self._advertisements.advertise(session.routing_id)

    def may_answer_now(self, session_id: str) -> None:
        """A session of this server may answer requests now; see :mod:`bussrv.bus.requests.answerers`."""
        if self._links:
            self._advertisements.advertise(self._registry.state.sessions[session_id].routing_id)

    def _give_up(self, routing_id: str | None, ended_session: str | None = None) -> None:
        """A session of this server no longer has that routing id.

        :param ended_session: the id of the session, if it has ended.
        """
        if routing_id is not None:
            self._remote.freed(routing_id)
            self._advertisements.advertise(routing_id, ended_session)

    # Objects over links.

    def flood_targets(self, kind: Kind, route: Sequence[str], *, is_addressed: bool = False) -> Flood:
        """The servers that may not have an object of that kind and route yet, and the marks added to the route.

        :param is_addressed: whether it is for a session that any server may have.
        """
        links = self._links.values()
        able = [link for link in links if link.takes(kind, route, is_addressed=is_addressed)]
        return flood(able, links, self.paths, route, self._server_id)

    def send_flood(self, flood: Flood, delivery: Delivery, route: Sequence[str]) -> bool:
        """Give an object to every server that may not have it yet.

        :param flood: says which these are.
        :returns: whether a session may take it that this server does not know, or whose interest it does not know.
        """
        self._give(flood.given, delivery, route)
        reached = [*(given.link for given in flood.given), *flood.left]
        return any(self.paths.may_take_requests(link.session_id) for link in reached)

    def passed(self, route: Sequence[str]) -> frozenset[str]:
        """The part of a route that :meth:`flood_targets` depends on: the servers in it that this one is linked with.

        If one of the linked servers is route-only, the home of the sender counts, too.
        """
        passed = self._servers.intersection(route)
        return passed if self.all_tell_all else passed | {f"home {each}" for each in route[1:2]}

    def send_to(self, links: Iterable[Link], delivery: Delivery, kind: Kind, route: Sequence[str]) -> int:
        """Give an addressed object to some servers, except those that it passed. :returns: how many were given it."""
        able = [link for link in links if link.accepts(kind, route)]
        self._give(directed(able, able), delivery, route)
        return len(able)

    def send_last_hop(self, link: Link, delivery: Delivery, kind: Kind, route: Sequence[str]) -> bool:
        """Give one server an object without an address, which it must not forward. :returns: whether it may have it."""
        others = [each for each in self._links.values() if each.server_id not in route]
        is_able = link.accepts(kind, route)
        self._give(directed([link] if is_able else [], others), delivery, route)
        return is_able

    def _give(self, given: Iterable[Given], delivery: Delivery, route: Sequence[str]) -> None:
        copies: dict[tuple[str, ...], Delivery] = {(): delivery}
        for link, marks in given:
            if marks not in copies:
                metadata = with_marks(delivery.metadata, route, marks, self._max_metadata)
                copies[marks] = Delivery(metadata, delivery.payload)
            self._fanout.add(link.group, copies[marks])

    def towards(self, session: Session) -> Link | None:
        """The link over which a session is reached; ``None`` for a session of this server."""
        if session.is_link:
            return self._links.get(session.id)
        if session.home is None:
            return None
        return self._links.get(self.paths.link_to(session.routing_id) or "")

    def leads_on(self, session: Session, route: Iterable[str]) -> bool:
        """Whether a session of another server is reached without passing a server of ``route`` again."""
        remote = self.paths.best(session.routing_id)
        return remote is not None and self.towards(session) is not None and not set(remote.path) & set(route)

    def answers(self, session: Session, service: str) -> bool:
        """Whether a session of another server takes requests for a service that it provides, as its home says."""
        remote = self.paths.best(session.routing_id) if session.home is not None else None
        return remote is not None and remote.answers(service)

    def is_on_way(self, session: Session, route: Iterable[str]) -> bool:
        """Whether a server of ``route`` is on the way to a session of another server."""
        remote = self.paths.best(session.routing_id)
        return remote is not None and not set(remote.path).isdisjoint(route)

    def provided(self, route: list[str]) -> frozenset[str]:
        """The services of the session of another server that sent an object with that route."""
        return self.paths.services_of(route[0], route[1:])

    def use_token(self, token: Callable[[], str] | None) -> Callable[[], str] | None:
        """Show another token to servers that dial this one; see :class:`ILinks`."""
        before, self.token = self.token, token
        return before

    def stop(self) -> None:
        """The server stops: no further remote session is entered in the registry, and no link is missed."""
        self._is_stopping = True
        self._remote.stop()

    async def finish(self) -> None:
        """Wait until remote sessions that ended have left the registry, too."""
        await (self._jobs.done() or succeed(None))
        await (self._remote.all_durable() or succeed(None))
