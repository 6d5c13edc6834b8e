"""Facts of a server that it tells others: the form of its summary."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Status = Literal["ready", "degraded", "not-ready"]


class Rates(Struct, frozen=True):
    """Objects and bytes of all clients in a second; zero without a history."""

    objects_in: float = 0.0
    objects_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0


class LinkSummary(Struct, frozen=True, kw_only=True):
    """A link of a server.

    :ivar server: the routing id of the other server.
    :ivar since: when it came up, or was lost; of a server that was never linked, the start of this one.
    :ivar reason: why it is down; ``None``: it is up, or was never up.
    :ivar waiting_bytes: bytes that wait to be sent over it; ``None``: it is down.
    :ivar round_trip: seconds to the other server and back on the network, as the system measures them; ``None``: it
        does not say.
    """

    server: str
    state: Literal["up", "down"]
    since: str | None
    reason: str | None = None
    waiting_bytes: int | None = None
    round_trip: float | None = None


class ServerSummary(Struct, frozen=True, kw_only=True):
    """A server.

    :ivar time: when the summary was made, by the clock of the server.
    :ivar degraded: the names of the checks of ``/readyz`` that are not ``ok``.
    :ivar sessions: open sessions of clients of this server; ``away``: durable ones whose clients are not connected.
    :ivar lost_objects: objects of other servers that were lost on their way here, since the start.
    """

    server: str
    version: str
    boot: str
    started: str
    time: str
    status: Status
    degraded: list[str]
    sessions: int
    away: int
    rates: Rates
    waiting_bytes: int
    lost_objects: int
    links: list[LinkSummary]
