"""One client asks what takes long to answer, a thousand times over: nobody else waits."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.attacks.bystanders import nobody_waits
from tests.forked import ForkedServer
from tests.hosts import HOSTS, listening_on, needs_host
from tests.size import further, sized

SERVICES = sized(10_000)
PROVIDERS = 20
QUESTIONS = sized(1_000)
MAX_PACKET = 1 << 16
ROOM = ("--max-services", "20000", "--max-sessions-per-address", "20000", "--max-packet", str(MAX_PACKET))

READER = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.sendall(sys.stdin.buffer.read())
print("asked", flush=True)
left = int(sys.argv[3])
while left > 0:
    data = connection.recv(1 << 20)
    if not data:
        sys.exit("the server closed the connection")
    left -= len(data)
"""


@contextlib.contextmanager
def asking(address: tuple[str, int], questions: bytes, most: int) -> Iterator[None]:
    """A client in a process of its own that asks all at once, then takes ``most`` bytes of what it is told."""
    command = [sys.executable, "-c", READER, *map(str, address), str(most)]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(questions)
    client.stdin.close()
    assert client.stdout.readline() == b"asked\n"
    yield
    assert client.wait(60) == 0
    client.stdout.close()


@pytest.fixture(scope="module", params=further(HOSTS))
def busy_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with ten thousand services."""
    options = [*ROOM, *listening_on(needs_host(request.param))]
    with ForkedServer(tmp_path_factory.mktemp("a2") / "journal", options) as server, contextlib.ExitStack() as stack:
        address = server.addresses["objects"]
        providers = [stack.enter_context(ObjectsClient(*address, timeout=60)) for _ in range(PROVIDERS)]
        for provider in providers:
            provider.subscribe(receive_mode="no_echo", types="none")
        for number in range(SERVICES):
            name = f"service {number} {'with a long name ' * 6}".strip()
            providers[number % PROVIDERS].send({"event": "services/register", "name": name})
        for number, provider in enumerate(providers):
            provider.register(f"the last one of {number}")
        yield server


DISCOVERY = encode({"event": "services/discovery", "id": "1"}) * QUESTIONS
SUBSCRIBE = encode({"event": "routing/subscribe", "receive_mode": "no_echo"})
LIST = encode({"event": "services/list", "id": "1"}) * QUESTIONS
REGISTER = encode({"event": "client/register", "receive": "no_echo"})
REGISTRY = encode({"event": "services/request", "id": "1", "name": "bus/registry"}) * QUESTIONS
STATISTICS = encode({"event": "services/request", "id": "1", "name": "bus/statistics"}) * QUESTIONS


@pytest.mark.parametrize(
    ("wire_format", "questions"),
    [
        pytest.param("objects", SUBSCRIBE + DISCOVERY, id="discovery"),
        pytest.param("objects", SUBSCRIBE + REGISTRY, id="registry"),
        pytest.param("objects", SUBSCRIBE + STATISTICS, id="statistics"),
        pytest.param("business", REGISTER + LIST, id="list"),
        pytest.param("spp", spp.subscribe("bus/registry") * QUESTIONS, id="spp"),
    ],
)
def test_a_thousand_questions_of_one_client(busy_server: RunningServer, wire_format: str, questions: bytes) -> None:
    taken = 1 << 16 if questions.endswith(STATISTICS) else 32 << 20

    def ask() -> None:
        with asking(busy_server.addresses[wire_format], questions, taken):
            pass

    nobody_waits(busy_server, ask)


def test_many_clients_are_offered_ten_thousand_services_at_once(busy_server: RunningServer) -> None:
    address = busy_server.addresses["spp"]

    def connect_at_once() -> None:
        with contextlib.ExitStack() as stack:
            watchers = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(200)]
            for watcher in watchers:
                watcher.sendall(spp.subscribe("bus/registry"))
            for watcher in watchers:
                assert watcher.recv(1)

    nobody_waits(busy_server, connect_at_once)


def test_a_large_registry_arrives(busy_server: RunningServer) -> None:
    with SppClient(*busy_server.addresses["spp"]) as client:
        client.subscribe("bus/registry")
        shown = client.wait_for(lambda event: isinstance(event, spp.Info), 30)
    assert isinstance(shown, spp.Info)
    assert len(shown.message) > MAX_PACKET
