"""Addresses as they stand in the journal and the banner: ``127.0.0.1:7890``, ``[::1]:7890``."""

from __future__ import annotations

from typing import Any


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
    """What a Twisted address object is called: its host and port, or else the path of a socket."""
    host = getattr(address, "host", None)
    return str(getattr(address, "name", address)) if host is None else format_address(host, address.port)


def host_of(address: str) -> str:
    """The host of an address that may have a port: ``10.0.0.1``, ``10.0.0.1:7890``, ``::1``, ``[::1]:7890``."""
    if address.count(":") > 1 and not address.startswith("["):
        return address
    return address.rpartition(":")[0] or address
