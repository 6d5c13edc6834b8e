"""What an operator may set, beside where each wire format listens. Sizes in bytes, times in seconds."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

from msgspec import Struct

Announce = Literal["members", "servers", "off"]
SlowSpp = Literal["disconnect", "coalesce"]


class Settings(Struct, frozen=True, kw_only=True):
    """Limits and policies, with their defaults.

    :ivar max_sessions: the most sessions of clients at a time.
    :ivar max_sessions_per_address: the most sessions from one address.
    :ivar max_connects: the most new sessions from one address a second, after a burst of as many.
    :ivar max_services: the most services that one session may provide.
    :ivar max_subscriptions: the most services that one session may subscribe to.
    :ivar max_metadata: the most bytes of an object's metadata.
    :ivar max_payload: the most bytes of an object's payload.
    :ivar max_nesting: how deep metadata may nest.
    :ivar max_packet: the most bytes of an SPP packet, its header not counted.
    :ivar max_outbound: the most bytes that wait for one client; beyond it the client is disconnected.
    :ivar max_last_values: the most bytes of last values kept for new watchers, all services together.
    :ivar max_last_value: the most bytes of the last value kept of one service.
    :ivar max_requests: the most requests whose replies still find their way back.
    :ivar request_timeout: how long a request may wait for its reply.
    :ivar max_patterns: the most content types or rules that a subscription to objects may have.
    :ivar max_routing_ids: the most further routing ids that a session may ask for.
    :ivar max_linked: the most sessions, further routing ids and services that one linked server may tell of.
    :ivar max_seen: how many objects of linked servers are remembered, so that none is delivered twice.
    :ivar max_link_delay: the longest time between two attempts to link.
    :ivar link_allow: networks that servers may link from, beside this machine.
    :ivar subscribe_timeout: how long a connection of the object network may go without subscribing.
    :ivar close_timeout: how long a closing connection may take to read what is still queued for it.
    :ivar strict: refuse a payload without a type instead of routing it.
    :ivar announce: to whom joining and leaving members are announced.
    :ivar inbus_lease: how long an Inbus subscriber or publisher may be silent; 0: for ever.
    :ivar inbus_max_rate: the most datagrams a second to one Inbus subscriber address.
    :ivar inbus_allow: networks that Inbus subscriber addresses may lie in beside the sender's own address.
    :ivar slow_spp: what waits for an SPP client that reads slowly: everything, or the newest state of each service.
    :ivar spp_users: the file of those who may watch over SPP; ``None``: everybody may.
    """

    max_sessions: int = 50_000
    max_sessions_per_address: int = 20_000
    max_connects: int = 2_000
    max_services: int = 10_000
    max_subscriptions: int = 10_000
    max_metadata: int = 64 << 10
    max_payload: int = 16 << 20
    max_nesting: int = 64
    max_packet: int = 1 << 20
    max_outbound: int = 16 << 20
    max_last_values: int = 64 << 20
    max_last_value: int = 1 << 20
    max_requests: int = 10_000
    request_timeout: float = 300.0
    max_patterns: int = 256
    max_routing_ids: int = 256
    max_linked: int = 100_000
    max_seen: int = 131_072
    max_link_delay: float = 30.0
    link_allow: tuple[IPv4Network | IPv6Network, ...] = ()
    subscribe_timeout: float = 30.0
    close_timeout: float = 10.0
    strict: bool = False
    announce: Announce = "members"
    inbus_lease: float = 3600.0
    inbus_max_rate: int = 10_000
    inbus_allow: tuple[IPv4Network | IPv6Network, ...] = ()
    slow_spp: SlowSpp = "disconnect"
    spp_users: Path | None = None
