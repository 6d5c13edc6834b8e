"""Origins: where an object comes from, and what all objects of a session have in common."""

from __future__ import annotations

from itertools import count

from msgspec import Struct, field

from bussrv.bus.interest.interests import Kind
from bussrv.policy.permissions.access import Access
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.registry.changes.registry import Registry
from bussrv.wire.forwarded import PLAIN_ENDING
from bussrv.wire.objects import encode_json

_numbers = count(1)


Looks = tuple[str | None, str | None, bool, list[str] | None]
"""Event, type, whether there is a payload, natures: they decide the kind of an object that has no service."""


class Counter(Struct, kw_only=True):
    """Counts objects for :mod:`bussrv.bus.uses`."""

    count: int = 0


class Counted(Struct, frozen=True):
    """Objects to one addressee that are alike: their kind need not be made again, and they have one counter."""

    looks: Looks
    kind: Kind
    counter: Counter


class Origin(Struct, frozen=True):
    """The origin of an object.

    :ivar sender: the session that sent it; empty when a session of another server did.
    :ivar route: its route, this server last.
    :ivar link: the session of the server that forwarded it; ``None`` for objects of this server's sessions.
    :ivar is_marked: whether the route may name servers that have the object but did not forward it to this one.
    :ivar permissions: those of the session that sent or forwarded it.
    :ivar counted: for an addressee, the objects that it was sent last. Neither requests nor publications are among
        them.
    """

    sender: str
    route: list[str]
    link: str | None = None
    is_marked: bool = False
    permissions: Permissions = EVERYTHING
    counted: dict[str, Counted] = field(default_factory=dict)

    @property
    def asker(self) -> str:
        """The session that a reply is given to."""
        return self.link or self.sender


class Source(Struct, frozen=True):
    """The origin of a batch.

    :ivar route: the route of ``origin``, as JSON.
    :ivar cut: how many bytes metadata ends with that make way for that: more than the brace, where each of them
        certainly has a route already.
    :ivar number: no other source has it.
    """

    origin: Origin
    route: bytes
    cut: int = len(PLAIN_ENDING)
    number: int = field(default_factory=lambda: next(_numbers))


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
