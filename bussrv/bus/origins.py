"""Origins: where the objects of each session come from, found once for all of them."""

from __future__ import annotations

from bussrv.bus.routing.batch import Source
from bussrv.bus.routing.recipients import Origin
from bussrv.policy.permissions.access import Access
from bussrv.registry.changes.registry import Registry
from bussrv.wire.objects import encode_json


class Origins:
    """The sources of the sessions that have sent something.

    :ivar known: those that were found, by session id.
    """

    def __init__(self, registry: Registry, access: Access, server_id: str) -> None:
        self._registry = registry
        self._access = access
        self._server_id = server_id
        self.known: dict[str, Source] = {}

    def of(self, session_id: str) -> Source:
        """The source of all objects that an open session sends, until :meth:`forget`."""
        source = self.known.get(session_id)
        if source is None:
            session = self._registry.state.sessions[session_id]
            route = [session.routing_id, self._server_id]
            origin = Origin(session_id, route, permissions=self._access.of(session))
            source = self.known[session_id] = Source(origin, encode_json(route))
        return source

    def forget(self, session_id: str) -> None:
        """A session is closed, or has another routing id or other permissions."""
        self.known.pop(session_id, None)
