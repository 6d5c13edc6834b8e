"""SIGTERM: clients are told, sessions end over some seconds, and the stop ends in time, whatever clients do."""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client.business import BusinessClient
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import PATIENCE
from bussrv.wire.objects import encode
from tests.end_to_end.conftest import Start
from tests.end_to_end.journals import events_of

FAREWELL = "abboe/close/notify"
MOST_SECONDS = 9.0
"""Containers are killed ten seconds after SIGTERM."""


def test_clients_are_told_and_the_stop_ends_in_time(start: Start, journal: Path) -> None:
    """One of them reads nothing of what is queued for it, and one no longer answers at all."""
    server = start()
    with (
        ObjectsClient(port=server.port("objects")) as member,
        BusinessClient(port=server.port("business")) as office,
        SppClient(port=server.port("spp")),
        socket.create_connection(server.addresses["objects"]) as deaf,
    ):
        deaf.sendall(encode({"event": "routing/subscribe", "receive_mode": "all"}))
        assert b"routing/subscribe/reply" in deaf.recv(1 << 16)
        member.subscribe()
        office.register()
        for _ in range(10):
            member.send({"type": "a/b"}, bytes(1 << 20))
        member.send({"event": "ping", "id": "end"})
        member.wait_for(lambda each: each.metadata.get("in-reply-to") == "end")
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for client in (member, office):
            told = client.wait_for(lambda each: each.metadata.get("event") == FAREWELL)
            assert told.metadata["seconds"] == 5.0
            last = client.wait_for(lambda each: each.metadata.get("event") == "error")
            assert last.metadata["reason"] == "server-stopped"
        with pytest.raises(ConnectionError):
            ObjectsClient(port=server.port("objects"))
        assert server.wait() == 0
        assert time.monotonic() - begun < MOST_SECONDS
    assert [event.reason for event in events_of(journal, ev.SessionClosed)].count("server-stopped") >= 3
    assert not any("Traceback" in line for line in server.lines)


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SUBSCRIBE = encode({"event": "routing/subscribe", "receive_mode": "all"})
DEAF = {
    "objects": SUBSCRIBE,
    "business": encode({"event": "client/register", "receive": "all"}),
    "websocket": b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "admin": GET * 100,
}


def test_clients_that_stop_reading_delay_the_stop_of_no_port(start: Start) -> None:
    """60 clients of the admin interface with 100 requests each read until 50 ms after the signal; others never do."""
    server = start("--admin-max-rate", "100000", "--websocket", "tcp:0:interface=127.0.0.1")
    with ExitStack() as stack:

        def connected(name: str) -> socket.socket:
            return stack.enter_context(socket.create_connection(server.addresses[name]))

        for name, first in DEAF.items():
            for _ in range(10):
                connected(name).sendall(first)
        member = stack.enter_context(ObjectsClient(port=server.port("objects")))
        member.subscribe()
        for _ in range(10):
            member.send({"type": "a/b"}, bytes(1 << 20))
        member.send({"event": "ping", "id": "end"})
        member.wait_for(lambda each: each.metadata.get("in-reply-to") == "end")
        readers = [connected("admin") for _ in range(60)]
        for each in readers:
            each.sendall(GET * 100)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        while time.monotonic() < begun + 0.05:
            for each in select.select(readers, (), (), 0.01)[0]:
                each.recv(1000)
        assert server.wait() == 0
        assert time.monotonic() - begun < MOST_SECONDS
    assert not any("Traceback" in line for line in server.lines)


def test_asked_again_it_stops_at_once(start: Start) -> None:
    server = start("--drain-seconds", "1000")
    with ObjectsClient(port=server.port("objects")) as member:
        member.subscribe()
        server.process.send_signal(signal.SIGTERM)
        member.wait_for(lambda each: each.metadata.get("event") == FAREWELL)
        assert server.stop(signal.SIGTERM) == 0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.settimeout(PATIENCE)
        manager.bind(str(tmp_path / "manager"))
        yield manager


def test_the_service_manager_is_told(start: Start, manager: socket.socket) -> None:
    address = manager.getsockname()
    server = start(NOTIFY_SOCKET=address, WATCHDOG_USEC="400000")
    assert [manager.recv(100) for _ in range(4)] == [b"READY=1", *[b"WATCHDOG=1"] * 3]
    assert server.stop(signal.SIGTERM) == 0
    manager.setblocking(False)
    said = []
    while not said or said[-1] != b"STOPPING=1":
        said.append(manager.recv(100))
    assert set(said) <= {b"WATCHDOG=1", b"STOPPING=1"}


def test_a_service_manager_that_is_gone_is_no_harm(start: Start, tmp_path: Path) -> None:
    server = start(NOTIFY_SOCKET=str(tmp_path / "nobody"), WATCHDOG_USEC="10000")
    with ObjectsClient(port=server.port("objects")) as member:
        member.subscribe()
    assert server.stop() == 0
    assert len([line for line in server.lines if "the service manager cannot be told" in line]) == 1
