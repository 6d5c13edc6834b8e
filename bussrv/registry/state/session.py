"""One client's presence, what it claims about itself, and what it is subscribed to. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType
from zope.interface import Attribute, Interface, implementer

from bussrv.values import Interest

SERVER_ROLE = "server"
"""The role of a linked server."""


class Away(Struct, frozen=True):
    """A durable session without a connection: since when, and when it ends. UTC microseconds."""

    since: int
    until: int


class ISession(Interface):
    """One client's presence, as the registry holds it. Never changes; the registry holds a new one instead."""

    id: str = Attribute("``str``: unique across sessions, restarts and servers.")
    protocol: str = Attribute("``str``: the name of its wire format.")
    routing_id: str = Attribute("``str``: its own address in the network; no other open session has it.")
    routing_ids: tuple[str, ...] = Attribute("``tuple[str, ...]``: further addresses, which sessions may share.")
    peer: str = Attribute("``str``: the address of the other side.")
    opened: int = Attribute("``int``: since when, UTC microseconds.")
    persistent: bool = Attribute("``bool``: whether it outlives a restart of the server.")
    home: str | None = Attribute("``str`` or ``None``: the server it belongs to, when that is another one.")
    actor: str | None = Attribute("``str`` or ``None``: the user that it proved to be.")
    claimed: str | None = Attribute("``str`` or ``None``: the user that it merely says it is.")
    name: str | None = Attribute("``str`` or ``None``: the program it says it is.")
    role: str | None = Attribute("``str`` or ``None``: ``server`` for a linked server.")
    vocabulary: str | None = Attribute("``str`` or ``None``: its words: objects, rules or business.")
    expiry: int | UnsetType = Attribute(
        "``int``: so many microseconds after it lost its connection it ends. ``UNSET``: it is not durable."
    )
    away: Away | UnsetType = Attribute(":class:`Away`: it is durable, and its client is not connected; or ``UNSET``.")


@implementer(ISession)
class Session(Struct, frozen=True, kw_only=True):
    """One client's presence. Times are UTC microseconds.

    :ivar home: of a remote session, its server.
    :ivar actor: the user that it has proved to be.
    :ivar claimed: the user that it merely says it is.
    :ivar expiry: it is durable: so many microseconds after it lost its connection it ends.
    :ivar away: it is durable, and its client is not connected.
    """

    id: str
    protocol: str
    routing_id: str
    peer: str
    opened: int
    persistent: bool = False
    home: str | None = None
    routing_ids: tuple[str, ...] = ()
    actor: str | None = None
    claimed: str | None = None
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None
    expiry: int | UnsetType = UNSET
    away: Away | UnsetType = UNSET

    @property
    def has_leases(self) -> bool:
        """Whether it has no connection, and ends with its leases."""
        return self.persistent and self.expiry is UNSET

    @property
    def is_durable(self) -> bool:
        """Whether it outlives its connections."""
        return self.expiry is not UNSET

    @property
    def is_away(self) -> bool:
        """Whether it is durable, and its client is not connected."""
        return self.away is not UNSET

    @property
    def is_link(self) -> bool:
        """Whether it is the link to another server."""
        return self.role == SERVER_ROLE and self.home is None

    def about(self) -> dict[str, Any]:
        """The fields that every event about it has in common."""
        return {
            "protocol": self.protocol,
            "session": self.id,
            "routing_id": self.routing_id,
            "actor": self.actor,
            "claimed": self.claimed,
            "peer": self.peer,
        }


class Subscription(Struct, frozen=True, kw_only=True):
    """A subscription to ``service``, or (``None``) an ``interest`` in objects. Times are UTC microseconds."""

    session: str
    service: str | None
    interest: Interest | None
    added: int
    renewed: int
    options: dict[str, Any] | None = None


class Claims(Struct, frozen=True, kw_only=True):
    """The claims that a session makes about itself when it joins. Nobody has checked them.

    :ivar routing_id: the routing id that it asks for; ``None``: it keeps its own.
    :ivar routing_ids: the further routing ids that it asks for.
    :ivar claimed: the user.
    """

    session_id: str
    routing_id: str | None = None
    routing_ids: tuple[str, ...] = ()
    claimed: str | None = None
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None
