"""Admission of links: whether a server with some routing id may link with this one."""

from __future__ import annotations

from weakref import WeakValueDictionary

from twisted.internet.defer import DeferredLock

from bussrv.addresses import is_same_host
from bussrv.bus.links.link import Link
from bussrv.bus.links.paths import Paths
from bussrv.bus.links.remote_sessions import RemoteSessions
from bussrv.errors import OverLimit, Refused
from bussrv.registry.changes.registry import Registry
from bussrv.registry.changes.rules import open_session
from bussrv.registry.state.session import SERVER_ROLE
from bussrv.settings import Settings


class LinkAdmission:
    """The rules for new links."""

    def __init__(
        self, registry: Registry, settings: Settings, server_id: str, paths: Paths, remote: RemoteSessions
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._server_id = server_id
        self._paths = paths
        self._remote = remote
        self._locks: WeakValueDictionary[str, DeferredLock] = WeakValueDictionary()

    def one_at_a_time(self, server_id: str) -> DeferredLock:
        """Held while a link to a server is made: others to the same server wait until it stands or is refused.

        Otherwise each server may refuse the link that the other one keeps, because its own is not durable yet.
        """
        return self._locks.setdefault(server_id, DeferredLock())

    def check(self, session_id: str, server_id: str, older: Link | None, dialed: bool) -> None:
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
        remote = self._paths.best(server_id)
        is_server = session.home is not None and session.role == SERVER_ROLE if session is not None else True
        if not is_server or (session is None and remote is not None and remote.role != SERVER_ROLE):
            raise Refused("routing-id-taken", f"a session has the routing id {server_id}")

    def _may_be_more(self, dialed: bool) -> None:
        most = self._settings.max_links
        if not dialed and self._remote.barred() >= most:
            raise OverLimit("too-many-links", f"there are at most {most} links", "max-links", most)
