"""Many clients of one address ask for something at once: clients of another address do not wait in line after them."""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
from pathlib import Path

from bussrv.wire.objects import encode
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer
from tests.size import sized

CLIENTS = sized(1200)
MOST_LOOKS = 4
ELSEWHERE = "127.0.0.2"
PATIENCE = 60.0


def ask_all(connections: list[socket.socket], request: bytes) -> None:
    """Every client sends the same, and waits for what comes."""
    waiting = selectors.DefaultSelector()
    for connection in connections:
        connection.sendall(request)
        waiting.register(connection, selectors.EVENT_READ)
    while waiting.get_map():
        for key, _ in waiting.select(PATIENCE):
            assert isinstance(key.fileobj, socket.socket)
            assert b"routing/subscribe/reply" in key.fileobj.recv(65536)
            waiting.unregister(key.fileobj)


def subscription(number: int) -> bytes:
    """Another one each time, so that it is a change."""
    types = [f"{'x' * length}{number}/*" for length in range(4)]
    return encode({"event": "routing/subscribe", "receive_mode": "no_echo", "types": types})


def test_clients_of_another_address_are_served_in_between(tmp_path: Path) -> None:
    options = ["--announce", "off"]
    with ForkedServer(tmp_path / "journal", options) as server, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", server.port("objects"))
        clients = [stack.enter_context(socket.create_connection(address, PATIENCE)) for _ in range(CLIENTS)]
        ask_all(clients, subscription(0))
        bystanders = stack.enter_context(Bystanders(server, host=ELSEWHERE))
        numbers = itertools.count(1)
        idle = bystanders.watch(0.5)
        bystanders.expect_no_wait(lambda: ask_all(clients, subscription(next(numbers))), idle, MOST_LOOKS)
