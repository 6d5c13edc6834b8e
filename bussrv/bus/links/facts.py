"""Facts of a link to another server, for other parts of the server."""

from __future__ import annotations

from msgspec import Struct


class LinkFacts(Struct, eq=False):
    """A link that is up.

    :ivar session_id: the session of the other server, in the registry.
    :ivar server_id: the routing id of the other server.
    :ivar peer: the address of the other server.
    :ivar dialed: whether this server dialed the other one.
    """

    session_id: str
    server_id: str
    peer: str
    dialed: bool
