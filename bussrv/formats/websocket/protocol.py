"""WebSocket: the vocabulary of Object System for web pages. The framing is that of :mod:`bussrv.wire.websocket`.

1. The client asks for an upgrade. A page that may not connect is refused; see :mod:`bussrv.formats.websocket.origins`.
2. Then everything is as in :mod:`bussrv.formats.objects.object_system`, except that each object is a message, and that
   no server links over a WebSocket.
3. At the end of a session, the server sends a close frame with the reason. The client closes its side, and the
   connection ends.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

from bussrv import events as ev
from bussrv.bus.interfaces import IBus
from bussrv.errors import OverLimit, RemoteProtocolError
from bussrv.formats.objects.object_system import ObjectsProtocol
from bussrv.formats.websocket.heartbeat import Heartbeat
from bussrv.formats.websocket.link import WebSocketLink
from bussrv.formats.websocket.origins import is_allowed
from bussrv.memory.bundle import Bundle
from bussrv.net.listening import StreamListener
from bussrv.net.session.backlog import Backlog
from bussrv.net.session.factory import StreamFactory
from bussrv.values import excerpt
from bussrv.wire.objects import BadObject, BusObject, ObjectReader
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


class WebSocketProtocol(ObjectsProtocol):
    """One WebSocket."""

    FORMAT = "websocket"
    READER: ClassVar[type[ObjectReader]] = WebSocketReader

    link: WebSocketLink
    _objects: WebSocketReader
    _heartbeat: Heartbeat | None = None

    def make_link(self, backlog: Backlog) -> WebSocketLink:
        """The link: it sends messages to the client."""
        return WebSocketLink(self, self.encoding(), self._bus.settings.max_outbound, backlog, self._bus.streams.outflow)

    def has_input(self) -> bool:
        """Frames of WebSocket may be left."""
        return True

    def next_event(self) -> BusObject | BadObject | None:
        """The next object. Serve the upgrade, pings and the close frame before it here."""
        while True:
            event = super().next_event()
            control = self._objects.take_control() if event is None else None
            if control is not None:
                self._serve_control(control)
            elif event is not None or not self._objects.has_more:
                return event
            if self.has_ended or self.link.is_closing or self.slice_is_over():
                return None

    def _serve_control(self, control: Control) -> None:
        if isinstance(control, Upgrade):
            self._upgrade(control)
        elif isinstance(control, Pinged):
            self.link.send_control(pong(control.payload))
        else:
            assert isinstance(control, ClosedByClient)
            self.link.closed_by_client()
            self._end_services("client-closed", partial(self.end, "client-closed"))

    def _upgrade(self, asked: Upgrade) -> None:
        settings = self._bus.settings
        if not is_allowed(asked.origins, asked.host, settings.websocket_origin):
            self._refuse_page(", ".join(asked.origins))
            return
        self.link.send_control(self._objects.accept())
        seconds, heard = partial(getattr, settings, "websocket_ping"), partial(getattr, self.traffic, "bytes_in")
        self._heartbeat = Heartbeat(seconds, heard, self._ping, self._silent, self.reactor)

    def _refuse_page(self, origin: str) -> None:
        reason = "origin-not-allowed"
        self._bus.counters[reason] += 1
        about = {**self.session().about(), "reason": reason}
        denied = ev.AccessDenied(action="join", target=excerpt(origin), rule="--websocket-origin", **about)
        self._bus.registry.note_from_stranger(denied)
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
        self._bus.counters["ping-timeout"] += 1
        self.end("ping-timeout")

    async def join_server(self, obj: BusObject) -> None:
        """Refuse a link to another server: only the wire format ``objects`` has links."""
        self.refuse(obj.head.id, "bad-subscription", "servers link over the wire format objects, not over a WebSocket")

    def not_admitted(self, refused: OverLimit) -> None:
        """Tell the client why it is not admitted."""
        self.transport.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{refused.reason}: {refused.message}"))

    def last_words(self, reason: str) -> Bundle | None:
        """The ``error`` as a message, and the close frame."""
        words = super().last_words(reason)
        if words is None or not (last := self._objects.close(reason)):
            return None
        return Bundle([*as_messages(words.frames), last])

    def malformed(self, error: RemoteProtocolError) -> None:
        """Tell the client what was malformed."""
        if self._objects.is_open:
            if self._objects.has_close:
                self.link.closed_by_client()
            super().malformed(error)
        else:
            self.transport.write(refusal(HTTPStatus.UPGRADE_REQUIRED, f"{error.reason}: {error}"))

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk. After the end of the session, look only for the close frame of the client."""
        if not self.has_ended:
            super().dataReceived(data)
        elif self.link is not None and self.link.waits_for_close:
            self._objects.feed(data)
            if self._objects.skip_to_close():
                self.link.closed_by_client()

    def readConnectionLost(self) -> None:
        """The client sends no more bytes, so no close frame either."""
        if self.link is not None:
            self.link.closed_by_client()
        super().readConnectionLost()

    def closed(self, reason: str) -> None:
        """The session is closed: tell the client why."""
        super().closed(reason)
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.end()
        self.link.send_close(self._objects.close(reason))
        if self._is_paused:
            self._is_paused = False
            self.transport.resumeProducing()


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve WebSockets; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(WebSocketProtocol, bus, reactor), endpoint, reactor)
