"""The script for web pages, which the port of WebSocket serves too, over HTTP. Each connection serves it once. Pure.

::

    -> GET /client.js HTTP/1.1, or HEAD, or with a query; but no Upgrade: websocket
    <- 200 OK, and the script
"""

from __future__ import annotations

import re

_REQUEST = re.compile(rb"(GET|HEAD) /client\.js(?:\?[!-~]*)? HTTP/1\.[01]\r\n")
_UPGRADE = re.compile(rb"\r\nupgrade[ \t]*:[^\r\n]*websocket", re.IGNORECASE)

MAX_AGE = 300
"""Seconds for which a browser may keep the script: pages get that of a new version of the server soon."""


def script_method(head: bytes) -> str | None:
    """The method of a request for the script.

    :param head: of an HTTP request, without the line that ends it.
    :returns: ``GET`` or ``HEAD``; ``None``: the request is for something else, such as a WebSocket.
    """
    asked = _REQUEST.match(head + b"\r\n")
    return None if asked is None or _UPGRADE.search(head) else asked[1].decode()


def script_response(method: str, script: bytes) -> bytes:
    """The response with the script. Pages of every origin may import it: it has no secrets."""
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/javascript; charset=utf-8\r\nContent-Length: {len(script)}\r\n"
        f"Cache-Control: max-age={MAX_AGE}\r\nAccess-Control-Allow-Origin: *\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (script if method == "GET" else b"")
