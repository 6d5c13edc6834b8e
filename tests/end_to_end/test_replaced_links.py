"""A program that links over a UNIX socket, hangs, and is started anew: its new link takes the place of the old one."""

from __future__ import annotations

import json
import socket
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.wire.objects import encode
from tests.end_to_end.journals import events_of
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

FLOOD = 40
LARGE = b"x" * 100_000
UPLINK = {"role": "server", "routing-id": "uplink", "subscriptions": ["*"], "directory": True}


class Connected:
    """A client, or a server, over a UNIX socket. It hears objects without payloads."""

    def __init__(self, path: Path, **subscription: Any) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(20)
        self.connection.connect(str(path))
        self._buffer = b""
        self.send({"event": "routing/subscribe", **subscription})
        self.hear("routing/subscribe/reply")

    def send(self, fields: dict[str, Any], payload: bytes = b"") -> None:
        self.connection.sendall(encode(fields, payload))

    def hear(self, event: str) -> dict[str, Any]:
        """The next object with that event."""
        while True:
            while b"\0" not in self._buffer:
                received = self.connection.recv(1 << 16)
                assert received, "the connection is closed"
                self._buffer += received
            head, _, self._buffer = self._buffer.partition(b"\0")
            fields: dict[str, Any] = json.loads(head)
            if fields.get("event") == event:
                return fields

    def hear_the_end(self) -> None:
        """The server closes the connection."""
        with suppress(ConnectionResetError):
            while self.connection.recv(1 << 20):
                pass

    def close(self) -> None:
        self.connection.close()


def test_a_program_that_hangs_and_restarts_is_linked_again(tmp_path: Path) -> None:
    path = tmp_path / "bus"
    options = ["--objects", f"unix:{path}", "--link-allow", "unix", "--server-id", "hall"]
    with ForkedServer(tmp_path / "journal", options) as server:
        with closing(Connected(path, **UPLINK)) as older, closing(Connected(path, subscriptions=["@note"])) as member:
            for _ in range(FLOOD):
                member.send({"type": "a/b"}, LARGE)  # The older one reads nothing of it.
            with closing(Connected(path, **UPLINK)) as newer:
                newer.send({"event": "note", "id": "1", "route": ["uplink"]})
                assert member.hear("note")["route"] == ["uplink", "hall"]
                older.hear_the_end()
        assert server.stop() == 0
    assert events_of(tmp_path / "journal", ev.LinkDown)[0].reason == "replaced"
