"""Addresses as they stand in the journal and the banner, and how clients are counted by them. Pure.

Addresses are ``127.0.0.1:7890``, ``[::1]:7890`` and ``unix:/path``. Limits that hold for one address are kept by its
:func:`address_key`; :func:`is_exempt` says which addresses have no such limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

UNIX: Final = "unix"
"""The address of a client of a UNIX socket begins with this. The rest is a path that the client chooses."""

IPV6_PREFIX = 64
"""The bits of an IPv6 address that one client cannot choose: it is given a whole network of that size."""

WIDER_PREFIXES = {4: 24, 6: 48}
"""The bits of the network of a customer who was given many addresses, by the version of IP."""

_AUTHORITY = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+(?:%[0-9a-z._~-]+)?)\]|(?P<name>[0-9a-z._-]+))(?::[0-9]{0,5})?", re.IGNORECASE
)

_KEPT = 10_000
_HOST_BITS = (1 << (128 - IPV6_PREFIX)) - 1


def format_address(host: str, port: int) -> str:
    """A host and a port as one string."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """The inverse of :func:`format_address`.

    :raises ValueError: if ``text`` is not such a string.
    """
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def peer_text(address: Any) -> str:
    """The text of a Twisted address object: its host and port, or for a UNIX socket its path."""
    host = getattr(address, "host", None)
    if host is not None:
        return format_address(plain_host(host), address.port)
    if not hasattr(address, "name"):
        return str(address)
    path = address.name or b""
    return f"{UNIX}:{path.decode('utf-8', 'backslashreplace')}" if path else UNIX


def plain_host(host: str) -> str:
    """The one form in which a host is journaled, logged, counted and shown; a name, or anything else, as it is.

    An IPv6 address has no needless zeros. An IPv4 address that is written as one of IPv6, as a port that serves both
    has it, is one of IPv4.
    """
    return _plain(host) if ":" in host else host


@lru_cache(_KEPT)
def _plain(host: str) -> str:
    try:
        return str(plain_ip(host))
    except ValueError:
        return host


def plain_ip(text: str) -> IPv4Address | IPv6Address:
    """An IP address in that form.

    :raises ValueError: the text is not an IP address.
    """
    host = ip_address(text)
    return host.ipv4_mapped or host if isinstance(host, IPv6Address) else host


def host_of(address: str) -> str:
    """The host of an address that may have a port: ``10.0.0.1``, ``10.0.0.1:7890``, ``::1``, ``[::1]:7890``."""
    if address.count(":") > 1 and not address.startswith("["):
        return address
    return address.rpartition(":")[0] or address


def authority_host(text: str) -> str | None:
    """The name or address of a host that may have a port, such as the header ``Host`` has it; RFC 3986, 3.2.2.

    The whole text has to be one, so that ``[::1].evil.example`` and ``localhost:80:evil`` are none.

    :returns: in lower case, without brackets and a last dot; ``None``: it is malformed.
    """
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    address, name = found["address"], found["name"]
    if address is None:
        return str(name).lower().removesuffix(".")
    return str(address).lower() if ":" in address and parse_host(address) is not None else None


def parse_host(address: str) -> IPv4Address | IPv6Address | None:
    """The host of an address that may have a port or a zone; ``None`` if it has none, such as a UNIX socket.

    An IPv4 address is the same whether or not it is written as an IPv6 address.
    """
    try:
        return plain_ip(host_of(address).removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None


def address_key(address: str) -> str:
    """The key that a client is counted by: its IPv4 address, the /64 network of its IPv6 address, or ``unix``.

    Anything else, such as a pseudonym, is its own key without its port.
    """
    return UNIX if _is_unix(address) else _key_of(host_of(address))


@lru_cache(_KEPT)
def _key_of(host: str) -> str:
    """Remembered by host: nearly every connection has a port of its own."""
    parsed = parse_host(host.removeprefix("[").removesuffix("]"))
    if isinstance(parsed, IPv6Address) and not parsed.is_loopback:
        return f"{IPv6Address(int(parsed) & ~_HOST_BITS)}/{IPV6_PREFIX}"
    return host if parsed is None else str(parsed)


def network_key(address: str) -> str:
    """The network of a client that is wider than its :func:`address_key`: a /24 of IPv4, a /48 of IPv6.

    Anything else is its own.
    """
    host = parse_host(address)
    if host is None:
        return address_key(address)
    return str(ip_network((host, WIDER_PREFIXES[host.version]), strict=False))


def is_local(address: str) -> bool:
    """Whether a client is on this machine: its address is a loopback one, or a UNIX socket."""
    host = parse_host(address)
    return _is_unix(address) if host is None else host.is_loopback


def is_local_host(host: str) -> bool:
    """Whether a host that a client connects to is this machine, so that nobody on a network reads what is sent."""
    found = parse_host(host)
    return host == "localhost" or (found is not None and found.is_loopback)


def is_exempt(address: str, trusted: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Whether limits that hold for one address do not hold for this one: it is local, or in a trusted network."""
    host = parse_host(address)
    if host is None:
        return _is_unix(address)
    return host.is_loopback or any(host in network for network in trusted)


def is_same_host(one: str, other: str) -> bool:
    """Whether two addresses are of one machine, as far as addresses say."""
    hosts = parse_host(one), parse_host(other)
    return _is_unix(one) and _is_unix(other) if hosts == (None, None) else hosts[0] == hosts[1]


def is_in(address: str, places: Iterable[IPv4Network | IPv6Network | str]) -> bool:
    """Whether an address is in one of some networks; the word ``unix`` stands for UNIX sockets."""
    host = parse_host(address)
    if host is None:
        return _is_unix(address) and UNIX in places
    return any(host in place for place in places if not isinstance(place, str))


def _is_unix(address: str) -> bool:
    return address == UNIX or address.startswith(f"{UNIX}:")
