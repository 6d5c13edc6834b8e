"""How many entries a second get into the spool, with how many commits and how much CPU, beside the journal's writer.

So many calls of one entry each are outstanding at any time; when one is told, the next is asked. The CPU is that of the
whole process, the reactor's thread included. ``owners`` is how many queues the entries go to.

python bench/spool.py --entries 20000 --payload 100
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from bussrv.events import ServiceRegistered
from bussrv.journal.batch import BatchWriter
from bussrv.journal.files import FILES, Files
from bussrv.journal.record import Stamped
from bussrv.journal.recovery import Recovered
from bussrv.journal.writer import FileJournal
from bussrv.registry.state.fold import RegistryFold
from bussrv.settings import Settings
from bussrv.spool.entries import Append, Claim, RemoveUpTo
from bussrv.spool.file import SpoolFile
from bussrv.spool.spool import Spool
from bussrv.turns.clock import SystemClock

OUTSTANDING = (1, 10, 1000)
OWNERS = 100
LIMITS = Settings(max_spool_entries=10**9, max_spool=1 << 40, max_spool_per_address=1 << 40, max_spool_total=1 << 40)

commits: Counter[str] = Counter()


class CountingFiles(Files):
    def sync(self, descriptor: int) -> None:
        commits["journal"] += 1
        FILES.sync(descriptor)


class CountingConnection(sqlite3.Connection):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        commits["spool"] += sql == "COMMIT"
        return super().execute(sql, *parameters)


async def keep_outstanding(ask: Callable[[], Deferred[Any]], outstanding: int, entries: int) -> None:
    """Ask for so many entries, so many at a time."""
    done: Deferred[None] = Deferred()
    asked = told = 0

    def more(_: object = None) -> None:
        nonlocal asked, told
        told += _ is not None
        if asked < entries:
            asked += 1
            ask().addCallback(more)
        elif told == entries:
            done.callback(None)

    for _ in range(outstanding):
        more()
    await done


async def measure(name: str, ask: Callable[[], Deferred[Any]], outstanding: int, entries: int) -> None:
    commits.clear()
    began, cpu = time.perf_counter(), time.process_time()
    await keep_outstanding(ask, outstanding, entries)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    synced = max(commits.total(), 1)
    print(
        f"{name:24} {outstanding:5} outstanding {entries / seconds:9,.0f}/s {synced:7,} commits "
        f"{entries / synced:7.1f} each {1e6 * cpu / entries:7.1f} us of CPU"
    )


async def bench(reactor: Any, options: argparse.Namespace) -> None:
    clock, payload = SystemClock(), bytes(options.payload)
    for outstanding in OUTSTANDING:
        entries = min(options.entries, outstanding * 2000)
        with tempfile.TemporaryDirectory(dir=options.directory) as place:
            batches = BatchWriter(
                Path(place),
                "hall",
                "boot",
                recovered=Recovered(),
                fold=RegistryFold(),
                sync="always",
                clock=clock,
                files=CountingFiles(),
            )
            journal = FileJournal(batches, reactor)
            event = ServiceRegistered(session="5f1c2ab94e07.1", service="hall/temperature")
            record: Callable[[], Deferred[Any]] = lambda: journal.append([Stamped(clock.utc(), clock.mono(), event)])  # noqa: B023, E731
            await measure("journal", record, outstanding, entries)
            await journal.close()
        with tempfile.TemporaryDirectory(dir=options.directory) as place:
            connect: Any = lambda *args, **kwargs: sqlite3.connect(*args, factory=CountingConnection, **kwargs)  # noqa: E731
            spool = Spool(SpoolFile(Path(place) / "spool", connect=connect), LIMITS, Counter(), clock, reactor)
            owners = [f"session-{number}" for number in range(OWNERS)]
            await spool.write([Claim(owner=each, address="10.0.0.1") for each in owners])
            count = 0

            def change(make: Callable[[str], Any]) -> Deferred[Any]:
                nonlocal count
                count += 1
                return spool.write([make(owners[count % OWNERS])])  # noqa: B023

            append: Callable[[], Deferred[Any]] = lambda: change(  # noqa: E731
                lambda owner: Append(owner=owner, kind="queue", payload=payload)
            )
            await measure("spool, append", append, outstanding, entries)
            # The oldest of each queue, as acknowledgements do.
            number = 0

            def remove() -> Deferred[Any]:
                nonlocal number
                number += 1
                return change(lambda owner: RemoveUpTo(owner=owner, kind="queue", number=number))

            await measure("spool, remove", remove, outstanding, entries)
            await spool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--payload", type=int, default=100, help="bytes")
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--directory", type=Path, help="where the files are made; by default that of the system")
    react(bench, [parser.parse_args()])


if __name__ == "__main__":
    main()
