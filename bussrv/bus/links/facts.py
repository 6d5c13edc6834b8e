"""Facts of a link to another server, for other parts of the server."""

from __future__ import annotations

from msgspec import Struct


class LinkFacts(Struct, eq=False):
    """A link that is up.

    :ivar session_id: the session of the other server, in the registry.
    :ivar server_id: the routing id of the other server.
    :ivar peer: the address of the other server.
    :ivar dialed: whether this server dialed the other one.
    :ivar tells_all: whether the other server advertises every session that it can reach, and remembers the
        objects that it forwarded. One that does not is a route-only server: only ``route`` says which servers have an
        object.
    """

    session_id: str
    server_id: str
    peer: str
    dialed: bool
    tells_all: bool = False
