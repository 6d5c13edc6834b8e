"""A member that changes things without end: it may not fill the journal, and others do not notice.

Clients that come back after a crash, or that have much to register, are within the budget.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from pathlib import Path
from typing import cast

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from bussrv.wire.objects import ObjectReader, encode
from tests.attacks.bystanders import Bystanders, scheduled, share
from tests.forked import ForkedServer
from tests.hosts import HOSTS, listening_on, needs_host
from tests.size import further, sized

CLIENTS = sized(1000)
SERVICES = sized(5000)
BAR = 10.0
PATIENCE = 30.0


def size_of(journal: Path) -> int:
    return sum(path.stat().st_size for path in journal.glob("*.jsonl"))


def subscribe_all(address: tuple[str, int], count: int, stack: contextlib.ExitStack) -> None:
    """So many clients connect at once, and each waits until it is a member."""
    waiting = selectors.DefaultSelector()
    for _ in range(count):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        connection = stack.enter_context(socket.socket(family))
        connection.setblocking(False)
        connection.connect_ex(address)
        waiting.register(connection, selectors.EVENT_WRITE)
    while waiting.get_map():
        for key, ready in waiting.select(PATIENCE):
            connection = cast("socket.socket", key.fileobj)
            if ready & selectors.EVENT_WRITE:
                connection.sendall(encode({"event": "routing/subscribe", "receive_mode": "none"}, b""))
                waiting.modify(connection, selectors.EVENT_READ)
            else:
                assert b"routing/subscribe/reply" in connection.recv(65536)
                waiting.unregister(connection)


def waited(server: RunningServer) -> int:
    """How many changes waited for the budget, as ``bus/statistics`` says."""
    with SppClient(*server.addresses["spp"]) as watcher:
        watcher.wait_for(lambda event: event == spp.Offer("bus/statistics"))
        watcher.subscribe("bus/statistics")
        told = watcher.wait_for(lambda event: isinstance(event, spp.Info))
    return int(json.loads(told.message)["counters"].get("journal-paused", 0))


@pytest.mark.parametrize("host", further(HOSTS))
def test_a_thousand_clients_are_back_ten_seconds_after_a_kill(tmp_path: Path, host: str) -> None:
    """Seconds of a server that has a core to itself; see :mod:`tests.attacks.bystanders`."""
    journal, options = tmp_path / "journal", listening_on(needs_host(host))
    # Connections that the system does not take at once are tried again only after seconds.
    with contextlib.ExitStack() as stack:
        with ForkedServer(journal, options) as server:
            subscribe_all(server.addresses["objects"], CLIENTS, stack)
            server.process.kill()
            server.wait()
        begin = time.monotonic()
        again = stack.enter_context(ForkedServer(journal, options))
        subscribe_all(again.addresses["objects"], CLIENTS, stack)
        took = (time.monotonic() - begin) * share((0, 0), scheduled(again.process.pid))
        assert waited(again) == 0
    assert took < BAR


def seconds_to_register(server: RunningServer) -> float:
    """How long it takes a client to register all its services and to be told so, if the server has a core to itself."""
    begin, before = time.monotonic(), scheduled(server.process.pid)
    with socket.create_connection(("127.0.0.1", server.port("objects"))) as client:
        asked = [{"event": "routing/subscribe", "receive_mode": "no_echo"}]
        asked += [{"event": "services/register", "name": f"service {number}"} for number in range(SERVICES)]
        client.sendall(b"".join(encode(each, b"") for each in asked))
        reader, answers = ObjectReader(), 0
        reader.expect_server()
        while answers < SERVICES:
            reader.feed(client.recv(1 << 18))
            while (event := reader.next_event()) is not None:
                assert event.fields()["event"] != "error"
                answers += event.fields()["event"] == "services/register/reply"
    return (time.monotonic() - begin) * share(before, scheduled(server.process.pid))


def test_a_client_registers_five_thousand_names_in_ten_seconds(tmp_path: Path) -> None:
    unlimited = ("--journal-session-burst", str(1 << 40), "--journal-total-burst", str(1 << 40))
    with ForkedServer(tmp_path / "unlimited", unlimited) as server:
        without = seconds_to_register(server)
    with ForkedServer(tmp_path / "journal") as server:
        took = [seconds_to_register(server) for _ in range(3)]
        assert waited(server) == 0
    # The machine may have other things to do.
    assert max(took) < max(BAR, 4 * without)


def test_who_subscribes_without_end_cannot_fill_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    options = ("--journal-session-burst", "200000", "--journal-segment-bytes", "100000000")
    with ForkedServer(journal, options) as server, Bystanders(server) as bystanders:
        before = size_of(journal)
        again = encode({"event": "routing/subscribe", "receive_mode": "no_echo"}, b"") * 200
        with bystanders.during() as waits, socket.create_connection(("127.0.0.1", server.port("objects"))) as greedy:
            greedy.settimeout(0.2)
            begin, sent = time.monotonic(), 0
            while time.monotonic() - begin < 3:
                with contextlib.suppress(TimeoutError):
                    sent += greedy.send(again)
            assert size_of(journal) - before < 200_000 + 64 * 1024 * 5
        # It was not read from meanwhile: what it sent lies in the buffers of the system.
        assert sent > 200_000
        assert waits.worst() < 1.0
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe()
        assert not any("Traceback" in line for line in server.lines)
