"""The link to one client over a WebSocket: each object is a message, and the connection ends with a close frame."""

from __future__ import annotations

from bussrv.memory.bundle import Bundle
from bussrv.net.session.link import StreamLink
from bussrv.wire.websocket import as_messages


class WebSocketLink(StreamLink):
    """The link over a WebSocket.

    :ivar waits_for_close: whether the client was sent a close frame, and has not answered it.
    """

    waits_for_close = False
    _client_has_closed = False

    @property
    def has_sent_all(self) -> bool:
        """Whether no bytes wait to be sent to the client."""
        return not self._backlog

    def send(self, bundle: Bundle) -> None:
        """Send objects, each as a message. Clients that get the same objects share the bytes of the messages."""
        super().send(bundle.in_form(as_messages))

    def send_control(self, frame: bytes) -> None:
        """Send a control frame or a response, after everything that was sent before."""
        if frame and not self.is_closing:
            super().send(Bundle([frame]))
            self._protocol.traffic.objects_out -= 1

    def send_close(self, frame: bytes) -> None:
        """Send the last frame. The connection stays until the client has answered it."""
        if frame and not self.is_closing:
            self.send_control(frame)
            self.waits_for_close = not self._client_has_closed

    def finish(self) -> None:
        """Send what is queued, then close the connection, once the client has closed its side."""
        self._outflow.give_kept(self)
        self.is_closing = True
        if not self.waits_for_close:
            super().finish()

    def closed_by_client(self) -> None:
        """Note that the client has closed its side."""
        self._client_has_closed = True
        self.waits_for_close = False
        if self.is_closing:
            self.finish()
