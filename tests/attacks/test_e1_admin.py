"""Attacks on the admin interface: no other client of the bus waits for it, and an operator still gets in."""

from __future__ import annotations

import json
import select
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from bussrv.testing.server import RunningServer
from bussrv.wire.objects import encode
from tests.admin.dashboard.crowd import OPTIONS, Crowd
from tests.attacks.bystanders import IDLE, MOST_ATTACKS, Bystanders
from tests.forked import ForkedServer
from tests.size import further

pytestmark = pytest.mark.processes

WORST = 0.1
"""Seconds that no bystander may wait."""

SECONDS = 1.0
LEAST_STEPS = 5
"""How long an attack lasts."""

PUT = b"PUT /api/v1/log-level HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LIST = b"GET /api/v1/sessions?sort=-peer&routing_id=*1*&limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(server: RunningServer, stack: ExitStack) -> socket.socket:
    connection = stack.enter_context(socket.create_connection(server.addresses["admin"], timeout=30))
    connection.setblocking(False)
    return connection


def ask(server: RunningServer, path: str) -> dict:
    connection = HTTPConnection(*server.addresses["admin"], timeout=30)
    connection.request("GET", path)
    found: dict = json.loads(connection.getresponse().read())
    connection.close()
    return found


def counters(server: RunningServer) -> dict[str, int]:
    found: dict[str, int] = ask(server, "/api/v1/counters")["counters"]
    return found


Attack = Callable[[RunningServer, ExitStack], Iterator[None]]
"""Each step takes a moment."""


