"""Web pages that may connect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from bussrv.addresses import authority_host, parse_host
from bussrv.patterns import Wildcards

LOCALHOST = "localhost"
WEB = ("http", "https")

_compiled = lru_cache(maxsize=4)(Wildcards)


def is_allowed(origins: Sequence[str], host: str, allowed: tuple[str, ...]) -> bool:
    """Whether a page may connect.

    A browser lets every page open a WebSocket to every host, this machine included, and sends the client certificates
    of its user along. It only says which page asks: its *origin*. So the server has to refuse the pages of strangers.

    Without ``--websocket-origin`` a page may, if it came from the host that it connects to, and that host is an IP
    address or ``localhost``. A name of the DNS is not enough: its owner may let it point here, and serve the page, too.

    :param origins: all that the request has; none: it is no browser that asks.
    :param host: the host that the page connects to, with its port.
    :param allowed: patterns of the origins that may; empty: those of the same host.
    """
    if not origins:
        return True
    if len(origins) > 1:
        return False
    origin = origins[0].lower()
    return _compiled(allowed).match(origin) if allowed else _is_same_host(origin, host)


def _is_same_host(origin: str, host: str) -> bool:
    scheme, _, authority = origin.partition("://")
    page, asked = authority_host(authority), authority_host(host)
    if scheme not in WEB or page is None or asked is None:
        return False
    if _is_loopback(page) and _is_loopback(asked):
        return True
    return page == asked and parse_host(asked) is not None


def _is_loopback(name: str) -> bool:
    address = parse_host(name)
    return name == LOCALHOST if address is None else address.is_loopback
