"""WebSocket: the vocabulary of Object System for web pages. The framing is that of :mod:`bussrv.wire.websocket`.

1. The client asks for an upgrade, which begins the session; see :mod:`bussrv.formats.websocket.request`. A page that
   may not connect is refused; see :func:`is_allowed`.
2. Then everything is as in :mod:`bussrv.formats.objects.object_system`, except that each object is a message, and that
   no server links over a WebSocket.
3. At the end of a session, the server sends a close frame with the reason. The client closes its side, and the
   connection ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from bussrv import events as ev
from bussrv.addresses import authority_host, parse_host
from bussrv.bus.interfaces import IBus
from bussrv.errors import OverLimit, RemoteProtocolError
from bussrv.formats.objects.members import MemberProtocol
from bussrv.formats.objects.object_input import NextObject
from bussrv.formats.objects.object_system import OBJECT_SYSTEM
from bussrv.formats.websocket.request import FirstRequest
from bussrv.memory.bundle import Bundle
from bussrv.net.listening import StreamListener
from bussrv.net.session.backlog import Backlog
from bussrv.net.session.client_link import StreamLink
from bussrv.net.session.factory import StreamFactory
from bussrv.net.session.input_states import State
from bussrv.patterns import Wildcards
from bussrv.values import excerpt
from bussrv.wire.objects import ObjectReader
from bussrv.wire.websocket import (
    PING,
    ClosedByClient,
    Control,
    Pinged,
    Upgrade,
    WebSocketReader,
    as_messages,
    pong,
    refusal,
)


class Heartbeat:
    """A client that has sent nothing for a while is asked for a sign of life, and ends if it gives none.

    :param seconds: between two looks; 0: nobody is asked any more.
    :param heard: how many bytes the client has sent so far.
    :param ask: asks it for a sign of life. :returns: whether it was asked; otherwise it has time until the next look.
    :param silent: called if it gave none until the look after that.
    :param reactor: calls later.
    """

    def __init__(
        self,
        seconds: Callable[[], float],
        heard: Callable[[], int],
        ask: Callable[[], bool],
        silent: Callable[[], None],
        reactor: Any,
    ) -> None:
        self._seconds = seconds
        self._heard = heard
        self._ask = ask
        self._silent = silent
        self._reactor = reactor
        self._heard_before = heard()
        self._was_asked = False
        self._call: Any = None
        self._wait()

    def _wait(self) -> None:
        seconds = self._seconds()
        self._call = self._reactor.callLater(seconds, self._look) if seconds else None

    def _look(self) -> None:
        if self._was_asked and self._heard() == self._heard_before:
            # The reactor calls before it reads: the answer may be there already.
            self._call = self._reactor.callLater(0, self._look_again)
            return
        heard, before = self._heard(), self._heard_before
        self._heard_before = heard
        self._was_asked = heard == before and self._ask()
        self._wait()

    def _look_again(self) -> None:
        if self._heard() == self._heard_before:
            self._call = None
            self._silent()
        else:
            self._look()

    def end(self) -> None:
        """Stop looking at the connection."""
        if self._call is not None:
            self._call.cancel()
            self._call = None


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


class WebSocketLink(StreamLink):
    """The link over a WebSocket: each object is a message, and the connection ends with a close frame."""

    _client_has_closed = False

    def send(self, bundle: Bundle) -> None:
        """Send objects, each as a message. Clients that get the same objects share the bytes of the messages."""
        super().send(bundle.in_form(as_messages))

    def send_control(self, frame: bytes) -> None:
        """Send a control frame or a response, after everything that was sent before."""
        if frame and not self.is_closing:
            super().send(Bundle([frame]))
            self.traffic.objects_out -= 1

    def send_close(self, frame: bytes) -> None:
        """Send the last frame. The connection stays until the client has answered it."""
        if frame and not self.is_closing:
            self.send_control(frame)
            self.waits_for_close = not self._client_has_closed

    def closed_by_client(self) -> None:
        """Note that the client has closed its side."""
        self._client_has_closed = True
        self.waits_for_close = False
        if self.is_closing:
            self.close_when_sent()


class WebSocketProtocol(MemberProtocol):
    """One WebSocket."""

    FORMAT = "websocket"
    VOCABULARY = OBJECT_SYSTEM
    READER: ClassVar[type[ObjectReader]] = WebSocketReader

    link: WebSocketLink
    objects: WebSocketReader
    _request: FirstRequest | None = None  # there is no session until it is read
    _heartbeat: Heartbeat | None = None

    def connectionMade(self) -> None:
        """Wait for the request."""
        self.factory.protocols.add(self)
        try:
            self._request = FirstRequest(
                self.bus, self.FORMAT, self.transport, self.reactor, is_admitted=self.is_admitted
            )
        except OverLimit as refusal:
            self.not_admitted(refusal)
            self.transport.loseConnection()

    def make_link(self, backlog: Backlog) -> WebSocketLink:
        """The link: it sends messages to the client."""
        return WebSocketLink(self, self.encoding(), self.bus.settings.max_outbound, backlog, self.bus.streams.outflow)

    def has_input(self) -> bool:
        """Frames of WebSocket may be left."""
        return True

    def next_event(self) -> NextObject:
        """The next object. Serve the upgrade, pings and the close frame before it here."""
        while True:
            event = super().next_event()
            control = self.objects.take_control() if event is None else None
            if control is not None:
                self._serve_control(control)
            elif event is not None or not self.objects.has_more:
                return event
            if self.input.serves_no_more():
                return None

    def _serve_control(self, control: Control) -> None:
        if isinstance(control, Upgrade):
            self._upgrade(control)
        elif isinstance(control, Pinged):
            self.link.send_control(pong(control.payload))
        else:
            assert isinstance(control, ClosedByClient)
            self.link.closed_by_client()
            self.end_services("client-closed", partial(self.end, "client-closed"))

    def _upgrade(self, asked: Upgrade) -> None:
        settings = self.bus.settings
        if not is_allowed(asked.origins, asked.host, settings.websocket_origin):
            self._refuse_page(", ".join(asked.origins))
            return
        self.link.send_control(self.objects.accept())
        seconds, heard = partial(getattr, settings, "websocket_ping"), partial(getattr, self.traffic, "bytes_in")
        self._heartbeat = Heartbeat(seconds, heard, self._ping, self._silent, self.reactor)

    def _refuse_page(self, origin: str) -> None:
        reason = "origin-not-allowed"
        self.bus.counters[reason] += 1
        about = {**self.session().about(), "reason": reason}
        denied = ev.AccessDenied(action="join", target=excerpt(origin), rule="--websocket-origin", **about)
        self.bus.registry.note_from_stranger(denied)
        sentence = f"{reason}: pages of {excerpt(origin)} may not connect; see --websocket-origin"
        self.transport.write(refusal(HTTPStatus.FORBIDDEN, sentence))
        self.end(reason)

    def _ping(self) -> bool:
        if self.is_unserved() or not self.link.has_sent_all:
            return False
        self.link.send_control(PING)
        return True

    def _silent(self) -> None:
        self._heartbeat = None
        self.bus.counters["ping-timeout"] += 1
        self.end("ping-timeout")

    def not_admitted(self, refused: OverLimit) -> None:
        """Tell the client why it is not admitted."""
        self.transport.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{refused.reason}: {refused.message}"))

    def last_words(self, reason: str) -> Bundle | None:
        """The ``error`` as a message, and the close frame."""
        words = super().last_words(reason)
        if words is None or not (last := self.objects.close(reason)):
            return None
        return Bundle([*as_messages(words.frames), last])

    def malformed(self, error: RemoteProtocolError) -> None:
        """Tell the client what was malformed."""
        if self.objects.is_open:
            if self.objects.has_close:
                self.link.closed_by_client()
            super().malformed(error)
        else:
            self.transport.write(refusal(HTTPStatus.UPGRADE_REQUIRED, f"{error.reason}: {error}"))

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk. After the end of the session, look only for the close frame of the client."""
        if self._request is not None:
            first = self._request.take(data)
            if first:
                self._open(first)
        elif not self.has_ended:
            super().dataReceived(data)
        elif self.input.state is not State.NO_SESSION and self.link.waits_for_close:
            self.objects.feed(data)
            if self.objects.skip_to_close():
                self.link.closed_by_client()

    def _open(self, first: bytes) -> None:
        """Open the session. Its input begins with the bytes ``first``."""
        self._forget_request()
        self.is_admitted = True
        super().connectionMade()
        super().dataReceived(first)

    def _forget_request(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            request.end()

    def outbound_is_full(self) -> None:
        """All backlogs together are too large: end the session, or the connection that has none yet."""
        if self._request is not None:
            self.transport.abortConnection()
        else:
            super().outbound_is_full()

    def readConnectionLost(self) -> None:
        """The client sends no more bytes, so no close frame either."""
        if self._request is not None:
            self._request.no_more_comes()
        elif self.input.state is not State.NO_SESSION:
            self.link.closed_by_client()
        super().readConnectionLost()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone."""
        self._forget_request()
        super().connectionLost(reason)

    def end(self, reason: str, most: float | None = None) -> Deferred[None]:
        """End the session, or the connection that has none yet."""
        if self._request is not None:
            self.transport.abortConnection()
        return super().end(reason, most)

    def closed(self, reason: str) -> None:
        """The session is closed: tell the client why."""
        super().closed(reason)
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.end()
        self.link.send_close(self.objects.close(reason))
        if self.link.waits_for_close:
            self.transport.resumeProducing()


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve WebSockets; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(WebSocketProtocol, bus, reactor), endpoint, reactor)