def idle(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """A thousand connections that say nothing, and new ones for those that are closed."""
    connections = deque(connect(server, stack) for _ in range(1000))
    while True:
        connections.popleft().close()
        connections.append(connect(server, stack))
        yield


def drips(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """Bodies that come a byte at a time, on as many connections as there may be."""
    while True:
        connections = [connect(server, stack) for _ in range(99)]
        for each in connections:
            each.send(PUT + b"Content-Length: 60000\r\n\r\n")
        for _ in range(20):
            for each in connections:
                with suppress(OSError):
                    each.send(b"x")
            time.sleep(0.05)
            yield


def heads(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """Heads of a mebibyte, as lines that are as short as can be."""
    while True:
        connection = connect(server, stack)
        with suppress(OSError):
            connection.setblocking(True)
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (1 << 18))
        connection.close()
        yield


def bodies(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """Bodies of a mebibyte, in chunks of a byte."""
    while True:
        connection = connect(server, stack)
        with suppress(OSError):
            connection.setblocking(True)
            connection.sendall(PUT + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (1 << 17))
        connection.close()
        yield


def unread(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """Many requests at once, for long answers that nobody reads."""
    connections = [connect(server, stack) for _ in range(50)]
    while True:
        for each in connections:
            with suppress(OSError):
                each.send(LIST * 100)
        yield


def lists(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """Requests for sorted and filtered lists, one after the other on each of 30 connections."""
    connections = [connect(server, stack) for _ in range(30)]
    by_number = {each.fileno(): each for each in connections}
    poll = select.poll()
    for number, each in by_number.items():
        poll.register(number, select.POLLIN)
        each.send(LIST)
    while True:
        for number, _ in poll.poll(100):
            with suppress(OSError):
                if b"\r\n\r\n" in by_number[number].recv(1 << 20):
                    by_number[number].send(LIST)
        yield


def guesses(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """Guesses of the token."""
    connections = [connect(server, stack) for _ in range(30)]
    number = 0
    while True:
        for each in connections:
            number += 1
            with suppress(OSError):
                each.recv(1 << 20)
            with suppress(OSError):
                each.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %d\r\n\r\n" % number)
        yield


def ready(wanted: dict[socket.socket, int], seconds: float) -> list[socket.socket]:
    """Those that can be read or written, whatever their numbers: ``select()`` takes none beyond 1,023."""
    with selectors.DefaultSelector() as selector:
        for each, event in wanted.items():
            selector.register(each, event)
        return [key.fileobj for key, _ in selector.select(seconds)]  # type: ignore[misc]


def wrong_hosts(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """Requests for another host, as fast as four connections take them."""
    connections = deque(connect(server, stack) for _ in range(4))
    while True:
        connection = connections.popleft()
        try:
            connection.send(b"GET /api/v1/server HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            is_open = ready({connection: EVENT_READ}, 1) and connection.recv(1 << 20)
        except OSError:
            is_open = False
        connections.append(connection if is_open else connect(server, stack))
        yield


def taps(server: RunningServer, stack: ExitStack) -> Iterator[None]:
    """As many taps as a user may have, which show all that a fast sender sends."""
    tap = b"GET /api/v1/tap?rate=1000&payload=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n"
    readers = [connect(server, stack) for _ in range(20)]
    for each in readers:
        each.send(tap)
    sender = stack.enter_context(socket.create_connection(server.addresses["objects"], timeout=30))
    sender.sendall(encode({"event": "routing/subscribe", "receive_mode": "none"}))
    sender.setblocking(False)
    objects, left = encode({"type": "a/b"}, bytes(500)) * 1000, b""
    while True:
        for each in ready({sender: EVENT_WRITE, **dict.fromkeys(readers, EVENT_READ)}, 0.1):
            if each is sender:
                left = left or objects
                left = left[sender.send(left) :]
            else:
                each.recv(1 << 20)
        yield


ATTACKS: dict[Attack, str] = {
    taps: "admin-max-tap-rate",
    idle: "admin-max-connections",
    drips: "admin-request-timeout",
    heads: "admin-max-head",
    bodies: "admin-max-body",
    unread: "",
    lists: "",
    guesses: "bad-credentials",
}
"""Each with the counter of the limit that it reaches."""


def attack_for(seconds: float, attack: Attack, server: RunningServer) -> int:
    """On a busy machine it may take longer, since fewer steps are no attack.

    :returns: how many steps it made."""
    steps, end = 0, time.monotonic() + seconds
    with ExitStack() as stack:
        for _ in attack(server, stack):
            steps += 1
            if time.monotonic() >= end and steps > LEAST_STEPS:
                break
    return steps


def figures(text: str) -> None:
    """For who measures: ``pytest -s``."""
    sys.stderr.write(f"{text}\n")


def bytes_of(server: RunningServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) << 10


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("attack", further(ATTACKS, 4), ids=lambda attack: attack.__name__)
def test_bystanders_do_not_wait(attack: Attack, tmp_path: Path) -> None:
    options = ("--admin-request-timeout", "0.5", "--admin-max-rate", "100000")
    with ForkedServer(tmp_path / "journal", options) as server, Bystanders(server) as bystanders:
        bystanders.expect_no_wait(lambda: attack_for(SECONDS, attack, server), bystanders.watch(IDLE), MOST_ATTACKS)
        found = counters(server)
        assert ATTACKS[attack] in ("", *found), found
        assert "internal-error" not in found
        assert server.stop() == 0


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("attack", [lists, unread, idle], ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("rate", [100, 100_000])
def test_bystanders_do_not_wait_beside_5000_sessions(attack: Attack, rate: int, tmp_path: Path) -> None:
    options = (*OPTIONS, "--max-sessions-per-address", "20000", "--admin-max-rate", str(rate))
    with RunningServer(tmp_path / "journal", options) as server, Crowd(server.port("objects"), 5000):
        before = bytes_of(server)
        with Bystanders(server) as bystanders:
            with bystanders.during() as waits:
                steps = attack_for(10.0, attack, server)
            figures(f"{attack.__name__}, {rate}/s: {steps} steps, worst {waits.worst() * 1000:.1f} ms")
        assert waits.worst() < WORST
        grown = bytes_of(server) - before
        figures(f"grown by {grown >> 20} MiB")
        assert grown < 150 << 20
        assert ask(server, "/api/v1/sessions?limit=1")["total"] >= 5000


def test_refused_requests_keep_nobody_of_their_address_out(tmp_path: Path) -> None:
    answered = []
    with ForkedServer(tmp_path / "journal") as server, ExitStack() as stack:
        attack = wrong_hosts(server, stack)
        for _ in range(40):
            for _ in range(20):
                next(attack)
            connection = HTTPConnection(*server.addresses["admin"], timeout=30)
            connection.request("GET", "/api/v1/server")
            answered.append(connection.getresponse().status)
            connection.close()
        assert counters(server)["admin-max-rate"] > 0
    assert answered == [200] * 40
