"""Guards against web pages of other hosts that reach the interface with the browser of an operator.

- DNS rebinding: a page of ``evil.example`` whose name suddenly means this machine sends ``Host: evil.example``.
- Requests of other pages (CSRF): a browser says with ``Sec-Fetch-Site`` and ``Origin`` where the page comes from.
  Requests with effects, which are writes and streams, need a content type that a page of another host cannot send
  without asking first, and nobody is answered who asks. That holds for browsers that send neither header.
"""

from __future__ import annotations

from collections.abc import Iterable

from bussrv.addresses import authority_host, parse_host
from bussrv.admin.http.answers import Problem

LOCAL_NAME = "localhost"

OWN_SITES = frozenset({"same-origin", "none"})
"""Values of ``Sec-Fetch-Site``: the page of the interface itself, and what a person typed or chose."""


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
    name = authority_host(host.strip(" \t"))
    if name is None:
        raise Problem("bad-host", f"{host[:255]!r} is not a host with or without a port")
    # An address is safe: DNS rebinding needs a name, which a name server of the attacker resolves.
    if parse_host(name) is not None or name == LOCAL_NAME or name in names or not parse_host(local):
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
        raise Problem(
            "bad-origin",
            f"{origin[:255]!r} is not {(host or '')[:255]!r}, the host that the request is for; "
            "a proxy in between has to pass on the header Host",
        )


def check_site(site: str | None) -> None:
    """Check that a browser does not send a request for a page of another site, such as its ``<img>`` or a link.

    :param site: the header ``Sec-Fetch-Site``; ``None``: the client is no browser, or an old one.
    :raises Problem: ``bad-origin``.
    """
    if site is not None and site not in OWN_SITES:
        raise Problem("bad-origin", f"a page of another site sent the request (Sec-Fetch-Site: {site[:255]})")


def check_content_type(value: str | None) -> None:
    """Check the content type of a request that has effects.

    :raises Problem: ``bad-content-type``.
    """
    if (value or "").partition(";")[0].strip().lower() != "application/json":
        raise Problem("bad-content-type", headers={"Accept-Post": "application/json"})
