"""The WebSocket of a session, whatever its messages carry: the upgrade, which pages may connect, signs of
life, and the end.

1. The client asks for an upgrade, which begins the session; see :mod:`bussrv.formats.websocket.request`. A page that
   may not connect is refused; see :func:`is_allowed`.
2. At the end of a session, the server sends a close frame with the reason. The client closes its side, and the
   connection ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.addresses import authority_host, parse_host
from bussrv.net.session.input import Input
from bussrv.net.session.input_states import State
from bussrv.patterns import Wildcards
from bussrv.plugin import Bundle, IBus, RemoteProtocolError, Traffic
from bussrv.values import excerpt
from bussrv.wire.frames import (
    PING,
    ClosedByClient,
    Control,
    FrameReader,
    Pinged,
    Upgrade,
    as_messages,
    pong,
    refusal,
)

LOCALHOST = "localhost"
WEB = ("http", "https")

_compiled = lru_cache(maxsize=4)(Wildcards)


class SocketLink(Protocol):
    """The link over a WebSocket: each frame of the wire format is a message.

    :ivar is_closing: whether nothing more is sent.
    :ivar waits_for_close: whether the connection stays until the client closes its side.
    """

    traffic: Traffic
    is_closing: bool
    waits_for_close: bool

    @property
    def has_sent_all(self) -> bool:
        """Whether nothing waits for the client."""

    def send_as_it_is(self, bundle: Bundle) -> None:
        """Send bytes that are no message, after everything that was sent before."""

    def close_when_sent(self) -> None:
        """Send what is queued, then close the connection."""


class SocketReader(Protocol):
    """Reads events from messages; see :class:`bussrv.wire.websocket.WebSocketReader`."""

    frames: FrameReader
    has_more: bool

    def take_control(self) -> Control | None:
        """Take the control frame that is next."""


class SocketConnection(Protocol):
    """The session, as far as its WebSocket needs it; see :class:`bussrv.net.session.protocol.StreamProtocol`."""

    bus: IBus
    reactor: Any
    transport: Any
    session_id: str
    input: Input

    @property
    def link(self) -> SocketLink:
        """Sends to the client."""

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended."""

    def is_unserved(self) -> bool:
        """Whether input of the client waits to be served."""

    def end_services(self, reason: str, then: Callable[[], object]) -> None:
        """End the services of the session, then call ``then``."""

    def end(self, reason: str) -> Deferred[None]:
        """End the session."""


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


class WebSocket:
    """The WebSocket of one session. Its methods are given the session: parts that know each other are freed late."""

    def __init__(self, reader: SocketReader) -> None:
        self._reader = reader
        self._frames = reader.frames
        self._heartbeat: Heartbeat | None = None
        self._client_has_closed = False

    # Input.

    def next_event(self, session: SocketConnection, read: Callable[[], Any]) -> Any:
        """The next event of the client. Serve the upgrade, pings and the close frame before it here.

        :param read: reads the next event.
        """
        while True:
            event = read()
            control = self._reader.take_control() if event is None else None
            if control is not None:
                self._serve_control(session, control)
            elif event is not None or not self._reader.has_more:
                return event
            if session.input.serves_no_more():
                return None

    def _serve_control(self, session: SocketConnection, control: Control) -> None:
        if isinstance(control, Upgrade):
            self._upgrade(session, control)
        elif isinstance(control, Pinged):
            self._send_control(session.link, pong(control.payload))
        else:
            assert isinstance(control, ClosedByClient)
            self._closed_by_client(session.link)
            session.end_services("client-closed", partial(session.end, "client-closed"))

    def _upgrade(self, session: SocketConnection, asked: Upgrade) -> None:
        settings = session.bus.settings
        if not is_allowed(asked.origins, asked.host, settings.websocket_origin):
            _refuse_page(session, ", ".join(asked.origins))
            return
        self._send_control(session.link, self._frames.accept())
        seconds, heard = partial(getattr, settings, "websocket_ping"), partial(getattr, self._frames, "size")
        ask, silent = partial(self._ping, session), partial(self._silent, session)
        self._heartbeat = Heartbeat(seconds, heard, ask, silent, session.reactor)

    def _ping(self, session: SocketConnection) -> bool:
        if session.is_unserved() or not session.link.has_sent_all:
            return False
        self._send_control(session.link, PING)
        return True

    def _silent(self, session: SocketConnection) -> None:
        self._heartbeat = None
        session.bus.counters["ping-timeout"] += 1
        session.end("ping-timeout")

    # Output.

    def _send_control(self, link: SocketLink, frame: bytes) -> None:
        """Send a control frame or a response, after everything that was sent before."""
        if frame and not link.is_closing:
            link.send_as_it_is(Bundle([frame]))
            link.traffic.objects_out -= 1

    def last_words(self, words: Bundle | None, reason: str) -> Bundle | None:
        """``words`` as messages, and the close frame; ``None``: the client cannot be told."""
        if words is None or not (last := self._frames.close(reason)):
            return None
        return Bundle([*as_messages(words.frames), last])

    # The end.

    def malformed(self, session: SocketConnection, error: RemoteProtocolError) -> bool:
        """The client sent something malformed. One that has no WebSocket is told so in HTTP.

        :returns: whether it has one.
        """
        if not self._frames.is_open:
            session.transport.write(refusal(HTTPStatus.UPGRADE_REQUIRED, f"{error.reason}: {error}"))
        elif self._frames.has_close:
            self._closed_by_client(session.link)
        return self._frames.is_open

    def take(self, session: SocketConnection, data: bytes) -> bool:
        """Look for the close frame of the client in a chunk that came after the end of the session.

        :returns: whether the session has ended.
        """
        if session.has_ended and session.input.state is not State.NO_SESSION and session.link.waits_for_close:
            self._frames.feed(data)
            if self._frames.skip_to_close():
                self._closed_by_client(session.link)
        return session.has_ended

    def no_more_comes(self, session: SocketConnection) -> None:
        """The client sends no more bytes, so no close frame either."""
        self._closed_by_client(session.link)

    def _closed_by_client(self, link: SocketLink) -> None:
        self._client_has_closed = True
        link.waits_for_close = False
        if link.is_closing:
            link.close_when_sent()

    def closed(self, session: SocketConnection, reason: str) -> None:
        """The session is closed: send the last frame. The connection stays until the client has answered it."""
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.end()
        frame, link = self._frames.close(reason), session.link
        if frame and not link.is_closing:
            self._send_control(link, frame)
            link.waits_for_close = not self._client_has_closed
        if link.waits_for_close:
            session.transport.resumeProducing()


def _refuse_page(session: SocketConnection, origin: str) -> None:
    reason, bus = "origin-not-allowed", session.bus
    bus.counters[reason] += 1
    about = {**bus.registry.state.sessions[session.session_id].about(), "reason": reason}
    denied = ev.AccessDenied(action="join", target=excerpt(origin), rule="--websocket-origin", **about)
    bus.registry.note_from_stranger(denied)
    sentence = f"{reason}: pages of {excerpt(origin)} may not connect; see --websocket-origin"
    session.transport.write(refusal(HTTPStatus.FORBIDDEN, sentence))
    session.end(reason)


# Web pages that may connect.


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
