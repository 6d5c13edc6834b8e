"""A server of another make, as deployed ones speak: written from their protocol alone, on a plain socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any

PATIENCE = 10.0

Fields = dict[str, Any]


class ForeignServer:
    """One link of a foreign server, and what it says over it; a context manager.

    :ivar subscriptions: what it asks for: ``"all"`` or ``["*"]``.
    :ivar port: where it listens.
    :ivar heard: every object that came, with its payload.
    """

    def __init__(self, name: str, subscriptions: Any) -> None:
        self.name = name
        self.heard: list[tuple[Fields, bytes]] = []
        self.subscriptions = subscriptions
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE)
        self.port: int = self._listening.getsockname()[1]
        self._socket: socket.socket | None = None
        self._buffer = b""

    def __enter__(self) -> ForeignServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hang_up()
        self._listening.close()

    def hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # Linking.

    def accept(self, route: bool = True) -> str:
        """Be dialed, and take the link. :returns: the routing id of the server that dialed."""
        self._socket, _ = self._listening.accept()
        self._socket.settimeout(PATIENCE)
        self._buffer = b""
        asked, _ = self.hear(lambda each: each.get("event") == "routing/subscribe")
        self._answer(asked)
        self._subscribe(route)
        self.hear(lambda each: each.get("event") == "routing/subscribe/reply")
        return str(asked["routing-id"])

    def accept_and_hang_up(self, last_words: bytes = b"") -> None:
        """Be dialed, say something perhaps, and break off."""
        with self._listening.accept()[0] as dialed:
            dialed.sendall(last_words)
            dialed.recv(1 << 16)

    def dial(self, port: int, route: bool = True) -> str:
        """Dial, and be taken. :returns: the routing id of the server that was dialed."""
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._subscribe(route)
        self.hear(lambda each: each.get("event") == "routing/subscribe/reply")
        asked, _ = self.hear(lambda each: each.get("event") == "routing/subscribe")
        self._answer(asked)
        return str(asked["routing-id"])

    def _subscribe(self, route: bool) -> None:
        fields = {"event": "routing/subscribe", "role": "server", "routing-id": self.name}
        passed = {"route": [self.name]} if route else {}
        self.send({**fields, "subscriptions": self.subscriptions, **passed})

    def _answer(self, asked: Fields) -> None:
        assert asked["role"] == "server"
        assert asked["subscriptions"] in ("all", ["*"])
        assert len(asked.get("route", [])) <= 1
        reply = {"event": "routing/subscribe/reply", "routing-id": asked["routing-id"], "routing-ids": []}
        self.send({**reply, **({"in-reply-to": asked["id"]} if "id" in asked else {})})

    # Objects.

    def send(self, fields: Fields, payload: bytes = b"") -> None:
        size = {"size": len(payload)} if payload else {}
        assert self._socket is not None
        self._socket.sendall(json.dumps({**fields, **size}).encode() + b"\0" + payload)

    def send_bytes(self, data: bytes) -> None:
        """Objects, one behind the other, as they go over the wire."""
        assert self._socket is not None
        self._socket.sendall(data)

    def pass_on(self, client: str, fields: Fields, payload: bytes = b"", *, own: bool = True) -> None:
        """Pass on an object of a client. Some servers leave it to the other one to add them to the route."""
        self.send({**fields, "route": [client, self.name] if own else [client]}, payload)

    def hear(self, wanted: Callable[[Fields], bool], since: int = 0) -> tuple[Fields, bytes]:
        """The first object that is wanted, of those that came and those that will."""
        for each in self.heard[since:]:
            if wanted(each[0]):
                return each
        while True:
            self.heard.append(self._receive())
            if wanted(self.heard[-1][0]):
                return self.heard[-1]

    def _receive(self) -> tuple[Fields, bytes]:
        while b"\0" not in self._buffer:
            self._read()
        metadata, _, self._buffer = self._buffer.partition(b"\0")
        fields = json.loads(metadata)
        size = fields.get("size", 0)
        while len(self._buffer) < size:
            self._read()
        payload, self._buffer = self._buffer[:size], self._buffer[size:]
        return fields, payload

    def _read(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the link was closed")
        self._buffer += data
