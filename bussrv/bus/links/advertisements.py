"""Advertising: this server tells linked servers which sessions can be reached from here.

Each link remembers what was advertised over it (``Link.advertised``). After a change, only the difference is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from bussrv.bus.groups.fanout import Fanout
from bussrv.bus.interest.vocabulary import NEIGHBORS
from bussrv.bus.links.advertisement_fields import events_between
from bussrv.bus.links.jobs import Jobs
from bussrv.bus.links.link import Link
from bussrv.bus.links.paths import MAX_HOPS, Paths, RemoteSession
from bussrv.bus.shared import Shared
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.registry.state.session import SERVER_ROLE
from bussrv.values import ModeInterest
from bussrv.wire import objects as wire


class Advertisements:
    """Advertises sessions to every linked server: all of them when a link comes up, later each one that changes.

    :param links: the links that are up, by session id.
    :param jobs: advertise all sessions, a few in each slice.
    :param may_answer: whether a session of this server may answer requests for services that nobody registered.
    :param answered: the services that a session of this server that is no member answers requests for.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        fanout: Fanout,
        paths: Paths,
        links: Mapping[str, Link],
        jobs: Jobs,
        may_answer: Callable[[str], bool],
        answered: Callable[[str], frozenset[str]],
    ) -> None:
        self._registry = shared.registry
        self._settings = shared.settings
        self._server_id = shared.server_id
        self._new_id = shared.new_id
        self._fanout = fanout
        self._paths = paths
        self._links = links
        self._jobs = jobs
        self._may_answer = may_answer
        self._answered = answered

    def begin(self, link: Link) -> None:
        """A link is up: advertise every session to the other server, then the new neighbour to all linked servers."""
        self._jobs.add(self._advertise_all(link))

    def _advertise_all(self, link: Link) -> Iterator[None]:
        own = (each.routing_id for each in self._registry.state.sessions.values() if each.home is None)
        for routing_id in [*own, *self._paths]:
            if link.session_id not in self._links:
                return
            self._send(link, self._changes(link, routing_id))
            yield
        self.announce_neighbors()

    def advertise(self, routing_id: str, ended_session: str | None = None) -> None:
        """Advertise a session to every linked server, if it has changed.

        :param routing_id: its routing id.
        :param ended_session: the id of the session that had this routing id, if it has ended. ``None``: it may still be
            reached over another link.
        """
        for link in self._links.values():
            self._send(link, self._changes(link, routing_id, ended_session))

    def _changes(self, link: Link, routing_id: str, ended_session: str | None = None) -> list[dict[str, Any]]:
        """The advertisements of what changed in a session since it was last advertised over a link.

        :param ended_session: see :meth:`advertise`.
        """
        before, now = link.advertised.get(routing_id), self._as_seen_over(link, routing_id)
        if before == now:
            return []
        if now is None:
            del link.advertised[routing_id]
        else:
            link.advertised[routing_id] = now
        has_ended = ended_session is not None and before is not None and before.session == ended_session
        events = events_between(before, now, link.notify, has_ended=has_ended, takes_names=link.takes_names)
        return list(events)

    def _as_seen_over(self, link: Link, routing_id: str) -> RemoteSession | None:
        """A session as the server at the other end can reach it through this one.

        ``None`` if it cannot: the session is not known here, the server may not know of it, that server is on the path
        to it, or the path is too long.
        """
        remote = self._own_session(routing_id)
        if remote is None:
            best = self._paths.best(routing_id)
            if best is None or self._paths.link_to(routing_id) == link.session_id:
                return None
            remote = replace(best, path=(*best.path, self._server_id))
        if not link.tells_all:
            # Nothing that other servers do depends on it, and they need not be told when it changes.
            remote = replace(remote, may_answer=True)
        is_reached = link.server_id not in remote.path and len(remote.path) < MAX_HOPS
        return visible(remote, link.group.permissions) if is_reached else None

    def _own_session(self, routing_id: str) -> RemoteSession | None:
        """A session of this server; ``None`` if it is not advertised: no member, and no provider of a service."""
        state = self._registry.state
        session = state.sessions.get(state.owner(routing_id) or "")
        if session is None or session.home is not None or session.is_link:
            return None
        is_member = state.subscription(session.id, None) is not None and self._settings.announce != "off"
        # Each server has services of its own, under the same names.
        services = frozenset(() if session.protocol == OWN_PROTOCOL else state.provided_by(session.id))
        if not is_member and not services:
            return None
        return RemoteSession(
            routing_id=routing_id,
            path=(self._server_id,),
            is_member=is_member,
            routing_ids=session.routing_ids,
            protocol=session.protocol,
            session=session.id,
            may_answer=is_member and self._may_answer(session.id),
            services=services,
            answered=self._answered(session.id),
        )

    def announce_neighbors(self) -> None:
        """Send every linked server the list of all linked servers."""
        neighbors = sorted(link.server_id for link in self._links.values())
        for link in self._links.values():
            fields = {"event": NEIGHBORS, "neighbors": neighbors}
            self._send(link, [{**fields, "route": [self._server_id]}])

    def _send(self, link: Link, events: Iterable[dict[str, Any]]) -> None:
        """Send events over a link, unless the other server wants none."""
        interest = link.group.interest
        if isinstance(interest, ModeInterest) and interest.receive == "none":
            return
        frames = [wire.encode({**fields, "id": self._new_id()}) for fields in events]
        self._fanout.send_one(link.group, link.session_id, frames)


def visible(remote: RemoteSession, permissions: Permissions) -> RemoteSession | None:
    """The part of a session that a linked server with these permissions may know of; ``None``: nothing.

    Servers are always told of each other: they need that to forward every object once.
    """
    if permissions is EVERYTHING or remote.role == SERVER_ROLE:
        return remote
    seen = replace(
        remote,
        is_member=remote.is_member and permissions.sees_session(remote.routing_id),
        routing_ids=tuple(each for each in remote.routing_ids if permissions.sees_session(each)),
        services=frozenset(name for name in remote.services if permissions.sees_service(name)),
    )
    return seen if seen.is_member or seen.services else None
