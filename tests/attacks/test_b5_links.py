"""Attack: a program links in that nobody allowed; a server that links floods with sessions, and goes."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.attacks.bystanders import Bystanders, nobody_waits
from tests.attacks.watchers import Watchers
from tests.end_to_end.foreign import ForeignServer
from tests.forked import ForkedServer
from tests.size import sized

FLOOD = sized(6000)
SERVICES = sized(5000, 2)
SITES = sized(100, 10)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_no_program_of_this_machine_may_link_unless_allowed(tmp_path: Path, host: str) -> None:
    endpoint = f"tcp:0:interface={host}".replace("::1", r"\:\:1")
    with ForkedServer(tmp_path / "journal", ["--objects", endpoint]) as server:
        with socket.create_connection((host, server.port("objects")), 10) as connection:
            connection.sendall(
                b'{"event":"routing/subscribe","role":"server","routing-id":"evil","subscriptions":["*"]}\0'
            )
            answer = b""
            while data := connection.recv(1 << 16):
                answer += data
        assert json.loads(answer.rstrip(b"\0"))["reason"] == "link-not-allowed"
        assert server.stop() == 0


def test_a_flood_of_sessions_over_a_link_makes_nobody_wait(tmp_path: Path) -> None:
    with (
        ForkedServer(tmp_path / "journal", ["--link-allow", "127.0.0.1"]) as server,
        ForeignServer("foreign", ["*"]) as foreign,
        Bystanders(server) as bystanders,
        ObjectsClient(port=server.port("objects")) as member,
    ):
        member.subscribe()
        idle = bystanders.watch(0.5)
        foreign.dial(server.port("objects"))
        told = b"".join(
            json.dumps(
                {"event": "routing/subscribe/notification", "routing-id": f"far-{number}", "route": ["foreign"]}
            ).encode()
            + b"\0"
            for number in range(FLOOD)
        )
        with bystanders.during() as waits:
            foreign.send_bytes(told)
            member.wait_for(lambda each: each.metadata.get("routing-id") == f"far-{FLOOD - 1}", timeout=60)
            foreign.hang_up()
            gone = 0
            while gone < FLOOD + 1:
                member.wait_for(lambda each: each.metadata.get("event") == "routing/disconnect", timeout=60)
                gone += 1
        assert waits.worst() < max(0.1, 10 * idle.worst())
        assert server.stop() == 0


def test_a_directory_of_many_servers_makes_nobody_wait(tmp_path: Path) -> None:
    """A link advertises servers with 10 sessions and 1,000 services each, and goes."""
    told: list[dict[str, object]] = []
    for server_id in (f"site-{number:02}" for number in range(SITES)):
        about: dict[str, object] = {"event": "routing/subscribe/notification", "route": [server_id, "foreign"]}
        told.append({**about, "routing-id": server_id, "role": "server", "directory": True})
        for client in (f"{server_id}-{number}" for number in range(10)):
            told.append({**about, "routing-id": client})
            for begin in range(0, 100, 50):
                names = [f"{client}/{number:02}" for number in range(begin, begin + 50)]
                route = [client, server_id, "foreign"]
                told.append({"event": "services/register", "routing-id": client, "names": names, "route": route})
    with (
        ForkedServer(tmp_path / "journal", ["--link-allow", "127.0.0.1"]) as server,
        ForeignServer("foreign", ["*"]) as foreign,
        Watchers(server, 1) as watchers,
    ):
        foreign.dial(server.port("objects"))

        def come_and_go() -> None:
            foreign.send_bytes(b"".join(map(encode, told)))
            watchers.wait(spp.offer(f"site-{SITES - 1:02}-9/99"))
            foreign.hang_up()
            watchers.wait(spp.removed(f"site-{SITES - 1:02}-9/99"))

        nobody_waits(server, come_and_go)
        assert server.stop() == 0


def test_the_end_of_thousands_of_services_makes_nobody_wait(tmp_path: Path) -> None:
    """Each service that ends is told to every SPP client."""
    names = [f"service {number:04}" for number in range(SERVICES)]
    comes: list[dict[str, object]] = [{"event": "routing/subscribe/notification", "routing-id": "far"}]
    comes += [{"event": "services/register", "routing-id": "far", "name": name} for name in names]
    with (
        ForkedServer(tmp_path / "journal", ["--link-allow", "127.0.0.1"]) as server,
        ForeignServer("foreign", ["*"]) as foreign,
        Watchers(server, 20) as watchers,
    ):
        foreign.dial(server.port("objects"))

        def come_and_go() -> None:
            foreign.send_bytes(b"".join(encode({**each, "route": ["foreign"]}) for each in comes))
            watchers.wait(spp.offer(names[-1]))
            foreign.send({"event": "routing/disconnect", "routing-id": "far", "route": ["foreign"]})
            watchers.wait(spp.removed(names[-1]))

        nobody_waits(server, come_and_go)
        assert server.stop() == 0


def test_telling_a_link_of_thousands_of_sessions_delays_nobody(tmp_path: Path) -> None:
    options = ["--link-allow", "127.0.0.1", "--max-sessions", "20000"]
    with (
        ForkedServer(tmp_path / "journal", options) as server,
        ForeignServer("first", ["*"]) as first,
        ForeignServer("second", ["*"]) as second,
        Bystanders(server) as bystanders,
    ):
        first.dial(server.port("objects"))
        for number in range(FLOOD):
            first.send({"event": "routing/subscribe/notification", "routing-id": f"far-{number}", "route": ["first"]})
        first.send({"event": "ping", "id": "end", "route": ["first"]})
        first.hear(lambda each: each.get("in-reply-to") == "end")
        idle = bystanders.watch(0.5)
        with bystanders.during() as waits:
            second.dial(server.port("objects"))
            second.hear(lambda each: each.get("routing-id") == f"far-{FLOOD - 1}")
        assert waits.worst() < max(0.1, 10 * idle.worst())
        assert server.stop() == 0
