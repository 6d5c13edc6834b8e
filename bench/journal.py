"""How many changes of the registry a second get to the disk, and how long each of them waits for that.

Sessions register and unregister a service in turns; each asks again as soon as it is answered, so as many changes are
on their way as there are sessions. Every change is one record, durable before it is answered (``--journal-sync
always``). For comparison, on the same disk in the same run: such records written one by one with a sync after each, at
the beginning and again at the end, since disks have moods; and the registry with a journal in memory, which shows what
everything but the disk costs. Run as ``python bench/journal.py``.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from itertools import count, cycle
from pathlib import Path
from typing import Any

from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from bussrv.clock import SystemClock
from bussrv.events import ServiceRegistered
from bussrv.interfaces import IJournal
from bussrv.journal.memory import MemoryJournal
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import list_segments
from bussrv.journal.writer import BatchWriter, Entry, FileJournal
from bussrv.registry.registry import Registry

WARM_UP = 0.2
"""Seconds that are not counted."""

reactor: Any = installed_reactor


class CountingWriter(BatchWriter):
    """Counts batches, each of which is one sync."""

    batches = 0

    def commit(self, entries: Sequence[Entry]) -> None:
        """Write a batch."""
        self.batches += 1
        super().commit(entries)


class Load:
    """Sessions that each ask for a change, and for another one as soon as it is answered.

    :ivar latencies: how long each change took, in seconds.
    """

    def __init__(self, journal: IJournal, sessions: int) -> None:
        numbers = count()
        self._registry = Registry(
            journal, SystemClock(), lambda: f"{next(numbers):024x}", server_id="bench", boot="5f1c2ab94e07"
        )
        self._sessions = sessions
        self._running = True
        self._counting_from = 0.0
        self.latencies: list[float] = []

    async def run(self, seconds: float) -> float:
        """Load the registry for so long. :returns: how many changes it made a second."""
        begin = time.perf_counter()
        self._counting_from = begin + WARM_UP
        reactor.callLater(seconds + WARM_UP, self._stop)
        running = [Deferred.fromCoroutine(self._session(number)) for number in range(self._sessions)]
        for each in running:
            await each
        return len(self.latencies) / (time.perf_counter() - self._counting_from)

    def _stop(self) -> None:
        self._running = False

    async def _session(self, number: int) -> None:
        session = self._registry.open_session("objects", f"127.0.0.1:{40_000 + number}").id
        changes = cycle([self._registry.register_service, self._registry.unregister_service])
        # A journal in memory answers at once; the others, and the clock, have to get their turn.
        for asked, change in enumerate(changes):
            begin = time.perf_counter()
            await change(session, f"bench/{number}")
            if begin >= self._counting_from:
                self.latencies.append(time.perf_counter() - begin)
            if not self._running:
                return
            if asked % 64 == 63:
                await _turn()


def _turn() -> Deferred[None]:
    turn: Deferred[None] = Deferred()
    reactor.callLater(0, turn.callback, None)
    return turn


def one_by_one(directory: Path, seconds: float) -> list[float]:
    """Write records with a sync after each. :returns: how long each took, in seconds."""
    event = ServiceRegistered(protocol="objects", session="5f1c2ab94e07.1", routing_id=f"{1:024x}", service="bench/1")
    line = encode(Record(1, SystemClock().utc(), SystemClock().mono(), "bench", "5f1c2ab94e07", event))
    latencies = []
    descriptor = os.open(directory / "one-by-one", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begin = now = time.perf_counter()
    while now - begin < seconds:
        os.write(descriptor, line)
        os.fdatasync(descriptor)
        before, now = now, time.perf_counter()
        latencies.append(now - before)
    os.close(descriptor)
    return latencies


def show(what: str, rate: float, latencies: list[float], per_sync: float | None) -> None:
    """Print a row of the table."""
    ordered = sorted(latencies)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 for share in (0.50, 0.99))
    shared = f"{per_sync:12.1f}" if per_sync is not None else f"{'-':>12}"
    print(f"{what:<34}{rate:>12,.0f}{p50:>10.3f}{p99:>10.3f}{shared}")


async def bench(directory: Path, sessions: list[int], seconds: float) -> None:
    """Run everything and print the table."""
    print(f"{'':<34}{'changes/s':>12}{'p50 ms':>10}{'p99 ms':>10}{'per sync':>12}")
    show_one_by_one(directory, seconds)
    memory = Load(MemoryJournal(), 1)
    show("registry, journal in memory", await memory.run(seconds), memory.latencies, None)
    for number in sessions:
        path = directory / str(number)
        path.mkdir()
        writer = CountingWriter(path, "bench", "5f1c2ab94e07", last_seq=0, sync="always", clock=SystemClock())
        journal = FileJournal(writer, reactor)
        load = Load(journal, number)
        rate = await load.run(seconds)
        await journal.close()
        records = sum(segment.read_bytes().count(b"\n") for segment in list_segments(path))
        show(f"registry, {number} on their way", rate, load.latencies, records / max(1, writer.batches))
    show_one_by_one(directory, seconds)


def show_one_by_one(directory: Path, seconds: float) -> None:
    """Print the row for comparison."""
    latencies = one_by_one(directory, seconds)
    show("one by one, no registry", len(latencies) / sum(latencies), latencies, 1.0)


def main() -> None:
    """Read the command line, run, clean up."""
    parser = argparse.ArgumentParser(description="Changes of the registry a second, durable, and what they wait for.")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 10, 100, 1000], help="changes on their way")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each row is measured")
    parser.add_argument("--directory", type=Path, default=Path(), help="where to write: on the disk to be measured")
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, in {arguments.directory.resolve()}")
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="bench-journal-") as name:
        react(lambda _: Deferred.fromCoroutine(bench(Path(name), arguments.sessions, arguments.seconds)))


if __name__ == "__main__":
    main()
