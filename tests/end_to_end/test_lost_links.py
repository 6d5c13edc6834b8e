"""A server that dialed this one and is gone stays visible to the operators of this one."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes


class Hall:
    """The server that is dialed."""

    def __init__(self, server: RunningServer, token: str) -> None:
        self.server = server
        self._token = token

    def ask(self, path: str, method: str = "GET") -> Any:
        connection = http.client.HTTPConnection(*self.server.addresses["admin"], timeout=10)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return json.loads(body) if body else answer.status

    def next_about(self, event: str) -> dict[str, Any]:
        """The next line of the log with that event."""
        while True:
            line = self.server.next_line()
            if line.startswith("{") and json.loads(line).get("event") == event:
                found: dict[str, Any] = json.loads(line)
                return found

    def health(self) -> str:
        status: str = self.ask("/readyz")["checks"]["links"]["status"]
        return status

    def links(self) -> list[tuple[Any, ...]]:
        items = self.ask("/api/v1/links")["items"]
        return [(each["routing_id"], each["state"], each["reason"], each["dialed"]) for each in items]


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    options = ["--server-id", "hall", "--link-allow", "127.0.0.1", "--log-format", "json"]
    with ForkedServer(tmp_path / "hall", options) as server:
        yield Hall(server, (tmp_path / "hall.admin-token").read_text().strip())


@contextmanager
def attic(directory: Path, hall: Hall) -> Iterator[RunningServer]:
    """The server that dials, once the link is up on both sides."""
    dialed = f"tcp:127.0.0.1:{hall.server.port('objects')}"
    with ForkedServer(directory / "attic", ["--server-id", "attic", "--link", dialed]) as server:
        hall.next_about("link.up")
        while "link to hall" not in server.next_line():
            pass
        yield server


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGKILL, "connection-lost"), (signal.SIGTERM, "server-stopped")]
)
def test_a_dialed_server_misses_one_until_it_is_back_or_removed(
    tmp_path: Path, hall: Hall, number: int, reason: str
) -> None:
    assert (hall.health(), hall.links()) == ("ok", [])
    for _ in range(2):
        with attic(tmp_path, hall) as other:
            assert (hall.health(), hall.links()) == ("ok", [("attic", "up", None, False)])
            other.stop(number)
        down = hall.next_about("link.down")
        assert (down["level"], down["server"]) == ("warn", "attic")
        assert down["message"].endswith(f"is down: {reason}, session {down['session']}")
        assert (hall.health(), hall.links()) == ("degraded", [("attic", "down", reason, False)])
    assert hall.ask("/api/v1/links/attic", "DELETE") == 204
    assert (hall.health(), hall.links()) == ("ok", [])


def test_the_dialing_server_says_why_it_lost_the_other(tmp_path: Path, hall: Hall) -> None:
    with attic(tmp_path, hall) as other:
        hall.server.stop(signal.SIGTERM)
        while "link to hall" not in (line := other.next_line()):
            pass
    assert "#warn" in line
    assert "is down: server-stopped" in line
