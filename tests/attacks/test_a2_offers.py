"""Services come and go by the thousand, and each is told to a thousand SPP clients: nobody else waits."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.attacks.bystanders import nobody_waits
from tests.attacks.watchers import Watchers
from tests.forked import ForkedServer
from tests.size import sized

WATCHERS = sized(1_000)
SERVICES = sized(1_000)
NAMES = [f"service {number:04}" for number in range(SERVICES)]
LAST = "the last one"
ROOM = ("--max-services", "20000", "--spp-max-silent", "20000")

SUBSCRIBE = {"event": "routing/subscribe", "receive_mode": "none"}


@contextlib.contextmanager
def provider(server: RunningServer, services: list[str]) -> Iterator[socket.socket]:
    with socket.create_connection(server.addresses["objects"], 30) as connection:
        asked = [SUBSCRIBE, *({"event": "services/register", "name": name} for name in services)]
        connection.sendall(b"".join(map(encode, asked)))
        yield connection


def come_and_go(server: RunningServer, watchers: Watchers) -> None:
    with provider(server, [*NAMES, LAST]):
        watchers.wait(spp.offer(LAST))
    watchers.wait(spp.removed(LAST))


def flap(server: RunningServer, watchers: Watchers) -> None:
    """A service comes and goes all the time."""
    words = [{"event": f"services/{what}", "name": "flapping"} for what in ("register", "unregister")]
    with provider(server, []) as client:
        client.sendall(b"".join(map(encode, words)) * (SERVICES // 2))
        client.sendall(encode({"event": "services/register", "name": LAST}))
        watchers.wait(spp.offer(LAST))
    watchers.wait(spp.removed(LAST))


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("attack", [come_and_go, flap])
def test_nobody_waits_while_services_come_and_go(
    tmp_path: Path, attack: Callable[[RunningServer, Watchers], None]
) -> None:
    with ForkedServer(tmp_path / "journal", ROOM) as server, Watchers(server, WATCHERS) as watchers:
        nobody_waits(server, lambda: attack(server, watchers))
        assert server.stop() == 0
