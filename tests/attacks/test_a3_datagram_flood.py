"""Attack A3, its last part: a flood of datagrams makes nobody else wait, and what is lost of it is counted."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import RunningServer
from bussrv.wire import inbus
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer

FLOOR = 0.05
"""On a machine with nothing else to do it is under 0.02; without slices it is 0.07."""

SUBSCRIBERS = 20
WINDOWS = 8


@contextlib.contextmanager
def flood(address: tuple[str, int]) -> Iterator[None]:
    """Publications as fast as one thread can send them."""
    ended = threading.Event()
    datagram = inbus.publish("flood", 1, b"x" * 100)

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not ended.is_set():
                sender.sendto(datagram, address)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def subscribers(server: RunningServer) -> Iterator[None]:
    """Some who are sent what is published, and never read it."""
    with contextlib.ExitStack() as stack:
        for _ in range(SUBSCRIBERS):
            device = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            device.bind(("127.0.0.1", 0))
            device.sendto(inbus.subscribe("flood", *device.getsockname()), server.addresses["inbus"])
        yield


def test_a_flood_of_datagrams_makes_no_connection_wait(tmp_path: Path) -> None:
    with (
        ForkedServer(tmp_path / "journal") as server,
        subscribers(server),
        Bystanders(server, leave_out=("inbus",)) as bystanders,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
    ):
        sink.bind(("127.0.0.1", 0))
        # So that what sending takes of the processors counts in both.
        with flood(sink.getsockname()):
            idle = bystanders.watch(1.0)
        bar = max(FLOOR, 3 * idle.p99())
        with flood(server.addresses["inbus"]):
            # Whatever else the machine does shows in some of them; a turn that is too long shows in each.
            found = (bystanders.watch(1.0) for _ in range(WINDOWS))
            assert any(waits.p99() < bar for waits in found), f"idle: {idle}"


def test_what_is_lost_is_counted(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--inbus-receive-buffer", "5000"]) as server:
        with ObjectsClient(*server.addresses["objects"]) as client:
            client.subscribe()
            counters: dict[str, int] = {}
            with flood(server.addresses["inbus"]):
                while not counters.get("inbus-lost"):
                    counters = json.loads(client.request("bus/statistics").payload)["counters"]
        server.stop()
        assert any("datagrams were lost, they came faster than they are read" in line for line in server.lines)
