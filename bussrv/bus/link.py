"""One link to another server that is up."""

from __future__ import annotations

from msgspec import Struct

from bussrv.bus.delivery import Group
from bussrv.bus.paths import RemoteSession
from bussrv.policy.permissions import Action


class Link(Struct, eq=False):
    """A link that is up.

    :ivar session_id: the session of the other server, in the registry.
    :ivar server_id: the routing id of the other server.
    :ivar dialed: whether this server dialed the other one.
    :ivar peer: the address of the other server.
    :ivar group: a group of that session alone. It has the objects and advertisements that wait to be sent.
    :ivar notify: the event that advertises members to the other server; it depends on the dialect.
    :ivar tells_all: whether the other server advertises every session that it can reach, and remembers the
        objects that it forwarded. One that does not is a route-only server: only ``route`` says which servers have an
        object.
    :ivar denied: the actions and targets that the other server was not allowed: what it may not tell of.
    :ivar advertised: the sessions as they were advertised to the other server, by routing id.
    """

    session_id: str
    server_id: str
    peer: str
    dialed: bool
    group: Group
    notify: str
    tells_all: bool = False
    advertised: dict[str, RemoteSession] = {}
    denied: set[tuple[Action, str]] = set()
    is_full: bool = False
