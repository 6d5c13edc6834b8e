"""The client's end of a WebSocket in memory: frames are made and read by wsproto, as a client has them."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto import events as ws

from bussrv.formats.websocket.protocol import WebSocketProtocol
from bussrv.net.session.protocol import StreamProtocol
from bussrv.wire.objects import NUL, encode
from tests.formats.network import Connection, Member, Network

HOST = "127.0.0.1:7892"
LINKED = "127.0.0.1"
"""The address of servers that link. They use no WebSocket."""


class SocketConnection(Connection):
    """A WebSocket for tests of streams: each object is a message on its way, in both directions.

    :ivar events: everything that came, except messages.
    """

    def __init__(
        self,
        protocol: StreamProtocol,
        host: str | None = "10.0.0.1",
        *,
        origin: str | None = None,
        asked: str = HOST,
        offers: Sequence[str] = (),
    ) -> None:
        super().__init__(protocol, host)
        self.socket = WSConnection(ConnectionType.CLIENT)
        self.events: list[ws.Event] = []
        self._arrived: list[bytes] = []
        self._begun = b""
        headers = [] if origin is None else [(b"Origin", origin.encode())]
        self.say(ws.Request(host=asked, target="/bus", extra_headers=headers, subprotocols=list(offers)))
        self._read()

    def say(self, event: ws.Event) -> None:
        super().send_bytes(self.socket.send(event))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes of a stream at once: a fragment of each object that they hold a part of."""
        while data and self.is_open:
            size = _size_of_first(self._begun + data)
            part = data[: size - len(self._begun)] if size else data
            self._begun = b"" if size else self._begun + data
            data = data[len(part) :]
            self.say(ws.BytesMessage(part, message_finished=bool(size)))

    def _read(self) -> None:
        """Read what came: messages, each in one frame. A close frame is answered."""
        data = super().take()
        if data:
            self.socket.receive_data(data)
        for event in self.socket.events():
            if isinstance(event, ws.BytesMessage):
                assert event.message_finished
                self.check(bytes(event.data))
                self._arrived.append(bytes(event.data))
            else:
                self.events.append(event)
                if isinstance(event, ws.CloseConnection) and self.transport.connected:
                    super().send_bytes(self.socket.send(event.response()))

    def check(self, message: bytes) -> None:
        """Check that a message of the server is one object."""
        assert _size_of_first(message) == len(message)

    @property
    def is_open(self) -> bool:
        self._read()
        return bool(self.transport.connected)

    def messages(self) -> list[bytes]:
        """The messages since the last time."""
        self._read()
        found, self._arrived = self._arrived, []
        return found

    def take(self) -> bytes:
        return b"".join(self.messages())

    def close_frame(self) -> tuple[int, str]:
        """The code and the reason that the server closed for."""
        self._read()
        (closing,) = (event for event in self.events if isinstance(event, ws.CloseConnection))
        return int(closing.code), str(closing.reason)


def _size_of_first(data: bytes) -> int:
    """The size of the first object, and 0 if it is not whole yet. What is no object ends with the data."""
    end = data.find(NUL)
    if end < 0:
        return 0
    try:
        size = json.loads(data[:end]).get("size", 0)
    except (ValueError, AttributeError, RecursionError):
        size = None
    if type(size) is not int or size < 0:
        return len(data)
    whole = end + 1 + size
    return whole if whole <= len(data) else 0


class Browser(Member):
    """A client of WebSocket."""

    connection: SocketConnection

    def __init__(self, network: Network, **connecting: Any) -> None:
        super().__init__(SocketConnection(network.factory("websocket").buildProtocol(None), **connecting))

    def send(self, fields: dict[str, Any], payload: bytes = b"") -> None:
        self.connection.say(ws.BytesMessage(encode(fields, payload)))


def web_member(network: Network, **subscription: Any) -> Browser:
    """A member of the object network on a WebSocket, whose subscription was answered."""
    browser = Browser(network)
    browser.send({"event": "routing/subscribe", **network.proving, **subscription})
    browser.routing_id = browser.only_reply()["routing-id"]
    return browser


def use_websockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each client of Object System connect over a WebSocket, and the server call it ``objects``."""
    connect = Network.connect

    def over_websocket(network: Network, name: str, host: str | None = "10.0.0.1") -> Connection:
        if name != "objects" or host == LINKED:
            return connect(network, name, host)
        # Those who only wait in these tests answer nothing.
        object.__setattr__(network.bus.settings, "websocket_ping", 0.0)
        return SocketConnection(network.factory("websocket").buildProtocol(None), host)

    monkeypatch.setattr(Network, "connect", over_websocket)
    monkeypatch.setattr(WebSocketProtocol, "FORMAT", "objects")
