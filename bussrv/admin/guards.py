"""Guards against web pages of other hosts that reach the interface with the browser of an operator.

- DNS rebinding: a page of ``evil.example`` whose name suddenly means this machine sends ``Host: evil.example``.
- Requests of other pages (CSRF): a browser says with ``Origin`` where the page comes from. Writes need a content type
  that a page of another host cannot send without asking first, and nobody is answered who asks.
"""

from __future__ import annotations

from collections.abc import Iterable

from bussrv.addresses import parse_host
from bussrv.admin.problems import Problem

LOCAL_NAME = "localhost"


def host_name(host: str) -> str:
    """The name or address in a ``Host`` header, in lower case and without its port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


def check_host(host: str | None, local: str, names: Iterable[str], *, may_lack: bool) -> None:
    """Check that a request is meant for this server.

    :param host: the header; ``None``: there is none.
    :param local: the address at which the request came in.
    :param names: further names of this server.
    :param may_lack: whether the version of HTTP knows requests without the header. Browsers do not speak it.
    :raises Problem: ``bad-host``.
    """
    if host is None:
        if may_lack:
            return
        raise Problem("bad-host", "there is no Host header")
    name = host_name(host)
    address = parse_host(name)
    # An address is safe: DNS rebinding needs a name, which a name server of the attacker resolves.
    if address is not None or name == LOCAL_NAME or name in names or not parse_host(local):
        return
    raise Problem("bad-host", f"this server is not {name[:255]!r}: name it with --admin-host, or use its address")


def check_origin(origin: str | None, host: str | None) -> None:
    """Check that a request does not come from a page of another host.

    :param origin: the header; ``None``: no page sent the request, or one of this host that only reads.
    :raises Problem: ``bad-origin``.
    """
    if origin is None:
        return
    scheme, separator, authority = origin.partition("://")
    if scheme not in ("http", "https") or not separator or authority.lower() != (host or "").strip().lower():
        raise Problem("bad-origin", f"{origin[:255]!r} is not the host that the request is for")


def check_content_type(value: str | None) -> None:
    """Check the content type of a request that changes something.

    :raises Problem: ``bad-content-type``.
    """
    if (value or "").partition(";")[0].strip().lower() != "application/json":
        raise Problem("bad-content-type", headers={"Accept-Post": "application/json"})
