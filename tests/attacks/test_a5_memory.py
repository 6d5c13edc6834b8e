"""Memory: a large object to many who do not read, and many who never finish theirs."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer
from bussrv.wire.objects import encode
from tests.attacks.bystanders import Bystanders, Waits
from tests.size import sized

STALLED = sized(1000, 2)
LARGE = 16 << 20
PAGE = 4096
MIB = 1 << 20


def resident(server: RunningServer) -> int:
    """How much memory a server takes, in bytes."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * PAGE


def kernel_memory() -> int:
    """How much memory the system takes for all TCP sockets, in bytes."""
    (line,) = (each for each in Path("/proc/net/sockstat").read_text().splitlines() if each.startswith("TCP:"))
    return int(line.split()[-1]) * PAGE


def connect(server: RunningServer, first: bytes = b"") -> socket.socket:
    client = socket.create_connection(server.addresses["objects"], 30)
    client.sendall(first)
    return client


def member(server: RunningServer, **subscription: object) -> socket.socket:
    """A member that was told so."""
    client = connect(server, encode({"event": "routing/subscribe", **subscription}))
    answer = b""
    while b"\0" not in answer:
        answer += client.recv(4096)
    return client


ATTEMPTS = 3
"""What the server does to others shows in each attempt, what else runs on the machine does not."""


def test_a_large_object_to_many_who_do_not_read_is_held_once(tmp_path: Path) -> None:
    options = ["--announce", "off"]
    slow = []
    for attempt in range(ATTEMPTS):
        with RunningServer(tmp_path / f"{attempt}", options) as server, Bystanders(server) as bystanders:
            memory, kernel, idle, waits = large_object(server, bystanders)
        said = f"server {memory >> 20} MiB, system {kernel >> 20} MiB; idle: {idle}; attacked: {waits}"
        assert memory < 64 * MIB, said
        assert kernel < 1024 * MIB, said
        if waits.worst() < max(0.1, 3 * idle.worst()):
            return
        slow.append(said)
    pytest.fail("\n".join(slow))


def large_object(server: RunningServer, bystanders: Bystanders) -> tuple[int, int, Waits, Waits]:
    """What it costs, in bytes of the server and of the system, and how long others wait before and meanwhile."""
    with ExitStack() as stack:
        for _ in range(STALLED):
            stack.enter_context(member(server, types=["stall/*"]))
        reader = stack.enter_context(member(server, types=["stall/*"]))
        publisher = stack.enter_context(member(server, receive_mode="none"))
        memory, kernel = resident(server), kernel_memory()
        idle = bystanders.watch(0.5)
        with bystanders.during() as waits:
            publisher.sendall(encode({"type": "stall/it"}, bytes(LARGE)))
            received = 0
            while received < LARGE:
                received += len(reader.recv(1 << 20))
        return resident(server) - memory, kernel_memory() - kernel, idle, waits


def test_what_is_never_finished_is_held_up_to_the_total(tmp_path: Path) -> None:
    half, most = encode({"type": "half/it"}, bytes(LARGE))[: LARGE // 2], 64 * MIB
    options = ["--announce", "off", "--max-inbound-total", str(most)]
    with RunningServer(tmp_path / "journal", options) as server, ExitStack() as stack, Bystanders(server) as bystanders:
        memory = resident(server)
        with bystanders.during() as waits:
            for _ in range(20):
                stack.enter_context(connect(server, half))
            gone_after = resident(server) - memory
            members = [stack.enter_context(member(server, receive_mode="none")) for _ in range(20)]
            for each in members:
                each.sendall(half)
            # The one that began first was told why it was closed.
            error = b"".join(iter(lambda: members[0].recv(4096), b""))
        grown = resident(server) - memory
        said = f"not subscribed: {gone_after >> 20} MiB, subscribed: {grown >> 20} MiB; {waits}"
        assert b"inbound-full" in error
        assert gone_after < 8 * MIB, said
        # Bytes that gather are copied with room for an eighth more, and the C library keeps some freed memory.
        assert grown < 2 * most < 20 * len(half), said
        assert waits.worst() < 0.3, said
