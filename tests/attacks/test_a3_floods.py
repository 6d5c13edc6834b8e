"""Clients of one address connect and half-close without end, or send metadata that takes long to check."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.testing.server import RunningServer
from bussrv.wire.objects import encode
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer
from tests.size import sized

SECONDS = 1.0
MOST_LOOKS = 6
ELSEWHERE = "127.0.0.2"
CONNECTED = sized(500, 2)
SENDERS = 100
BRACKETS = b'{"x":[' + b",".join([b"[]"] * 20_000) + b"]}\0"


@contextlib.contextmanager
def half_closed(server: RunningServer) -> Iterator[Iterator[None]]:
    """One connection after the other, on every port, that sends nothing more."""

    def connect() -> Iterator[None]:
        for name in itertools.cycle(("objects", "business", "spp")):
            connection = socket.create_connection(("127.0.0.1", server.port(name)), 30)
            connection.shutdown(socket.SHUT_WR)
            connections.append(connection)
            if len(connections) > CONNECTED:
                connections.pop(0).close()
            yield

    connections: list[socket.socket] = []
    yield connect()
    for connection in connections:
        connection.close()


@contextlib.contextmanager
def brackets(server: RunningServer) -> Iterator[Iterator[None]]:
    """Members that send as many brackets as metadata holds."""
    with contextlib.ExitStack() as stack:
        senders = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port("objects")), 30))
            for _ in range(SENDERS)
        ]
        for sender in senders:
            sender.sendall(encode({"event": "routing/subscribe", "receive_mode": "none"}))
        yield (sender.sendall(BRACKETS) for sender in itertools.cycle(senders))


@pytest.mark.parametrize("attack", [half_closed, brackets])
def test_nobody_of_another_address_waits(tmp_path: Path, attack: Any) -> None:
    with (
        ForkedServer(tmp_path / "journal") as server,
        Bystanders(server, host=ELSEWHERE) as bystanders,
        attack(server) as steps,
    ):
        bystanders.expect_no_wait(lambda: go_on(steps), bystanders.watch(0.5), MOST_LOOKS)


def go_on(steps: Iterator[object]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        next(steps)
