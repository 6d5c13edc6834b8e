"""WebSocket: the vocabulary of Object System for web pages.

1. The first request of a connection begins its session; see :mod:`bussrv.formats.websocket.request`. If the client
   offers the subprotocol of another wire format, that format serves the connection from then on.
2. Otherwise everything is as in :mod:`bussrv.formats.objects.object_system`, except that each object is a message, and
   that no server links over a WebSocket. :mod:`bussrv.formats.websocket.socket` has the upgrade and the end.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from bussrv.formats.objects.members import MemberProtocol
from bussrv.formats.objects.object_input import NextObject
from bussrv.formats.objects.object_system import OBJECT_SYSTEM
from bussrv.formats.websocket.request import FirstRequest, choose_subprotocol
from bussrv.formats.websocket.socket import WebSocket
from bussrv.net.session.input_states import State
from bussrv.plugin import (
    Backlog,
    Bundle,
    IBus,
    OverLimit,
    RemoteProtocolError,
    StreamFactory,
    StreamLink,
    StreamListener,
)
from bussrv.wire.frames import as_messages, refusal
from bussrv.wire.objects import ObjectReader
from bussrv.wire.websocket import SUBPROTOCOL, WebSocketReader


class WebSocketLink(StreamLink):
    """The link over a WebSocket: each object is a message."""

    def send(self, bundle: Bundle) -> None:
        """Send objects, each as a message. Clients that get the same objects share the bytes of the messages."""
        super().send(bundle.in_form(as_messages))

    def send_as_it_is(self, bundle: Bundle) -> None:
        """Send bytes that are no message."""
        super().send(bundle)


class WebSocketProtocol(MemberProtocol):
    """One WebSocket."""

    FORMAT = "websocket"
    VOCABULARY = OBJECT_SYSTEM
    READER: ClassVar[type[ObjectReader]] = WebSocketReader

    link: WebSocketLink
    objects: WebSocketReader
    _request: FirstRequest | None = None  # there is no session until it is read

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

    def make_reader(self) -> ObjectReader:
        """Reads objects from messages."""
        reader = super().make_reader()
        self._socket = WebSocket(self.objects)
        return reader

    def make_link(self, backlog: Backlog) -> WebSocketLink:
        """The link: it sends messages to the client."""
        return WebSocketLink(self, self.encoding(), self.bus.settings.max_outbound, backlog, self.bus.streams.outflow)

    def has_input(self) -> bool:
        """Frames of WebSocket may be left."""
        return True

    def next_event(self) -> NextObject:
        """The next object."""
        event: NextObject = self._socket.next_event(self, super().next_event)
        return event

    def not_admitted(self, refused: OverLimit) -> None:
        """Tell the client why it is not admitted."""
        self.transport.write(refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{refused.reason}: {refused.message}"))

    def last_words(self, reason: str) -> Bundle | None:
        """The ``error`` as a message, and the close frame."""
        return self._socket.last_words(super().last_words(reason), reason)

    def malformed(self, error: RemoteProtocolError) -> None:
        """Tell the client what was malformed."""
        if self._socket.malformed(self, error):
            super().malformed(error)

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk. After the end of the session, look only for the close frame of the client."""
        if self._request is not None:
            first = self._request.take(data)
            if first:
                self._open(first)
        elif not self._socket.take(self, data):
            super().dataReceived(data)

    def _open(self, first: bytes) -> None:
        """Open the session. Its input begins with the bytes ``first``."""
        others = self.bus.streams.subprotocols
        chosen = choose_subprotocol(first, {SUBPROTOCOL, *others})
        if chosen in others:
            self._hand_over(others[chosen](), first)
            return
        self._forget_request()
        self.is_admitted = True
        super().connectionMade()
        super().dataReceived(first)

    def _hand_over(self, served: Any, first: bytes) -> None:
        """Let another protocol serve the connection from now on."""
        transport = self.transport
        self.connectionLost()
        served.is_admitted = True
        transport.protocol = served
        served.makeConnection(transport)
        served.dataReceived(first)

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
            self._socket.no_more_comes(self)
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
        self._socket.closed(self, reason)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve WebSockets; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(WebSocketProtocol, bus, reactor), endpoint, reactor)
