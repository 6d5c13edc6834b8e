"""Many clients vanish at once, as when a switch starts anew: nobody else waits while their sessions end."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from bussrv.wire.objects import encode
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer
from tests.size import sized

MEMBERS = sized(500, 2)
CHUNKS = sized(2500, 3)
IDLERS = sized(3000)
MOST_ATTACKS = 3
PATIENCE = 60.0

READERS = sized(1000, 3)
NEWS = sized(1100, 3)
"""So many announcements of a member with 200 long ids are more than a reader may let wait."""
MOST_WAITING = sized(16 << 20, 3)

RESET = struct.pack("ii", 1, 0)
"""``SO_LINGER``: closing resets the connection."""


def vanish(clients: list[socket.socket]) -> None:
    """Reset all connections; the list is empty afterwards."""
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    for client in clients:
        client.close()
    clients.clear()


def member(address: tuple[str, int], size: int, **wanted: object) -> socket.socket:
    """:param size: how many bytes the system keeps for a member that does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    client.settimeout(PATIENCE)
    client.connect(address)
    client.sendall(encode({"event": "routing/subscribe", **wanted}))
    assert b"routing/subscribe/reply" in client.recv(65536)
    return client


def slow_readers(address: tuple[str, int]) -> list[socket.socket]:
    """Members for each of which thousands of small objects wait."""
    members = [member(address, 4096, receive_mode="no_echo") for _ in range(MEMBERS)]
    with member(address, 65536, receive_mode="no_echo", types="none") as publisher:
        filler = encode({"event": "filler", "text": "x" * 60_000})
        for data in (*[filler] * 10, *(encode({"event": "tick", "number": number}) for number in range(CHUNKS))):
            # One in each turn of the reactor: none waits together with another one.
            publisher.sendall(data + encode({"event": "ping", "id": "sent"}))
            assert b"pong" in publisher.recv(65536)
    return members


def idlers(address: tuple[str, int]) -> list[socket.socket]:
    return [socket.create_connection(address, PATIENCE) for _ in range(IDLERS)]


@pytest.mark.parametrize("connect", [slow_readers, idlers])
def test_nobody_waits_while_their_sessions_end(
    tmp_path: Path, connect: Callable[[tuple[str, int]], list[socket.socket]]
) -> None:
    options = ["--announce", "off", "--max-sessions-per-address", "10000", "--subscribe-timeout", "300"]
    with ForkedServer(tmp_path / "journal", options) as server, Bystanders(server) as bystanders:
        address = ("127.0.0.1", server.port("objects"))
        clients: list[socket.socket] = []
        bystanders.expect_no_wait(
            lambda: vanish(clients), bystanders.watch(0.5), MOST_ATTACKS, lambda: clients.extend(connect(address))
        )


def test_nobody_waits_while_all_who_do_not_read_are_cut(tmp_path: Path) -> None:
    """All of them have too much waiting with the same object, which announces a member."""
    options = ["--max-outbound", str(MOST_WAITING), "--journal-session-rate", "1000000000", "--journal-sync", "off"]
    with ForkedServer(tmp_path / "journal", options) as server, Bystanders(server) as bystanders:
        address = ("127.0.0.1", server.port("objects"))
        readers: list[socket.socket] = []

        def subscribe_again_and_again() -> None:
            with member(address, 65536, receive_mode="no_echo", types="none") as announced:
                for news in range(NEWS):
                    ids = [f"{news}-{number}-{'x' * 70}" for number in range(200)]
                    asked = {"event": "routing/subscribe", "receive_mode": "no_echo", "types": "none", "id": "again"}
                    announced.sendall(encode({**asked, "routing-ids": ids}) + encode({"event": "ping", "id": "done"}))
                    while b'"pong"' not in announced.recv(65536):
                        pass
            for reader in readers:
                assert was_cut(reader)
            readers.clear()

        bystanders.expect_no_wait(
            subscribe_again_and_again,
            bystanders.watch(0.5),
            MOST_ATTACKS,
            lambda: readers.extend(member(address, 4096, receive_mode="no_echo") for _ in range(READERS)),
        )


def was_cut(reader: socket.socket) -> bool:
    """Whether the server ended a connection while more than it may let wait was on its way."""
    with reader:
        received = 0
        try:
            while data := reader.recv(1 << 20):
                received += len(data)
        except ConnectionResetError:
            pass
    return received < MOST_WAITING
