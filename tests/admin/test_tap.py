"""``/api/v1/tap`` of a server in a process of its own."""

from __future__ import annotations

import http.client
import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.client import inbus
from bussrv.client.business import BusinessClient
from bussrv.client.objects import ObjectsClient
from bussrv.journal.reading import read_journal
from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer
from tests.logins import USERS
from tests.resident import resident

pytestmark = pytest.mark.processes

Event = tuple[str, Any]


class Stream:
    """A tap that is open, unless it was refused."""

    def __init__(self, server: RunningServer, query: str = "", headers: dict[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection(*server.addresses["admin"], timeout=20)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        self._connection.request(
            "GET", f"/api/v1/tap{query}", headers={"Content-Type": "application/json", **(headers or {})}
        )
        self.answer = self._connection.getresponse()
        if self.answer.status == 200:
            assert [self.answer.readline() for _ in range(2)] == [b":\n", b"\n"]

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.answer.close()
        self._connection.close()

    def events(self) -> Iterator[Event]:
        """Each event and its data, which is one line."""
        name = ""
        while line := self.answer.readline():
            field, _, value = line.decode().rstrip("\n").partition(": ")
            assert field in ("", ":", "event", "data"), line
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)

    def some(self, number: int) -> list[dict[str, Any]]:
        """The next objects."""
        events = self.events()
        found = [next(events) for _ in range(number)]
        assert {name for name, _ in found} == {"object"}
        return [shown for _, shown in found]


def actions(journal: Path) -> list[tuple[str, str, str | None]]:
    found = (each.event for each in read_journal(journal))
    return [(each.action, each.target, each.actor) for each in found if isinstance(each, ev.AdminAction)]


def test_objects_of_each_format_are_shown_and_that_is_journaled(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--server-id", "hall"]) as server:
        with (
            ObjectsClient(port=server.port("objects")) as maker,
            BusinessClient(port=server.port("business")) as office,
        ):
            maker.subscribe(receive_mode="no_echo", routing_id="maker")
            office.register(receive="no_echo", unique_routing_id="office")
            with Stream(server, "?payload=1&rate=500") as stream:
                maker.send({"event": "note", "id": "n1", "odd": 2**70}, b"hi")
                (first,) = stream.some(1)
                office.send({"type": "text/x"})
                inbus.publish("lamp", b"on", server=server.addresses["inbus"])
                others = stream.some(2)
        assert first.pop("from").pop("session")
        assert first.pop("time").endswith("Z")
        assert first == {
            "to_count": 1,
            "event": "note",
            "type": None,
            "service": None,
            "bytes": 2,
            "metadata": {"event": "note", "id": "n1", "odd": 2**70, "size": 2, "route": ["maker", "hall"]},
            "payload": b64encode(b"hi").decode(),
        }
        assert {(each["from"]["protocol"], each["service"]) for each in others} == {
            ("business", None),
            ("inbus", "lamp"),
        }
        assert server.stop() == 0
    assert not [line for line in server.lines if "Traceback" in line or "Unhandled" in line]
    assert actions(tmp_path / "journal") == [
        ("tap", "rate=500 payload=1", None),
        ("tap-ended", "shown=3 skipped=0", None),
    ]


def test_metadata_of_a_client_cannot_pose_as_events(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal") as server, socket.create_connection(server.addresses["objects"]) as client:
        client.sendall(b'{"event":"routing/subscribe"}\0')
        client.recv(1000)
        with Stream(server) as stream:
            client.sendall(b'{"event"\r\n\n:\r\r"x\\r\\n\\ndata: y"\n\n,"more":[\r\n1\r]}\0')
            (shown,) = stream.some(1)
    assert shown["event"] == "x\r\n\ndata: y"
    assert shown["metadata"]["more"] == [1]


def test_a_tap_that_is_not_read_loses_objects_and_delays_nobody(tmp_path: Path) -> None:
    """Twice what may wait is sent at once; another member gets all of it meanwhile."""
    number, payload = 150, bytes(60_000)
    with ForkedServer(tmp_path / "journal") as server:
        with (
            ObjectsClient(port=server.port("objects"), timeout=30) as maker,
            ObjectsClient(port=server.port("objects"), timeout=30) as other,
            Stream(server, "?payload=1&rate=1000&type=a/b") as stream,
        ):
            maker.subscribe(receive_mode="none")
            other.subscribe(types=["a/b"])
            before = resident(server)
            for each in range(number):
                maker.send({"type": "a/b", "n": each}, payload)
                assert other.wait_for(lambda got: got.metadata.get("type") == "a/b").metadata["n"] == each
            grown = resident(server) - before
            shown = skipped = 0
            for name, data in stream.events():
                shown += name == "object"
                skipped += data["count"] if name == "skipped" else 0
                if shown + skipped == number:
                    break
        assert server.stop() == 0
    assert shown >= 10
    assert skipped >= number // 2
    assert grown < 24 << 20
    assert actions(tmp_path / "journal")[-1][1] == f"shown={shown} skipped={skipped}"


def test_without_a_journal_that_takes_it_there_is_no_tap(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--journal-min-free", str(1 << 60)]) as server:
        address = server.addresses["admin"]
        connection = http.client.HTTPConnection(*address, timeout=20)
        connection.request("GET", "/api/v1/tap", headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
    assert (answer.status, said["type"].rpartition(":")[2]) == (503, "journal-unavailable")


def test_the_end_of_the_server_ends_a_tap(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal") as server, Stream(server):
        assert server.stop() == 0
    assert [action for action, _, _ in actions(tmp_path / "journal")] == ["tap", "tap-ended"]


POLICY = """
[[rule]]
users = "*"
send = "*"
observe = ["@*", "text/*"]
[[rule]]
users = "ops"
admin = "read"
"""


def test_a_tap_shows_what_its_user_may_observe(tmp_path: Path) -> None:
    users, policy = tmp_path / "users", tmp_path / "policy.toml"
    cheap = USERS["ann"].made_of(b"secret")
    users.write_text("".join(f"{user}:{cheap}\n" for user in ("ann", "ops")))
    users.chmod(0o600)
    policy.write_text(POLICY)
    policy.chmod(0o600)
    with ForkedServer(tmp_path / "journal", ["--auth", f"users:{users}", "--policy", str(policy)]) as server:
        with ObjectsClient(port=server.port("objects")) as ann:
            ann.subscribe(user="ann", secret="secret", receive_mode="none")
            with Stream(server, headers=basic("ops")) as stream:
                for kind in ("image/png", "text/plain"):
                    ann.send({"type": kind}, b"x")
                assert [each["type"] for each in stream.some(1)] == ["text/plain"]
            with Stream(server, headers=basic("ann")) as stream:
                assert stream.answer.status == 403
            with Stream(server) as stream:
                assert stream.answer.status == 401
        assert server.stop() == 0
    assert [(action, actor) for action, _, actor in actions(tmp_path / "journal")] == [
        ("tap", "ops"),
        ("tap-ended", "ops"),
    ]


def basic(user: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{user}:secret'.encode()).decode()}"}


@pytest.mark.parametrize("query", ["?rate=0", "?rate=1001", "?sample=0", "?payload=maybe", "?color=red"])
def test_a_wrong_parameter_is_refused_before_a_record_is_written(query: str, one_server: RunningServer) -> None:
    with Stream(one_server, query) as stream:
        assert stream.answer.status == 400


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    journal = tmp_path_factory.mktemp("tap") / "journal"
    with ForkedServer(journal) as server:
        yield server
        assert server.stop() == 0
    assert actions(journal) == []
