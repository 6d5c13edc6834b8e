"""Memory while the disk is full: who comes, asks for something and goes leaves nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.testing.server import RunningServer
from bussrv.wire.objects import encode
from tests.attacks.test_a5_memory import connect, resident
from tests.end_to_end.journals import records
from tests.forked import ForkedServer
from tests.size import sized
from tests.small_disk import fill, small_disk

VISITS = sized(3000, 2)


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", "256k") as directory:
        yield directory


def visit(server: RunningServer) -> bytes:
    """Come, ask for something, and go. :returns: the answer."""
    with connect(server, encode({"event": "routing/subscribe"})) as client:
        return client.recv(4096)


def test_visitors_leave_nothing_behind_while_the_disk_is_full(small_disk: Path) -> None:
    journal = small_disk / "journal"
    options = ["--announce", "off", "--services", "off", "--journal-min-free", "0"]
    with ForkedServer(journal, options) as server:
        ballast = fill(small_disk)
        answers = [visit(server) for _ in range(500)]
        assert b"journal-unavailable" in answers[-1]
        memory = resident(server)
        for _ in range(VISITS):
            assert b"journal-unavailable" in visit(server)
        grown = resident(server) - memory
        assert grown < VISITS * 1000, f"{grown / VISITS:.0f} bytes a visit"
        ballast.unlink()
        while b"routing/subscribe/reply" not in visit(server):
            pass
        assert server.stop() == 0
    events = [record.event for record in records(journal)]
    opened = [event for event in events if isinstance(event, ev.SessionOpened)]
    closed = [event for event in events if isinstance(event, ev.SessionClosed)]
    assert {event.session for event in opened} == {event.session for event in closed}
    restored = [event for event in events if isinstance(event, ev.JournalRestored)]
    assert sum(event.refused for event in restored) >= VISITS
