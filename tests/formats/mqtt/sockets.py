"""The client's end of MQTT over WebSocket, in memory."""

from __future__ import annotations

from typing import Any

import pytest
from wsproto import events as ws

from tests.formats.network import Connection, Network
from tests.formats.websocket.browser import SocketConnection


class MqttSocket(SocketConnection):
    """A WebSocket for tests of streams of packets: all bytes that are sent at once are a message."""

    def __init__(
        self, network: Network, host: str | None = "10.0.0.1", offers: tuple[str, ...] = ("mqtt",), **more: Any
    ) -> None:
        super().__init__(network.factory("websocket").buildProtocol(None), host, offers=offers, **more)
        if self.transport.connected:
            self.protocol = self.transport.protocol

    def send_bytes(self, data: bytes) -> None:
        """Send bytes of a stream."""
        if self.is_open:
            self.say(ws.BytesMessage(data))

    def check(self, message: bytes) -> None:
        """Check that a message of the server is one packet."""
        end = next(place for place in range(1, 5) if message[place] < 0x80) + 1
        length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(message[1:end]))
        assert len(message) == end + length


def use_websockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each client of MQTT connect over a WebSocket."""
    connect = Network.connect

    def over_websocket(network: Network, name: str, host: str | None = "10.0.0.1") -> Connection:
        return MqttSocket(network, host) if name == "mqtt" else connect(network, name, host)

    monkeypatch.setattr(Network, "connect", over_websocket)
