"""MQTT over WebSocket: connections of clients that offered its subprotocol on the port of WebSocket.

A session is the same as over TCP: of the wire format ``mqtt``, and with one set of client ids. Source: section 6.
"""

from __future__ import annotations

from typing import Any

from bussrv.formats.mqtt.link import MqttLink
from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.formats.websocket.socket import WebSocket
from bussrv.plugin import Bundle, Reader, RemoteProtocolError
from bussrv.wire.frames import as_messages
from bussrv.wire.mqtt.over_websocket import FramedMqttReader
from bussrv.wire.mqtt.reader import MqttReader


class MqttSocketLink(MqttLink):
    """The link over a WebSocket: each packet is a message."""

    def pass_on(self, bundle: Bundle) -> None:
        """Send packets, each as a message. Clients that get the same packets share the bytes of the messages."""
        super().pass_on(bundle.in_form(as_messages))

    def send_as_it_is(self, bundle: Bundle) -> None:
        """Send bytes that are no message."""
        super().pass_on(bundle)


class MqttSocketProtocol(MqttProtocol):
    """One connection over WebSocket."""

    LINK = MqttSocketLink
    link: MqttSocketLink

    def make_reader(self) -> Reader:
        """Reads packets from messages."""
        packets = super().make_reader()
        assert isinstance(packets, MqttReader), "over TCP, packets are read as they are"
        self._framed = FramedMqttReader(packets)
        self._socket = WebSocket(self._framed)
        return self._framed

    def next_event(self) -> Any:
        """The next packet."""
        before = self._framed.size
        event = self._socket.next_event(self, super().next_event)
        if self._framed.size > before:
            super().heard()
        return event

    def heard(self) -> None:
        """Frames came, perhaps only pings. They do not keep a client alive: packets do [MQTT-3.1.2-22]."""

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk. After the end of the session, look only for the close frame of the client."""
        if not self._socket.take(self, data):
            super().dataReceived(data)

    def last_words(self, reason: str) -> Bundle | None:
        """DISCONNECT as a message, and the close frame."""
        return self._socket.last_words(super().last_words(reason), reason)

    def malformed(self, error: RemoteProtocolError) -> None:
        """Tell the client what was malformed."""
        if self._socket.malformed(self, error):
            super().malformed(error)

    def readConnectionLost(self) -> None:
        """The client sends no more bytes, so no close frame either."""
        self._socket.no_more_comes(self)
        super().readConnectionLost()

    def closed(self, reason: str) -> None:
        """The session is closed: tell the client why."""
        super().closed(reason)
        self._socket.closed(self, reason)
