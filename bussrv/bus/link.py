"""One link to another server that is up."""

from __future__ import annotations

from msgspec import Struct

from bussrv.bus.delivery import Group
from bussrv.bus.paths import RemoteSession


class Link(Struct, eq=False):
    """A link that is up.

    :ivar session_id: the session of the other server.
    :ivar server_id: the routing id of the other server.
    :ivar dialed: whether this server dialed the other one.
    :ivar group: a group of that session alone.
    :ivar notify: the event that advertises members to it.
    :ivar tells_all: whether the other server advertises every session that it can reach, and remembers the
        objects that it forwarded. A server that does not can only go by ``route``.
    :ivar told: the sessions as they were advertised to it, by routing id.
    """

    session_id: str
    server_id: str
    peer: str
    dialed: bool
    group: Group
    notify: str
    tells_all: bool = False
    told: dict[str, RemoteSession] = {}
    is_full: bool = False
