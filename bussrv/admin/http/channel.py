"""One HTTP connection, with limits: bytes of a head and of a body, and time for both.

1. Input is parsed in slices (:mod:`bussrv.turns.slices`), so that no flood of requests delays the clients of the bus.
2. A connection has one request at a time. The next one is looked at when the client has taken the answer.
3. A request that is over a limit is answered with a problem, and ends the connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any, Protocol

from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import connectionDone
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure
from twisted.web import http
from twisted.web.http_headers import Headers
from zope.interface import implementer

from bussrv.addresses import address_key, peer_text
from bussrv.admin.http.answers import Problem, date, phrase
from bussrv.admin.interfaces import AdministeredServer

SLICES = "admin"
"""The address that stands for all work of the admin interface: it gets the round-robin share of one client."""

PIECE = 1024
"""Bytes that are parsed at a time. The worst case, a body in chunks of one byte, takes a few milliseconds."""

MOST_HEADERS = 200

LINGER = 2.0
"""Seconds until a connection is cut that ends. Nothing puts that off: the server stops in time, whatever clients do."""

_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
"""The absolute form of the target of a request: its authority, and the rest. Source: RFC 9112, section 3.2.2."""


class Site(Protocol):
    """Serves the requests of all connections; see :class:`bussrv.admin.site.AdminSite`."""

    server: AdministeredServer

    def serve(self, request: AdminRequest) -> None:
        """Answer a request in its round-robin turn."""

    def count(self, code: str) -> None:
        """Count a problem that a limit caused."""

    def came(self, channel: AdminChannel) -> None:
        """A connection has begun."""

    def left(self, channel: AdminChannel) -> None:
        """A connection is gone, or is being closed."""

    def log(self, request: Any) -> None:
        """Log a request whose answer was sent."""


class AdminRequest(http.Request):
    """One request.

    :ivar size: how many bytes of its body have come so far.
    """

    size = 0
    channel: AdminChannel
    content: Any

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - called by Twisted
        """The head is there; the body follows.

        :param length: the length of the body in bytes; ``None``: it comes in chunks.
        """
        self.content = BytesIO()
        self._check_size(length or 0)

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - called by Twisted
        """A part of the body came."""
        self.size += len(data)
        if self._check_size(self.size):
            self.content.write(data)

    def _check_size(self, size: int) -> bool:
        most = self.channel.site.server.bus.settings.admin_max_body
        if size > most:
            self.channel.refuse("body-too-large", f"the body has more than {most} bytes (--admin-max-body)")
        return size <= most

    def parseCookies(self) -> None:  # noqa: N802 - called by Twisted
        """There are no cookies here."""

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802 - called by Twisted
        """Serve the request: all of it is there."""
        self.method, self.uri, self.clientproto = command, path, version
        absolute = _ABSOLUTE.fullmatch(path)
        if absolute is not None:
            # The header Host does not count then.
            host, rest = absolute.groups()
            self.uri = rest if rest.startswith(b"/") else b"/" + rest
            self.requestHeaders.setRawHeaders(b"Host", [host])
        if not self.channel.is_refused:
            self.content.seek(0)
            self.channel.site.serve(self)


@implementer(IHalfCloseableProtocol)
class AdminChannel(http.HTTPChannel):
    """One connection.

    :ivar peer: the address of the client. ``key``: the part of it that limits count by.
    :ivar is_logging_in: whether the credentials of its request are being checked.
    :ivar may_write: whether the user of its last request may change something.
    :ivar is_refused: whether further input is dropped, because the connection is about to end.
    :ivar is_ending: whether its end has begun: no request begins any more, and it is cut after :data:`LINGER`.
    """

    requestFactory = AdminRequest  # noqa: N815 - Twisted looks for it
    transport: Any

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = self.factory = site
        self.callLater: Any = site.server.reactor.callLater
        self.is_refused = self.is_ending = self.is_logging_in = self.may_write = False
        self.peer = self.key = ""
        self._settings = site.server.bus.settings
        self._received: list[bytes] = []
        self._is_receiving = self._waits_for_slice = False
        self._half_closed: Callable[[], None] = lambda: None

    def connectionMade(self) -> None:
        """Wait for the first request."""
        self.peer = peer_text(self.transport.getPeer())
        self.key = address_key(self.peer)
        self.site.came(self)
        for set_option in ("setTcpKeepAlive", "setTcpNoDelay"):
            getattr(self.transport, set_option, lambda on: None)(True)
        self.MAX_LENGTH = self.totalHeadersSize = self._settings.admin_max_head
        self._networkProducer = self.transport
        self.transport.registerProducer(self, True)
        self.setTimeout(self._settings.admin_request_timeout)

    @property
    def is_idle(self) -> bool:
        """Whether it may be closed to make room: it serves no request, or only checks a login.

        Checks are slow, and strangers decide how many of them there are.
        """
        return not self._handlingRequest or self.is_logging_in

    # Input.

    def dataReceived(self, data: bytes) -> None:
        """Keep a chunk until this connection's round-robin turn to parse."""
        if self.is_refused:
            return
        self._received.append(data)
        most = self._settings.admin_max_head + self._settings.admin_max_body
        if len(self._received) > 1 and sum(map(len, self._received)) > most + (64 << 10):
            self.site.count("body-too-large")
            self.abort()
            return
        self._parse_soon()

    def _parse_soon(self) -> None:
        if self._received and not self._waits_for_slice and not self._waitingForTransport:
            self._waits_for_slice = True
            self.site.server.bus.slices.do(self._parse, SLICES)

    def _parse(self, until: float) -> bool:
        data = memoryview(b"".join(self._received))
        self._received = []
        while data and not (self.is_refused or self._waitingForTransport):
            if not (self._handlingRequest or self._is_receiving):
                # The time runs from the first byte of a request: a slow client gets no further time with each byte.
                self._is_receiving = True
                self.setTimeout(self._settings.admin_request_timeout)
            LineReceiver.dataReceived(self, bytes(data[:PIECE]))
            data = data[PIECE:]
            if self.site.server.bus.slices.is_over(until):
                break
        self._received[:0] = [bytes(data)] if data and not self.is_refused else []
        self._waits_for_slice = bool(self._received) and not self._waitingForTransport
        return self._waits_for_slice

    def lineReceived(self, line: bytes) -> None:  # noqa: N802 - called by Twisted
        """A line of a head came."""
        if self.is_refused:
            return
        is_too_long = self._receivedHeaderSize + len(line) > self.totalHeadersSize
        if is_too_long or self._receivedHeaderCount >= MOST_HEADERS:
            self._refuse_head()
        else:
            super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802 - called by Twisted
        """A line is longer than a head may be."""
        self._refuse_head()

    def _refuse_head(self) -> None:
        most = f"{self.totalHeadersSize} bytes (--admin-max-head) or {MOST_HEADERS} headers"
        self.refuse("head-too-large", f"the head has more than {most}")

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802 - called by Twisted
        """A part of a body came, or of the next request."""
        if not self.is_refused:
            super().rawDataReceived(data)

    def allContentReceived(self) -> None:  # noqa: N802 - called by Twisted
        """All of the request is there. There is no time limit for its answer."""
        self._is_receiving = False
        super().allContentReceived()

    def _respondToBadRequestAndDisconnect(self) -> None:  # noqa: N802 - called by Twisted
        self.refuse("bad-request", "the request is not well-formed HTTP")

    def readConnectionLost(self) -> None:
        """The client sends no more. It may wait for an answer."""
        self.persistent = 0
        self._half_closed()
        if not (self._handlingRequest or self._received):
            self.transport.loseConnection()

    def when_half_closed(self, call: Callable[[], None]) -> None:
        """Call that when the client sends no more: what is written then shows whether it is still there."""
        self._half_closed = call

    def writeConnectionLost(self) -> None:
        """The end of the connection is reported separately."""

    def requestDone(self, request: http.Request) -> None:  # noqa: N802 - called by Twisted
        """The transport has the whole answer. Bytes that came meanwhile are parsed in another reactor turn."""
        kept, self._dataBuffer = self._dataBuffer, []
        self._savedTimeOut = None
        super().requestDone(request)
        if self.persistent:
            self.setTimeout(self._settings.admin_idle_timeout)
            self._received[:0] = kept
            if self._received:
                self.callLater(0, self._parse_soon)
        else:
            self.setTimeout(self._settings.admin_request_timeout)

    # Output.

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: Headers) -> None:  # noqa: N802
        """Send the head of an answer. Transports of this package take no sequences."""
        fields = (b"%b: %b\r\n" % (name, value) for name, values in headers.getAllRawHeaders() for value in values)
        self.transport.write(b"HTTP/1.1 %b %b\r\n%b\r\n" % (code, reason, b"".join(fields)))

    def writeSequence(self, iovec: Any) -> None:
        """Send a chunk of an answer."""
        self.transport.write(b"".join(iovec))

    def resumeProducing(self) -> None:
        """The client has taken what it was sent."""
        super().resumeProducing()
        self._parse_soon()

    # Ends.

    def refuse(self, code: str, detail: str) -> None:
        """Answer with a problem, and end the connection."""
        if self.is_refused:
            return
        self.is_refused = True
        self.site.count(code)
        answer = Problem(code, detail).answer()
        head = (
            f"HTTP/1.1 {answer.status} {phrase(answer.status)}\r\nDate: {date(self.site.server.bus.utc())}\r\n"
            f"Content-Type: {answer.media_type}\r\nContent-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + answer.body)
        self.end()

    def timeoutConnection(self) -> None:  # noqa: N802 - called by Twisted
        """The client was too slow, or idle for too long."""
        if self.is_ending:
            self.abort()
        elif self._waits_for_slice:
            # The server is late, not the client.
            self.setTimeout(LINGER)
        elif self._is_receiving and not self.is_refused:
            self.refuse("request-timeout", "the request did not arrive in time (--admin-request-timeout)")
        elif self.is_refused or self._handlingRequest:
            self.abort()
        else:
            self.end()

    def end(self) -> None:
        """End the connection soon, so that the client can still read the answers that were sent."""
        if not self.is_ending:
            self.setTimeout(LINGER)
            self.loseConnection()
            self.is_refused = self.is_ending = True
            self.persistent = 0

    def loseConnection(self) -> None:
        """Close the connection when the transport has sent what it has, unless the end has done so."""
        if not self.is_ending:
            super().loseConnection()

    def setTimeout(self, period: float | None) -> float | None:  # noqa: N802 - called by Twisted
        """Set the time at which the client is too slow, unless the end has begun: that has its own."""
        before: float | None = None if self.is_ending else super().setTimeout(period)
        return before

    def abort(self) -> None:
        """End the connection now."""
        self.setTimeout(None)
        self.is_refused = self.is_ending = True
        self.transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        self.setTimeout(None)
        self.is_refused = self.is_ending = True
        self._received = []
        self.site.left(self)
        super().connectionLost(reason)
