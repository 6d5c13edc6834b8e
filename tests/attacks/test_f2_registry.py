"""A client that may watch ``bus/registry`` asks for it again and again, and changes something each time.

Nobody waits for that, however large the registry is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.wire.objects import BusObject, ObjectReader, encode
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer
from tests.size import FULL, sized

SERVICES = int(os.environ.get("BUSSRV_TEST_SERVICES", sized(30_000, 4)))
SESSIONS = int(os.environ.get("BUSSRV_TEST_SESSIONS", sized(1500, 4)))
SECONDS = 3.0 if FULL else 1.0
PAUSE = 0.05
MOST_LOOKS = 3
PATIENCE = 60.0
VIEWER = "127.0.0.9"
POLICY = """\
[[rule]]
networks = ["127.0.0.9"]
watch = ["bus/registry", "service-*"]
request = "bus/registry"
address = "*"

[[rule]]
networks = ["127.0.0.1/32", "127.0.1.0/24"]
watch = "*"
provide = "*"
publish = "*"
send = "*"
observe = "*"
address = "*"
request = "*"
"""


class Client:
    """A member that is answered before it goes on."""

    def __init__(self, port: int, host: str, routing_id: str) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), PATIENCE, (host, 0))
        self._reader = ObjectReader()
        self.send(
            event="routing/subscribe", receive_mode="no_echo", types="none", id="join", **{"routing-id": routing_id}
        )
        self.receive()

    def send(self, **fields: object) -> None:
        self._connection.sendall(encode(dict(fields)))

    def receive(self) -> BusObject:
        while True:
            event = self._reader.next_event()
            if isinstance(event, BusObject):
                return event
            data = self._connection.recv(1 << 20)
            assert data, "the server closed the connection"
            self._reader.feed(data)

    def ask_to_provide(self, names: list[str]) -> None:
        self._connection.sendall(b"".join(encode({"event": "services/register", "name": name}) for name in names))

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def crowd(server: ForkedServer) -> Iterator[None]:
    """Members with services, from several addresses.

    A member's changes are written one after another, those of different members together: so all ask at once.
    """
    with contextlib.ExitStack() as stack:
        clients = []
        for number in range(SESSIONS):
            client = Client(server.port("objects"), f"127.0.1.{1 + number // 1000}", f"member-{number}")
            stack.callback(client.close)
            clients.append((client, [f"service-{each}" for each in range(number, SERVICES, SESSIONS)]))
        for client, names in clients:
            client.ask_to_provide(names)
        for client, names in clients:
            for _ in names:
                client.receive()
        yield


@pytest.mark.usefixtures("many_descriptors")
def test_nobody_waits_for_clients_that_keep_asking_the_registry(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    options = ["--policy", str(tmp_path / "policy.toml"), "--announce", "off", "--max-services-total", "200000"]
    for limit in ("session-rate", "session-burst", "total-rate", "total-burst"):
        options += [f"--journal-{limit}", "1000000000"]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ForkedServer(tmp_path / "journal", options))
        stack.enter_context(crowd(server))
        bystanders = stack.enter_context(Bystanders(server, host="127.0.0.1"))
        idle = bystanders.watch(0.5)
        answers = 0

        def attack() -> None:
            nonlocal answers
            viewer = Client(server.port("objects"), VIEWER, f"viewer-{answers}")
            until = time.monotonic() + SECONDS
            # On a busy machine, one answer may take all that time.
            while time.monotonic() < until or answers < 2:
                answers += 1
                viewer.send(event="routing/subscribe", receive_mode="no_echo", types=[f"x/{answers}"])
                viewer.send(event="services/request", id="state", name="bus/registry")
                while viewer.receive().fields().get("event") != "services/reply":
                    pass
                time.sleep(PAUSE)
            viewer.close()

        bystanders.expect_no_wait(attack, idle, MOST_LOOKS)
    assert answers > 1
