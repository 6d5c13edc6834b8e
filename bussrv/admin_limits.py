"""Limits of the admin interface that an operator may set. Sizes in bytes, times in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bussrv.options import ORIGINS, Group, Network

ADMIN = Group("admin_limits", "Limits of the admin interface")


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminLimits:
    """The part of :class:`bussrv.settings.Settings` that limits the admin interface."""

    admin_scrape_allow: tuple[Network | Literal["unix"], ...] = ADMIN.option(
        ORIGINS,
        (),
        "A network, such as 127.0.0.1/32, or an address whose programs may read `/metrics` and `/readyz` without proof "
        "of who they are, or `unix` for UNIX sockets. Otherwise the policy decides, as for the service "
        "`bus/statistics`. After a proxy all clients have its address. May be repeated.",
        unset="none",
        example=["127.0.0.1/32"],
    )
    admin_max_connections: int = ADMIN.count(
        100,
        "Connections to the admin interface at the same time. For a further one, the one that has been idle for "
        "longest is closed; if none is idle, the new one is. A tenth is a reserve for users who may write: of others, "
        "connections that are served are closed for new ones, too, as long as they have part of it.",
    )
    admin_max_rate: int = ADMIN.count(
        100,
        "Requests a second to the admin interface from one user, or without a login from one address (IPv6: from one "
        "/64 network), after a burst of 2 seconds' worth. Further ones are refused, `too-many-requests`. Requests that "
        "are refused for another reason, such as a wrong password, are counted apart, by address: beyond as many their "
        "connections are closed.",
    )
    admin_max_head: int = ADMIN.size(
        16 << 10,
        "Bytes of the first line and the headers of a request to the admin interface. A longer one is refused, "
        "`head-too-large`, and the connection closed.",
    )
    admin_max_body: int = ADMIN.size(
        64 << 10,
        "Bytes of the body of a request to the admin interface. A longer one is refused, `body-too-large`, and the "
        "connection closed.",
    )
    admin_request_timeout: float = ADMIN.time(
        10.0,
        "Seconds in which a request to the admin interface has to arrive, from its first byte on. A later one is "
        "refused, `request-timeout`, and the connection closed.",
    )
    admin_idle_timeout: float = ADMIN.time(
        60.0,
        "Seconds after an answer of the admin interface in which the client has to take it and to send another "
        "request. Then the connection is closed.",
    )
    admin_read_timeout: float = ADMIN.time(
        2.0,
        "Seconds for which the admin interface reads the journal for one page of a history; the next page goes on "
        "there. For the registry at a moment five times as long; beyond it the request is refused, "
        "`admin-read-timeout`.",
    )
    admin_max_streams: int = ADMIN.count(
        20,
        "Streams of events of the admin interface at the same time for one user, or without a login for one address, "
        "such as open dashboards have. Further ones are refused, `too-many-streams`.",
    )
    admin_max_streams_total: int = ADMIN.count(
        60,
        "Streams of events of the admin interface at the same time for all users. For a further one, the user with "
        "most streams loses the oldest one, first of all those who may not write; a user who has most is refused, "
        "`too-many-streams`.",
    )
    admin_max_tap_rate: int = ADMIN.count(
        1_000,
        "Objects a second that all taps together show; each has an equal share. Further ones are skipped, and counted "
        "as `admin-max-tap-rate`.",
    )
    admin_max_waiting: int = ADMIN.size(
        1 << 20,
        "Bytes of events that may wait for the client of one stream of the admin interface. A client that reads more "
        "slowly is disconnected; it may continue where it was.",
    )
