"""The journal leaves room on its disk: changes are refused before the disk is full, and it goes on by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client.objects import BusError, ObjectsClient
from bussrv.journal.reading import read_journal
from bussrv.journal.verify import verify
from tests.forked import ForkedServer
from tests.small_disk import small_disk

MIN_FREE = 400_000


def free(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def register_without_end(client: ObjectsClient) -> None:
    for number in range(1000):
        client.register(f"tv{number}")


def test_below_the_limit_changes_are_refused_but_ends_journaled(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "1m") as disk:
        journal = disk / "journal"
        with ForkedServer(journal, ("--services", "off", "--journal-min-free", str(MIN_FREE))) as server:
            ballast = disk / "ballast"
            with ObjectsClient(port=server.port("objects")) as ann, ObjectsClient(port=server.port("objects")) as bob:
                ann.subscribe()
                bob.subscribe()
                ballast.write_bytes(b"x" * (free(disk) - MIN_FREE))
                with pytest.raises(BusError, match="journal-unavailable"):
                    register_without_end(ann)
                assert MIN_FREE / 2 < free(disk) <= MIN_FREE
                bob.send({"event": "hello"})
                ann.wait_for(lambda each: each.metadata.get("event") == "hello")
                bob.close()
                ann.wait_for(lambda each: each.metadata.get("event") == "routing/disconnect")
                while not any(isinstance(each.event, ev.SessionClosed) for each in read_journal(journal)):
                    pass
                ballast.unlink()
                while not any("journal: can be written again" in line for line in server.lines):
                    server.next_line()
                ann.register("radio")
            assert server.stop() == 0
        report = verify(journal)
        assert (report.faults, report.sealed_seq) == ([], report.last_seq)
        events = [each.event for each in read_journal(journal)]
        gaps = [type(event) for event in events if isinstance(event, (ev.JournalDegraded, ev.JournalRestored))]
        assert gaps == [ev.JournalDegraded, ev.JournalRestored]
