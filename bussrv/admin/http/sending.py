"""Answers on their way to a client, with bounded memory.

An answer is sent in pieces while the transport has room. Events of a stream wait here while it has none. If too many
bytes wait, the stream ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from bussrv.admin.http.answers import Answer, date, phrase
from bussrv.admin.http.channel import AdminRequest

PIECE = 32 << 10
"""The most bytes that a transport gets at a time. A transport with TLS tells too late that it is full."""

EVENT_STREAM = "text/event-stream"

COMMON: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every answer. An answer may have other values for them."""


def begin(request: AdminRequest, status: int, headers: Mapping[str, str]) -> None:
    """Set the status and the headers of an answer."""
    request.setResponseCode(status, phrase(status).encode())
    now = date(request.channel.site.server.bus.utc())
    for name, value in {"Date": now, **COMMON, **headers}.items():
        request.responseHeaders.setRawHeaders(name, [value])


@implementer(IPushProducer)
class _Body:
    """Sends the body of an answer."""

    def __init__(self, request: AdminRequest, body: bytes) -> None:
        self._request = request
        self._body = memoryview(body)
        self._is_paused = self._is_sending = False

    def resumeProducing(self) -> None:
        """The transport has room."""
        self._is_paused = False
        if self._is_sending:
            return
        self._is_sending = True
        while self._body and not self._is_paused:
            piece, self._body = self._body[:PIECE], self._body[PIECE:]
            self._request.write(bytes(piece))
        self._is_sending = False
        if not self._body:
            self._request.unregisterProducer()
            self._request.finish()

    def pauseProducing(self) -> None:
        """The transport is full."""
        self._is_paused = True

    def stopProducing(self) -> None:
        """The connection is gone."""
        self._body = memoryview(b"")


def send(request: AdminRequest, answer: Answer) -> None:
    """Send an answer and finish the request."""
    headers = {"Content-Type": answer.media_type, "Content-Length": str(len(answer.body)), **answer.headers}
    if answer.status in (204, 304):
        del headers["Content-Length"], headers["Content-Type"]
    begin(request, answer.status, headers)
    if headers.get("Connection") == "close":
        request.channel.persistent = 0
    if len(answer.body) <= PIECE or request.method == b"HEAD":
        request.write(answer.body)
        request.finish()
    else:
        body = _Body(request, answer.body)
        request.registerProducer(body, True)
        body.resumeProducing()


@implementer(IPushProducer)
class EventStream:
    """A stream of server-sent events to one client. The answer begins with the first event or comment.

    :param most: the most bytes that may wait.
    :param too_slow: is called when more bytes wait, which also ends the stream.
    :ivar is_open: whether the client is connected, and has not been too slow.
    :ivar has_begun: whether the client has been sent the head of the answer.
    """

    def __init__(self, request: AdminRequest, most: int, too_slow: Callable[[], None]) -> None:
        self._request = request
        self._most = most
        self._too_slow = too_slow
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_paused = False
        self._room: list[Deferred[None]] = []
        self._closed: list[Deferred[None]] = []
        self.is_open = True
        self.has_begun = False
        request.notifyFinish().addBoth(self._gone)

    def _begin(self) -> None:
        self.has_begun = True
        begin(self._request, 200, {"Content-Type": EVENT_STREAM, "X-Accel-Buffering": "no"})
        self._request.registerProducer(self, True)
        self._request.channel.when_half_closed(self.comment)

    def send(self, data: str | bytes, *, event: str = "", id: str | int = "") -> None:  # noqa: A002
        """Send an event.

        :param data: one line or several; in UTF-8.
        :param event: its name.
        :param id: the id of the event; a client that comes back may send it as ``Last-Event-ID``.
        """
        text = data.encode() if isinstance(data, str) else data
        head = (f"id: {id}\n" if id != "" else "") + (f"event: {event}\n" if event else "")
        self._write(head.encode() + b"".join(b"data: %b\n" % line for line in text.split(b"\n")) + b"\n")

    def send_encoded(self, text: bytes) -> None:
        """Send encoded events. Many clients may share them."""
        self._write(text)

    def comment(self) -> None:
        """Send a comment, so that both ends notice a lost connection."""
        self._write(b":\n\n")

    def _write(self, text: bytes) -> None:
        if not self.is_open:
            return
        if not self.has_begun:
            self._begin()
        if self.has_room:
            self._request.write(text)
            return
        self._waiting.append(text)
        self._size += len(text)
        if self._size > self._most:
            self._too_slow()
            self.end()

    @property
    def has_room(self) -> bool:
        """Whether no bytes wait for the client."""
        return not (self._is_paused or self._waiting)

    def room(self) -> Deferred[None]:
        """:returns: fires when no bytes wait for the client, or the client is gone."""
        return _one_more(self._room) if self.is_open and not self.has_room else succeed(None)

    def closed(self) -> Deferred[None]:
        """:returns: fires when the client is gone, or was too slow."""
        return _one_more(self._closed) if self.is_open else succeed(None)

    def pauseProducing(self) -> None:
        """The transport is full."""
        self._is_paused = True

    def resumeProducing(self) -> None:
        """The transport has room."""
        self._is_paused = False
        while self._waiting and not self._is_paused:
            text = self._waiting.popleft()
            self._size -= len(text)
            self._request.write(text)
        if self.has_room:
            _fire(self._room)

    def stopProducing(self) -> None:
        """The connection is gone."""

    def end(self) -> None:
        """End the stream and its connection. Bytes that wait are lost: the client can ask for them again."""
        if self.is_open:
            channel = self._request.channel
            self._gone(None)
            channel.abort()

    def finish(self) -> None:
        """The stream is complete."""
        if self.is_open:
            if not self.has_begun:
                self._begin()
            self._request.unregisterProducer()
            self._request.finish()

    def _gone(self, _: Any) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._waiting.clear()
        self._size = 0
        _fire(self._room)
        _fire(self._closed)


def _one_more(waiting: list[Deferred[None]]) -> Deferred[None]:
    waiting.append(Deferred())
    return waiting[-1]


def _fire(waiting: list[Deferred[None]]) -> None:
    """Fire those that wait, except those that were cancelled."""
    found = tuple(waiting)
    waiting.clear()
    for each in found:
        if not each.called:
            each.callback(None)
