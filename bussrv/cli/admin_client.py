"""A client of the admin interface: HTTP with JSON, and streams of server-sent events."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from bussrv.client.tls import PERHAPS_TLS, Tls, dial, explain, place, secured
from bussrv.errors import BussrvError, RemoteProtocolError

__all__ = ["AdminClient", "AdminError", "ServerSentEvent"]

API = "/api/v1"
PAGE = 1000
MAX_PAGE = 64 << 20
"""The most bytes of a page."""

MAX_PAGES = 10_000
"""The most pages of a collection: the server may have forgotten that it ends."""

MAX_ANSWER = 256 << 20
"""The most bytes of an answer that is no stream."""

SILENCE = 60.0
"""Seconds after which a stream counts as broken. A server sends something every 15 seconds."""

MAX_EVENT = 17 << 20
"""The most bytes of an event, and of a line: the longest line of a journal, and what is said about it."""

_TOO_MANY = 429
_URN = "urn:bussrv:problem:"


class ServerSentEvent(NamedTuple):
    """An event.

    :ivar id: the place in the stream, to continue after it; empty: none was given.
    :ivar event: its name.
    :ivar data: its lines, joined.
    """

    id: str
    event: str
    data: str


def read_events(lines: Iterable[bytes], most: int = MAX_EVENT) -> Iterator[ServerSentEvent]:
    """Lines in, events out. Source: the HTML standard, "Server-sent events", as far as the admin interface uses it::

        stream = *( line LF )
        line   = ":" comment | "id: " text | "event: " text | "data: " text | ""

    An empty line ends an event. Lines end with LF or CR LF. An id holds until there is another one.

    :raises RemoteProtocolError: a line is not UTF-8, or an event has more than ``most`` bytes.
    """
    last_id, name, data, size = "", "", list[str](), 0
    for line in lines:
        size += len(line)
        if size > most:
            raise RemoteProtocolError("too-large", f"an event of the stream has more than {most} bytes")
        text = _text(line)
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "id" and "\0" not in value:
            last_id = value
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif not text:
            if data:
                yield ServerSentEvent(last_id, name or "message", "\n".join(data))
            name, data, size = "", [], 0


def _text(line: bytes) -> str:
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError("bad-utf-8", "a line of the stream of events is not UTF-8") from error


class AdminError(BussrvError):
    """The server refused, with a problem (RFC 9457).

    :ivar reason: its stable code.
    :ivar status: the status of HTTP.
    """

    def __init__(self, reason: str, status: int, message: str) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason
        self.status = status
        self.message = message


class AdminClient:
    """Asks and steers a server: blocking, with a connection for each call, so it may be used in several threads.

    If the server has too many requests of one address, a call waits until it takes the next one.

    :param host: for a UNIX socket, its path with ``port=None``.
    :param timeout: how long connecting, sending and each wait for bytes may take, in seconds.
    :param tls: connect over TLS; ``None``: in the clear.
    :param user, secret: prove who asks; or
    :param token: the same.
    :param base: the path of the interface at a proxy, such as ``/bus``.
    :ivar where: the place of the server, for people.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int | None = 7280,
        timeout: float = 10.0,
        tls: Tls | ssl.SSLContext | None = None,
        *,
        user: str | None = None,
        secret: str | None = None,
        token: str | None = None,
        base: str = "",
    ) -> None:
        self._host, self._port, self._timeout, self._base = host, port, timeout, base.rstrip("/")
        self.where = place(host, port)
        self._context, self._server_name = secured(tls, host)
        self._headers = {"Accept": "application/json", "User-Agent": "bussrv"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        elif user is not None and secret is not None:
            pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
            self._headers["Authorization"] = f"Basic {pair}"

    def get(self, path: str, **query: Any) -> Any:
        """The answer to a question.

        :param path: below ``/api/v1``, such as ``/sessions``; or whole, such as ``/readyz``.
        :param query: parameters; ``None`` is left out.
        :raises AdminError: the server refused.
        :raises ConnectionError: the server cannot be reached, or the connection was lost.
        :raises TimeoutError: it does not answer.
        :raises RemoteProtocolError: what it says makes no sense.
        """
        return self.call("GET", path, query)

    def items(self, path: str, most: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """The items of a collection, page by page. Raises as :meth:`get` does.

        :param most: at most so many; ``None``: all.
        """
        cursor, left = None, most
        for _ in range(MAX_PAGES):
            if left == 0:
                return
            limit = PAGE if left is None else min(left, PAGE)
            answer = self.call("GET", path, {"limit": limit, "after": cursor, **query}, most=MAX_PAGE)
            items, cursor = _page(path, answer, limit)
            yield from items
            left = None if left is None else left - len(items)
            if cursor is None:
                return
        raise RemoteProtocolError("too-large", f"{path} does not end after {MAX_PAGES} pages")

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        also: int = 200,
        most: int = MAX_ANSWER,
    ) -> Any:
        """Any request. Raises as :meth:`get` does.

        :param body: is sent as JSON, unless the method is ``GET``.
        :param also: a status that is no problem, besides those of success.
        :param most: the most bytes of the answer.
        :returns: the JSON of the answer; ``None``: it has none.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            with self._asked(method, path, query, body, {}) as answer:
                data, status = _read(answer, most), answer.status
                wait = _wait_before_next(answer)
            if status == _TOO_MANY and time.monotonic() + wait < deadline:
                time.sleep(wait)
                continue
            if not (200 <= status < 300 or status == also):
                raise _problem(status, data)
            return _parse(data) if data else None

    def stream(self, path: str, last_id: str = "", **query: Any) -> Iterator[ServerSentEvent]:
        """The events of a stream, until the server ends it. Raises as :meth:`get` does.

        :param last_id: the id of an event, to continue after it.
        """
        # A stream wants the content type of a write, which no page of another host can send.
        headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
        headers |= {"Last-Event-ID": last_id} if last_id else {}
        with self._asked("GET", path, query, None, headers) as answer:
            if answer.status != 200:
                raise _problem(answer.status, _read(answer))
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise RemoteProtocolError("bad-answer", f"{path} is no stream of events")
            yield from read_events(iter(partial(answer.readline, MAX_EVENT + 1), b""))

    def resuming(self, path: str, last_id: str = "", **query: Any) -> Iterator[ServerSentEvent]:
        """The events of a stream without an end. If it ends or breaks, continue after the last event that came.

        :raises ConnectionError: it could not be continued within the time-out of this client.
        """
        lost: float | None = None
        has_begun = False
        while True:
            try:
                for event in self.stream(path, last_id, **query):
                    lost, has_begun, last_id = None, True, event.id or last_id
                    yield event
            except (ConnectionError, TimeoutError):
                if not has_begun:
                    raise
                lost = lost or time.monotonic()
                if time.monotonic() - lost > self._timeout:
                    raise
            time.sleep(0.2)

    @contextmanager
    def _asked(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request. The exceptions of the standard library are those of this module within it."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = (
            self._base
            + (path if path.startswith(("/healthz", "/readyz", "/metrics")) else API + path)
            + (f"?{urlencode(given)}" if given else "")
        )
        sent = None if method == "GET" else json.dumps({} if body is None else body).encode()
        fields = {**self._headers, **headers, **({} if sent is None else {"Content-Type": "application/json"})}
        is_tcp = self._port is not None
        connection = http.client.HTTPConnection(self._host if is_tcp else "localhost", self._port or 80)
        connection.sock = dial(self._host, self._port, self._timeout, self._context, self._server_name)
        with closing(connection):
            with _plainly(self.where, f", {PERHAPS_TLS}" if is_tcp and self._context is None else ""):
                connection.request(method, target, sent, fields)
                answer = connection.getresponse()
            if "text/event-stream" in headers.get("Accept", "") and connection.sock is not None:
                connection.sock.settimeout(max(self._timeout, SILENCE))
            with _plainly(self.where):
                yield answer


@contextmanager
def _plainly(where: str, hint: str = "") -> Iterator[None]:
    """:param hint: follows the sentence if the server closes the connection."""
    try:
        yield
    except TimeoutError as error:
        raise TimeoutError(f"{where} did not answer in time") from error
    except ConnectionError as error:
        raise ConnectionError(f"{where} closed the connection{hint}") from error
    except ssl.SSLError as error:
        raise ConnectionError(f"the connection to {where} broke: {explain(error)}") from error
    except http.client.HTTPException as error:
        raise RemoteProtocolError("bad-answer", f"{where} does not speak HTTP: is it the admin interface?") from error


def _read(answer: http.client.HTTPResponse, most: int = MAX_ANSWER) -> bytes:
    data = answer.read(most + 1)
    if len(data) > most:
        raise RemoteProtocolError("too-large", f"the answer has more than {most} bytes")
    if answer.length:
        raise ConnectionError("the answer is not complete")
    return data


def _page(path: str, page: Any, limit: int) -> tuple[list[Any], str | None]:
    """The items of a page, and the cursor of the next one: a page that is not the last one brings items."""
    items, cursor = (page.get("items"), page.get("next")) if isinstance(page, dict) else (None, None)
    if not isinstance(items, list) or not isinstance(cursor, str | None):
        raise RemoteProtocolError("bad-answer", f"{path} is no collection")
    if len(items) > limit:
        raise RemoteProtocolError("bad-answer", f"{path}: a page has {len(items)} items, and {limit} were asked for")
    if not items and cursor is not None:
        raise RemoteProtocolError("bad-answer", f"{path}: a page has no items, and is not the last one")
    return items, cursor


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("bad-json", "the answer is no JSON: is it the admin interface?") from error


def _wait_before_next(answer: http.client.HTTPResponse) -> float:
    """The seconds that a server asks for which had too many requests; it has served none of them."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() and len(text) < 6 else 1.0


def _problem(status: int, data: bytes) -> AdminError:
    try:
        found = json.loads(data)
        kind, detail = str(found["type"]), str(found.get("detail") or found["title"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        kind, detail = "", f"the server answered with the status {status}"
    return AdminError(kind.removeprefix(_URN) or f"status-{status}", status, detail)


def element(text: str) -> str:
    """A text as one part of a path, such as the name of a service."""
    return quote(text, safe="")
