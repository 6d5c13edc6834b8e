"""Advertising: linked servers are told of the sessions that can be reached from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from bussrv.bus.advertisement_fields import tell
from bussrv.bus.delivery import Fanout
from bussrv.bus.jobs import Jobs
from bussrv.bus.link import Link
from bussrv.bus.paths import MAX_HOPS, Paths, RemoteSession
from bussrv.registry.registry import Registry
from bussrv.settings import Settings
from bussrv.values import RESERVED_PREFIX, ModeInterest
from bussrv.wire import objects as wire


class Advertisements:
    """Advertises sessions to every linked server, when they come and whenever they change.

    :param links: the links that are up, by session id.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        server_id: str,
        new_id: Callable[[], str],
        fanout: Fanout,
        paths: Paths,
        links: Mapping[str, Link],
        jobs: Jobs,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._server_id = server_id
        self._new_id = new_id
        self._fanout = fanout
        self._paths = paths
        self._links = links
        self._jobs = jobs

    def begin(self, link: Link) -> None:
        """A link is up: advertise every session to the other server, and the new neighbour to all servers."""
        self._jobs.add(self._tell_everything(link))

    def _tell_everything(self, link: Link) -> Iterator[None]:
        own = (each.routing_id for each in self._registry.state.sessions.values() if each.home is None)
        for routing_id in [*own, *self._paths]:
            if link.session_id not in self._links:
                return
            self._say(link, self._advertisements(link, routing_id))
            yield
        self.announce_neighbors()

    def tell_all(self, routing_id: str, over: str | None = None) -> None:
        """Advertise a session again, as it may have changed.

        :param over: the id of the session that has ended.
        """
        for link in self._links.values():
            self._say(link, self._advertisements(link, routing_id, over))

    def _advertisements(self, link: Link, routing_id: str, over: str | None = None) -> list[dict[str, Any]]:
        """The advertisements for changes of a session since the last ones.

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

    def _for(self, link: Link, routing_id: str) -> RemoteSession | None:
        """A session as one server is told of it; ``None`` for a server that is on the way to it."""
        remote = self._own(routing_id)
        if remote is None:
            best = self._paths.best(routing_id)
            if best is None or self._paths.link_to(routing_id) == link.session_id:
                return None
            remote = replace(best, path=(*best.path, self._server_id))
        return None if link.server_id in remote.path or len(remote.path) >= MAX_HOPS else remote

    def _own(self, routing_id: str) -> RemoteSession | None:
        state = self._registry.state
        session = state.sessions.get(state.owner(routing_id) or "")
        if session is None or session.home is not None or session.is_link:
            return None
        is_member = state.subscription(session.id, None) is not None and self._settings.announce != "off"
        services = frozenset(name for name in state.provided_by(session.id) if not name.startswith(RESERVED_PREFIX))
        if not is_member and not services:
            return None
        return RemoteSession(
            routing_id=routing_id,
            path=(self._server_id,),
            is_member=is_member,
            routing_ids=session.routing_ids,
            protocol=session.protocol,
            session=session.id,
            services=services,
        )

    def announce_neighbors(self) -> None:
        """Tell every linked server the neighbours of this one."""
        neighbors = sorted(link.server_id for link in self._links.values())
        for link in self._links.values():
            fields = {"event": "routing/announcement/neighbors", "neighbors": neighbors}
            self._say(link, [{**fields, "route": [self._server_id]}])

    def _say(self, link: Link, events: Iterable[dict[str, Any]]) -> None:
        interest = link.group.interest
        if isinstance(interest, ModeInterest) and interest.receive == "none":
            return
        frames = [wire.encode({**fields, "id": self._new_id()}) for fields in events]
        self._fanout.send_one(link.group, link.session_id, frames)
