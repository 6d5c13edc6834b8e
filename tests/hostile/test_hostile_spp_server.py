"""A real server, to whose SPP port everything hostile is sent while a well-behaved watcher watches."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.policy.logins.users import SecretHash
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.hostile.cases_spp import (
    ROWS,
    SECRET,
    SERVICE,
    STATE,
    USER,
    Closed,
    Ignored,
    NotOffered,
    Row,
    Sent,
    Unfinished,
)
from tests.hostile.memory import resident
from tests.size import sample

pytestmark = pytest.mark.processes

MAX_GROWTH = 8 << 20
"""The most bytes of resident memory that a second pass over all rows may add to what the first one left."""

PATIENCE = 30.0
LINE = f"{USER}:{SecretHash(b'salt', bytes(32), 2, 1, 1).made_of(SECRET.encode())}\n"


def attack(port: int, row: Row, offers: bytes) -> None:
    """Send everything, then no more; what is sent back is what the row says."""
    # A connection that the server ends with bytes unread is reset: what was sent back may be lost then.
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as intruder, contextlib.suppress(ConnectionError):
        intruder.sendall(row.build())
        intruder.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: intruder.recv(1 << 16), b""))
        assert received == offers + sent(row), row.name


def sent(row: Row) -> bytes:
    outcome = row.outcome
    if isinstance(outcome, Closed):
        return outcome.sent
    assert isinstance(outcome, (Sent, Ignored, NotOffered, Unfinished))
    return outcome.data if isinstance(outcome, Sent) else b""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("guarded", [False, True], ids=["for everybody", "for users"])
def test_a_good_client_notices_nothing_the_server_does_not_grow(guarded: bool, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(LINE)
    options = ["--auth", f"users:{tmp_path / 'users'}"] if guarded else []
    rows = sample([row for row in ROWS if row.guarded == guarded])
    with RunningServer(tmp_path / "journal", ["--services", "off", *options]) as server:
        port = server.port("spp")
        with ObjectsClient(port=server.port("objects")) as provider, SppClient(port=port) as watcher:
            if guarded:
                watcher.authenticate(USER, SECRET)
            provider.subscribe(receive_mode="no_echo", **({"user": USER, "secret": SECRET} if guarded else {}))
            provider.register(SERVICE)
            watcher.wait_for(lambda event: event == spp.Offer(SERVICE))
            watcher.subscribe(SERVICE)
            assert watcher.next_event(PATIENCE) == spp.Info(SERVICE, b"")
            after = []
            for _ in range(2):
                for row in rows:
                    provider.send({"type": "a/b"}, STATE)
                    assert watcher.next_event(PATIENCE) == spp.Info(SERVICE, STATE)
                    attack(port, row, b"" if guarded else spp.offer(SERVICE))
                after.append(resident(server))
        assert server.process.poll() is None
        assert server.stop() == 0
    assert not [line for line in server.lines if "Traceback" in line or "Unhandled" in line]
    assert not [line for line in server.lines if SECRET in line]
    assert after[1] - after[0] <= MAX_GROWTH
