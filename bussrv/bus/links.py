"""The links to other servers: what each is told of the sessions that this server can reach, and what goes over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.delivery import Delivery, Fanout, Group
from bussrv.bus.farsessions import FarSessions
from bussrv.bus.interest import Kind, passes
from bussrv.bus.paths import MAX_HOPS, Far, Paths
from bussrv.bus.tidings import NOTIFY, ended, learn, path_of, subject, tell
from bussrv.errors import Refused
from bussrv.interfaces import ILinks, IRegistryObserver, ISessionLink
from bussrv.journal.record import Stamped
from bussrv.registry.registry import Registry
from bussrv.registry.state import SERVER_ROLE, Session
from bussrv.settings import Settings
from bussrv.values import RESERVED_PREFIX, Interest, ModeInterest
from bussrv.wire import objects as wire

log = Logger()


class Link(Struct, eq=False):
    """A link that is up.

    :ivar session_id: the session that the other server is.
    :ivar server_id: its routing id.
    :ivar dialed: whether this server dialed the other one.
    :ivar group: a group of that session alone.
    :ivar told: what it was told of each session, by routing id.
    """

    session_id: str
    server_id: str
    peer: str
    dialed: bool
    group: Group
    notify: str
    told: dict[str, Far] = {}
    is_full: bool = False


@implementer(ILinks, IRegistryObserver)
class Links:
    """Every link that is up.

    :param reach: finds the way out to a session.
    :param reactor: calls again when the journal could not be written.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        server_id: str,
        new_id: Callable[[], str],
        fanout: Fanout,
        reach: Callable[[str], ISessionLink | None],
        counters: Counter[str],
        reactor: Any,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._server_id = server_id
        self._new_id = new_id
        self._fanout = fanout
        self._reach = reach
        self._counters = counters
        self._links: dict[str, Link] = {}
        self._servers: frozenset[str] = frozenset()
        self._paths = Paths()
        self._far = FarSessions(registry, self._paths, reactor)
        self._own_ids: dict[str, str] = {}
        self._waiting: dict[str, list[Deferred[None]]] = {}

    def __len__(self) -> int:
        return len(self._links)

    def get(self, session_id: str) -> Link | None:
        """The link to the server that is that session."""
        return self._links.get(session_id)

    # Links come and go.

    async def admit(self, server_id: str, dialed: bool) -> None:
        """Make the routing id of a server that wants to link free for it; see :class:`ILinks`."""
        older = self._to_server(server_id)
        if older is not None and older.dialed != dialed and older.dialed == (self._server_id < server_id):
            raise Refused("duplicate-link", f"there is a link to {server_id} already")
        await self._far.bar(server_id)
        for session_id in sorted(self._registry.state.sessions_at(server_id)):
            way = self._reach(session_id)
            if way is not None:
                way.close("replaced")

    def _to_server(self, server_id: str) -> Link | None:
        return next((link for link in self._links.values() if link.server_id == server_id), None)

    def up(self, session_id: str, way: ISessionLink, interest: Interest, *, tells_all: bool, dialed: bool) -> None:
        """A link stands: tell the server at its other end of every session that can be reached from here."""
        session = self._registry.state.sessions[session_id]
        group = Group(way.encoding_for(None), interest, session.vocabulary)
        group.links[session_id] = way
        notify = NOTIFY[session.vocabulary == "rules"]
        link = Link(session_id, session.routing_id, session.peer, dialed, group, notify)
        self._links[session_id] = link
        self._links_changed()
        server = Far(
            routing_id=link.server_id, path=(link.server_id,), is_member=True, role=SERVER_ROLE, tells_all=tells_all
        )
        self._paths.hear(session_id, server)
        log.info("link to {server} at {peer} is up", server=link.server_id, peer=link.peer)
        own = (each.routing_id for each in self._registry.state.sessions.values() if each.home is None)
        self._say(link, [said for routing_id in (*own, *self._paths) for said in self._news(link, routing_id)])
        self._tell_all(link.server_id)
        self._announce_neighbors()

    def down(self, session_id: str, reason: str) -> None:
        """A link is lost, and every session that was reached over it alone."""
        link = self._links.pop(session_id, None)
        if link is None:
            return
        self._links_changed()
        self._fanout.flush_group(link.group)
        log.info("link to {server} at {peer} is down: {why}", server=link.server_id, peer=link.peer, why=reason)
        for routing_id in self._paths.drop(session_id):
            self._changed(routing_id, "link-lost")
        self._far.unbar(link.server_id)
        self._announce_neighbors()
        for waiting in self._waiting.pop(link.server_id, ()):
            waiting.callback(None)

    def _links_changed(self) -> None:
        self._servers = frozenset(link.server_id for link in self._links.values())

    def lost(self, server_id: str) -> Deferred[None]:
        """:returns: fires when there is no link to that server."""
        lost: Deferred[None] = Deferred()
        if self._to_server(server_id) is None:
            lost.callback(None)
        else:
            self._waiting.setdefault(server_id, []).append(lost)
        return lost

    def neighbors(self) -> list[str]:
        """The routing ids of the servers that this one is linked with."""
        return sorted(link.server_id for link in self._links.values())

    def unbar(self, server_id: str) -> None:
        """The link did not come about."""
        self._far.unbar(server_id)

    # What other servers tell.

    def hear(self, session_id: str, fields: dict[str, Any], route: list[str]) -> None:
        """A server told something of a session that it can reach.

        :raises Refused: ``bad-attribute``, ``bad-service-name`` or ``link-full``.
        """
        link = self._links[session_id]
        routing_id = subject(fields, route, link.server_id)
        if routing_id in (self._server_id, link.server_id):
            return
        over = ended(fields)
        if over is not None:
            if self._paths.finish(routing_id, over):
                self._changed(routing_id, "unreachable", over)
            return
        before = self._paths.heard(session_id, routing_id)
        path = path_of(fields, route, routing_id, link.server_id)
        far = learn(before, fields, routing_id, path, self._settings.max_routing_ids)
        if far is None or self._server_id in far.path or len(far.path) > MAX_HOPS or self._paths.is_over(far):
            changed = self._paths.forget(session_id, routing_id)
        else:
            self._check_room(link, far.size() - (before.size() if before is not None else 0))
            changed = self._paths.hear(session_id, far)
        if changed:
            self._changed(routing_id, "unreachable")

    def _check_room(self, link: Link, more: int) -> None:
        most = self._settings.max_linked
        # The other server itself does not count.
        if self._paths.size(link.session_id) - 1 + more <= most:
            return
        if not link.is_full:
            link.is_full = True
            about = self._registry.state.sessions[link.session_id].about()
            self._registry.note(ev.LimitReached(limit="max-linked", value=most, reason="link-full", **about))
        raise Refused("link-full", f"more than {most} sessions and services are behind the link to {link.server_id}")

    def settled(self) -> Deferred[None] | None:
        """When everything that was told so far is in the registry; ``None``: it is."""
        return self._far.settled()

    def _changed(self, routing_id: str, reason: str, over: str | None = None) -> None:
        self._far.update(routing_id, reason)
        self._tell_all(routing_id, over)

    # What other servers are told.

    def registry_changed(self, stamped: Stamped) -> None:
        """Tell the other servers of the sessions of this one; see :class:`IRegistryObserver`."""
        event = stamped.event
        session = self._registry.state.sessions.get(event.session or "")
        if isinstance(event, ev.SessionClosed):
            self.down(event.session or "", event.reason or "")
            self._give_up(self._own_ids.pop(event.session or "", None), event.session)
        elif session is not None and session.home is None and not session.is_link:
            former = self._own_ids.get(session.id)
            self._own_ids[session.id] = session.routing_id
            if former != session.routing_id:
                self._give_up(former)
            if isinstance(event, (ev.SubscriptionAdded, ev.ServiceRegistered, ev.ServiceUnregistered)):
                self._tell_all(session.routing_id)

    def _give_up(self, routing_id: str | None, over: str | None = None) -> None:
        """A session of this server has that routing id no longer.

        :param over: the id of the session, if it has ended.
        """
        if routing_id is not None:
            self._far.freed(routing_id)
            self._tell_all(routing_id, over)

    def _tell_all(self, routing_id: str, over: str | None = None) -> None:
        for link in self._links.values():
            self._say(link, self._news(link, routing_id, over))

    def _news(self, link: Link, routing_id: str, over: str | None = None) -> list[dict[str, Any]]:
        """What a server has to be told of a session, since it was last told of it.

        :param over: the id of the session that has ended.
        """
        before, now = link.told.get(routing_id), self._for(link, routing_id)
        if before == now:
            return []
        if now is None:
            del link.told[routing_id]
        else:
            link.told[routing_id] = now
        is_over = over is not None and before is not None and before.session == over
        return list(tell(before, now, link.notify, is_over=is_over))

    def _for(self, link: Link, routing_id: str) -> Far | None:
        """What a server is told of a session: nothing, where it is on the way there itself."""
        far = self._own(routing_id)
        if far is None:
            best = self._paths.best(routing_id)
            if best is None or self._paths.link_to(routing_id) == link.session_id:
                return None
            far = replace(best, path=(*best.path, self._server_id))
        return None if link.server_id in far.path or len(far.path) >= MAX_HOPS else far

    def _own(self, routing_id: str) -> Far | None:
        state = self._registry.state
        session = state.sessions.get(state.owner(routing_id) or "")
        if session is None or session.home is not None or session.is_link:
            return None
        is_member = state.subscription(session.id, None) is not None and self._settings.announce != "off"
        services = frozenset(name for name in state.provided_by(session.id) if not name.startswith(RESERVED_PREFIX))
        if not is_member and not services:
            return None
        return Far(
            routing_id=routing_id,
            path=(self._server_id,),
            is_member=is_member,
            routing_ids=session.routing_ids,
            protocol=session.protocol,
            session=session.id,
            services=services,
        )

    def _announce_neighbors(self) -> None:
        for link in self._links.values():
            fields = {"event": "routing/announcement/neighbors", "neighbors": self.neighbors()}
            self._say(link, [{**fields, "route": [self._server_id]}])

    def _say(self, link: Link, events: Iterable[dict[str, Any]]) -> None:
        interest = link.group.interest
        if isinstance(interest, ModeInterest) and interest.receive == "none":
            return
        frames = [wire.encode({**fields, "id": self._new_id()}) for fields in events]
        self._fanout.send_one(link.group, link.session_id, frames)

    # What goes over which link.

    def flood(self, delivery: Delivery, kind: Kind, route: Iterable[str]) -> bool:
        """Give an object to every server that may not have it yet.

        :returns: whether somebody whom this server knows nothing of, or does not know the interest of, may take it.
        """
        may_take = False
        for link in self._links.values():
            if self.give(link, delivery, kind, route):
                may_take = may_take or self._paths.may_take_requests(link.session_id)
        return may_take

    def taking(self, kind: Kind, route: Iterable[str]) -> list[Group]:
        """The groups of the servers that :meth:`flood` gives objects of that kind and route."""
        return [link.group for link in self._links.values() if _takes(link, kind, route)]

    def passed(self, route: Sequence[str]) -> frozenset[str]:
        """Which of the servers that this one is linked with are in a route: on these :meth:`taking` depends."""
        return self._servers.intersection(route)

    def give(self, link: Link, delivery: Delivery, kind: Kind, route: Iterable[str]) -> bool:
        """Give an object to one server, unless it passed that already. :returns: whether it was given."""
        if not _takes(link, kind, route):
            return False
        self._fanout.add(link.group, delivery)
        return True

    def towards(self, session: Session) -> Link | None:
        """The link over which a session is reached; ``None`` for a session of this server."""
        if session.is_link:
            return self._links.get(session.id)
        if session.home is None:
            return None
        return self._links.get(self._paths.link_to(session.routing_id) or "")

    def leads_on(self, session: Session, route: Iterable[str]) -> bool:
        """Whether a session of another server is reached without passing a server of ``route`` again."""
        far = self._paths.best(session.routing_id)
        return far is not None and self.towards(session) is not None and not set(far.path) & set(route)

    def provided(self, route: list[str]) -> frozenset[str]:
        """What the session of another server provides that sent an object with that route."""
        return self._paths.services_of(route[0], route[1:])

    def stop(self) -> None:
        """The server stops: nobody is entered any more."""
        self._far.stop()


def _takes(link: Link, kind: Kind, route: Iterable[str]) -> bool:
    interest = link.group.interest
    return link.server_id not in route and interest is not None and passes(interest, kind)
