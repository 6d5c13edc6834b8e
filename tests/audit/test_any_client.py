"""Whatever clients of any wire format do, and in whatever state they leave: the audit finds nothing in the journal.

The clients are those of the fuzzer of a whole server, and others on WebSockets that upgrade or not, ping, close, and
leave in the middle of a frame. The disk may be slow. A failing disk is another test's: the journal says so itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.record import Record
from bussrv.version import VERSION
from tests.audit.frames import tables
from tests.fuzz.draw import Draw
from tests.fuzz.targets import SOCKETS
from tests.fuzz.whole import CHUNK, PEERS, Stranger, Whole
from tests.size import sized

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]

HISTORIES = max(12, sized(60))  # in fewer, not every wire format has its share
ACTIONS = 500
"""About how many bytes, of which each decides something, make a history."""

VISITS = (b"", *SOCKETS[:3])
"""The first bytes of a client of WebSocket: none, two upgrades, and a request that is refused."""


class Socket(Stranger):
    """A connection to the port of WebSocket. Nothing is asked of what it is sent."""

    def drawn(self, draw: Draw) -> bytes:
        return draw.spoiled(draw.one(SOCKETS))

    def read(self) -> list[object]:
        self.delivered = b""
        return []


class Town(Whole):
    """The server and its clients, of all wire formats. The disk only gets slow."""

    records: Sequence[Record] = ()

    def _connect(self, draw: Draw) -> None:
        if not draw.chance(64):
            super()._connect(draw)
            return
        client = self._timed(Socket, self.arena, "websocket", draw.one(PEERS))
        self._clients.append(client)
        client.say(draw.spoiled(draw.one(VISITS)))
        self._deliver(client, CHUNK)

    def _disk(self, draw: Draw) -> None:
        journal = self.arena.journal
        if not journal.held:
            journal.hold()
        elif draw.chance(128):
            self._timed(journal.release, 1 + draw.byte() % 3)
        else:
            self._mend()

    def _look_at_what_is_left(self) -> None:
        self.records = list(self.arena.journal.records)


def history(server: str, seed: int) -> Iterator[Record]:
    """What the journal of a server holds after many visits, its start included."""
    town = Town(is_timed=False)
    town.play(Draw(Random(f"visits {seed}").randbytes(ACTIONS)))
    first, boot = town.records[0], f"{server}-1"
    yield replace(first, seq=1, server=server, boot=boot, event=ev.ServerStarted(version=VERSION, formats={}))
    for each in town.records:
        session = each.event.session
        event = each.event if session is None else replace(each.event, session=f"{server}-{session}")
        yield replace(each, seq=each.seq + 1, server=server, boot=boot, event=event)


def test_an_untouched_journal_is_clean_whatever_clients_do(tmp_path: Path) -> None:
    records = [each for seed in range(HISTORIES) for each in history(f"visits{seed}", seed)]
    closed = [each.event for each in records if isinstance(each.event, ev.SessionClosed)]
    of_formats = Counter(each.protocol for each in closed)
    assert all(of_formats[name] > HISTORIES for name in ("objects", "business", "spp", "inbus", "websocket"))
    assert any(each.bytes_out and not each.objects_out for each in closed)
    assert len({each.reason for each in closed}) > 10
    assert tables(["findings"], tmp_path / "facts", records)["findings"] == []
