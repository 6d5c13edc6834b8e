"""The claims of a session that joins: nobody has checked them."""

from __future__ import annotations

from msgspec import Struct


class Claims(Struct, frozen=True, kw_only=True):
    """The claims that a session makes about itself.

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
