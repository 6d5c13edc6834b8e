"""Programs as they are in the field, down to the socket, against a server that runs as a user would run it."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

PATIENCE = 20.0


class Program:
    """What a deployed program makes of a socket; nothing of it is taken from the server's own code."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._stream = self._socket.makefile("rb")

    def say(self, *sayings: str | tuple[str, bytes]) -> None:
        """Everything in one piece, as it stands here; a payload goes right behind its metadata."""
        pieces = [saying if isinstance(saying, tuple) else (saying, b"") for saying in sayings]
        self._socket.sendall(b"".join(metadata.encode() + b"\0" + payload for metadata, payload in pieces))

    def hear(self) -> tuple[dict[str, Any], bytes]:
        metadata = b""
        while (byte := self._stream.read(1)) != b"\0":
            assert byte, f"the server closed the connection behind {metadata!r}"
            metadata += byte
        fields = json.loads(metadata)
        return fields, self._stream.read(fields.get("size", 0))

    def hear_of(self, event: str) -> tuple[dict[str, Any], bytes]:
        """The next of these events; others are none of the program's business."""
        while True:
            fields, payload = self.hear()
            if fields.get("event") == event:
                return fields, payload

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path / "journal", ["--server-id", "hall", "--link-allow", "127.0.0.1"]) as running:
        yield running


@pytest.fixture
def programs(server: RunningServer) -> Iterator[list[Program]]:
    """A service, a client and an office of the older vocabulary, connected."""
    ports = [server.port(name) for name in ("objects", "objects", "business")]
    connected = [Program(port) for port in ports]
    yield connected
    for program in connected:
        program.close()


def test_members_are_told_of_a_server_that_it_is_one(programs: list[Program]) -> None:
    """By the role in the notification; and when it is gone, by its routing id."""
    deployed, server, _ = programs
    deployed.say('{"event":"routing/subscribe","subscriptions":"all"}')
    assert deployed.hear()[0]["event"] == "routing/subscribe/reply"
    server.say('{"event":"routing/subscribe","role":"server","routing-id":"cellar","subscriptions":["*"]}')
    reply, _ = server.hear_of("routing/subscribe/reply")
    assert reply["routing-id"] == "cellar"
    told, _ = deployed.hear()
    assert (told["event"], told["role"]) == ("routing/subscribe/notification", "server")
    assert (told["routing-id"], told["routing-ids"]) == ("cellar", [])
    server.close()
    gone, _ = deployed.hear()
    assert (gone["event"], gone["routing-id"]) == ("routing/disconnect", "cellar")


def test_deployed_programs_find_each_other(server: RunningServer, programs: list[Program]) -> None:
    """A service that never registers answers a client that never waits; both learn what their rules let them learn."""
    service, client, office = programs

    service.say('{"event":"routing/subscribe","subscriptions":["@routing/*","@services/*","@ping","@pong"]}')
    subscribed, _ = service.hear()
    assert subscribed["event"] == "routing/subscribe/reply"
    assert "in-reply-to" not in subscribed

    office.say(
        '{"event":"clients/register","id":"o-1","receive":"no_echo","subscriptions":["image/*"],"name":"java-tv"}'
    )
    registered, _ = office.hear()
    assert (registered["event"], registered["in-reply-to"]) == ("clients/register/reply", "o-1")
    told, _ = service.hear()
    assert (told["event"], told["routing-id"]) == ("routing/subscribe/notification", registered["routing-id"])

    client.say(
        '{"event":"routing/subscribe","id":"c-1","receive-mode":"all",'
        '"subscriptions":["!*",["@services/reply",["text/*"]],["@ping"]]}',
        '{"event":"ping","id":"c-2"}',
        ('{"event":"services/request","id":"c-3","service":"clock","type":"text/plain","size":4}', b"now\0"),
        ('{"type":"image/png","size":3,"sender":"ann","n":1.0}', b"\0\xff\0"),
    )
    reply, _ = client.hear()
    assert (reply["event"], reply["in-reply-to"]) == ("routing/subscribe/reply", "c-1")
    pong, _ = client.hear()
    assert (pong["event"], pong["in-reply-to"]) == ("pong", "c-2")
    # Its own request is text, which its rules let pass.
    echo, payload = client.hear()
    assert (echo["event"], echo["id"], payload) == ("services/request", "c-3", b"now\0")

    told, _ = service.hear()
    assert (told["event"], told["routing-id"]) == ("routing/subscribe/notification", reply["routing-id"])
    request, payload = service.hear()
    assert (request["event"], request["service"], request["id"]) == ("services/request", "clock", "c-3")
    assert (request["route"], payload) == ([reply["routing-id"], "hall"], b"now\0")
    answer = {"event": "services/reply", "in-reply-to": request["id"], "to": request["route"][0], "size": 5}
    service.say((json.dumps(answer), b"12:00"))
    answered, payload = client.hear()
    assert (answered["event"], answered["in-reply-to"], payload) == ("services/reply", "c-3", b"12:00")
    assert answered["route"] == [subscribed["routing-id"], "hall"]
    assert "type" not in answered

    request, _ = office.hear_of("services/request")
    assert request["id"] == "c-3"
    image, payload = office.hear()
    assert (image["type"], image["sender"], image["n"], payload) == ("image/png", "ann", 1.0, b"\0\xff\0")
    assert image["id"]

    client.close()
    gone, _ = service.hear()
    assert (gone["event"], gone["routing-id"]) == ("routing/disconnect", reply["routing-id"])
    assert server.stop() == 0
    assert not any("Traceback" in line for line in server.lines)
