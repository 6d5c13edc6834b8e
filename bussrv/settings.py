"""What an operator may set, beside where each wire format listens. Sizes in bytes, times in seconds."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from typing import Literal

from msgspec import Struct

Announce = Literal["members", "servers", "off"]


class Settings(Struct, frozen=True, kw_only=True):
    """Limits and policies, with their defaults.

    :ivar max_metadata: the most bytes of an object's metadata.
    :ivar max_payload: the most bytes of an object's payload.
    :ivar max_nesting: how deep metadata may nest.
    :ivar max_packet: the most bytes of an SPP packet, its header not counted.
    :ivar max_outbound: the most bytes that wait for one client; beyond it the client is disconnected.
    :ivar max_last_values: the most bytes of last values kept for new watchers, all services together.
    :ivar subscribe_timeout: how long a connection of the object network may go without subscribing.
    :ivar close_timeout: how long a closing connection may take to read what is still queued for it.
    :ivar strict: refuse a payload without a type instead of routing it.
    :ivar announce: to whom joining and leaving members are announced.
    :ivar inbus_lease: how long an Inbus subscriber or publisher may be silent; 0: for ever.
    :ivar inbus_allow: networks that Inbus subscriber addresses may lie in beside the sender's own address.
    """

    max_metadata: int = 64 << 10
    max_payload: int = 16 << 20
    max_nesting: int = 64
    max_packet: int = 1 << 20
    max_outbound: int = 16 << 20
    max_last_values: int = 64 << 20
    subscribe_timeout: float = 30.0
    close_timeout: float = 10.0
    strict: bool = False
    announce: Announce = "members"
    inbus_lease: float = 3600.0
    inbus_allow: tuple[IPv4Network | IPv6Network, ...] = ()
