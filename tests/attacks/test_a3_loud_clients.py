"""One client sends as fast as it can: it is served in turns with the others."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.attacks.bystanders import Bystanders, Waits
from tests.forked import ForkedServer
from tests.hosts import HOSTS, listening_on, needs_host
from tests.size import FULL, further, sized
from tests.wire.test_websocket import CONTINUED, PING, REQUEST, frame

SECONDS = 1.0 if FULL else 0.6
MOST_LOOKS = 6
"""Other programs on the machine make bystanders wait, too, but not all the time. A server that does, does it always."""

FLOOR = 0.02
"""The p99 that bystanders may have in any case, in seconds."""

LOUD = """
import socket, sys, threading
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
first, chunk = bytes.fromhex(sys.argv[3]), bytes.fromhex(sys.argv[4])

def read():
    while connection.recv(1 << 20):
        pass

threading.Thread(target=read, daemon=True).start()
connection.sendall(first)
chunk *= (64 << 10) // len(chunk) + 1
print("loud", flush=True)
while True:
    connection.sendall(chunk)
"""


@contextlib.contextmanager
def loud(address: tuple[str, int], first: bytes, again: bytes) -> Iterator[None]:
    """A client in a process of its own that says ``first`` once, and ``again`` for ever."""
    command = [sys.executable, "-c", LOUD, *map(str, address), first.hex(), again.hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"loud\n"
        yield
        client.kill()


SUBSCRIBE = encode({"event": "routing/subscribe", "receive_mode": "no_echo"})
SOCKET = REQUEST + frame(SUBSCRIBE)
RICH = {f"attribute {number}": "a value that says nothing" for number in range(40)}


LOUD_CLIENTS = {
    "pings": ("objects", SUBSCRIBE, encode({"event": "ping", "id": "1"})),
    "rich metadata": ("objects", SUBSCRIBE, encode({"type": "a/b", "id": "1", **RICH})),
    "spp": ("spp", spp.subscribe("bus/statistics"), spp.subscribe("bus/statistics")),
    "refusals": ("objects", SUBSCRIBE, encode({"event": "services/register", "id": "1"})),
    "objects": ("objects", SUBSCRIBE, encode({"type": "a/b", "id": "1"}, b"16 bytes of load")),
    "lists": ("business", encode({"event": "client/register"}), encode({"event": "services/list"})),
    "spp refusals": ("spp", b"", spp.subscribe("nothing of this name")),
    "messages": ("websocket", SOCKET, frame(encode({"event": "ping", "id": "1"}))),
    "pings of WebSocket": ("websocket", SOCKET, frame(b"now", PING)),
    "empty fragments": ("websocket", SOCKET + frame(b"", final=False), frame(b"", CONTINUED, final=False)),
    "large frames": ("websocket", SOCKET, frame(encode({"type": "a/b", "id": "1"}, bytes(60_000)))),
}
MAIN = 4
"""Of so many of these, each is loud in a way of its own."""


@pytest.mark.parametrize("host", further(HOSTS))
@pytest.mark.parametrize("name", further(LOUD_CLIENTS, MAIN))
def test_others_are_served_while_one_is_loud(tmp_path: Path, name: str, host: str) -> None:
    wire_format, first, again = LOUD_CLIENTS[name]
    options = [*listening_on(needs_host(host)), "--websocket", "0"]
    with ForkedServer(tmp_path / "journal", options) as server, Bystanders(server) as bystanders:
        idle = bystanders.watch(SECONDS / 2)
        seen = []
        with loud(server.addresses[wire_format], first, again):
            while not any(nobody_waits(each, idle) for each in seen) and len(seen) < MOST_LOOKS:
                seen.append(bystanders.watch(SECONDS))
    assert nobody_waits(seen[-1], idle), f"idle {idle}; then {'; '.join(map(str, seen))}"


def nobody_waits(waits: Waits, idle: Waits) -> bool:
    return all(waits.p99(name) < max(FLOOR, 3 * idle.p99(name)) for name in ("objects", "business", "spp"))


def test_a_client_with_thousands_of_services_goes(tmp_path: Path) -> None:
    """Each service that goes is told to every SPP client."""
    with ForkedServer(tmp_path / "journal") as server, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port("spp"))))
        bystanders = stack.enter_context(Bystanders(server))
        idle = bystanders.watch(SECONDS / 2)
        seen = []
        while not any(each.worst() < max(0.1, 3 * idle.worst()) for each in seen) and len(seen) < 3:
            with ObjectsClient(port=server.port("objects"), timeout=60) as provider:
                provider.subscribe(receive_mode="no_echo", types="none")
                for number in range(sized(5_000)):
                    provider.send({"event": "services/register", "name": f"service {number}"})
                provider.register("the last one")
            with bystanders.during() as waits, ObjectsClient(port=server.port("objects")) as asker:
                asker.subscribe(receive_mode="no_echo", types="none")
                while asker.discover("the last one"):
                    pass
            seen.append(waits)
    assert seen[-1].worst() < max(0.1, 3 * idle.worst()), f"idle {idle}; then {'; '.join(map(str, seen))}"
