"""How many changes of the registry a second get to the disk, how long each waits for that, and what others need for it.

On the same disk in the same run, in rounds that take turns, medians of all rounds:

- ``write+sync``: such a record written and synced, again and again, at the beginning and at the end: what the disk
  can do.
- ``closed loop``: so many sessions, each with one change on its way. The registry with the journal (``--journal-sync
  always``); the same registry with SQLite in the place of the journal, a transaction for each change, or (the journal's
  own way) one for all that queued up meanwhile; the same registry with Redis (``appendfsync always``) in its place,
  over one connection; and Redis without a registry, with as many connections and one command on its way on each.
- ``bare``: without a registry, a reactor or connections: so many records written together, one batch after the other.
  The journal's writer, SQLite in one thread, and Redis with so many commands pipelined on one connection.
- ``open loop``: so many changes a second are asked for by another process, for 1,000 sessions at random moments; a
  change waits from the moment at which it is asked for until whoever asked is told.

SQLite and Redis write the same line, but need not chain it to the one before. "no journal" is the registry with a
journal in memory, "write+sync" the disk and nothing else: what of a figure is not the journal's.

Run as ``python bench/journal.py``, with ``--quick`` for a first look.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count, product
from pathlib import Path
from typing import Any

import journal_redis
import journal_sqlite
from bar import Bar, print_bars
from journal_figures import Figures, Key, Results, facts, figures, syncs_as_asked, syncs_one_by_one
from journal_load import closed_loop, open_loop, reactor, without_journal
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from bussrv.events import ServiceRegistered
from bussrv.journal.batch import BatchWriter, make_entry
from bussrv.journal.files import FILES, Files
from bussrv.journal.manifest import Manifest
from bussrv.journal.memory import MemoryJournal
from bussrv.journal.record import Record, Stamped, encode
from bussrv.journal.recovery import Recovered
from bussrv.journal.sealing import Sealer
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.journal.writer import FileJournal
from bussrv.registry.state.fold import RegistryFold
from bussrv.server.running.process import tune_collector
from bussrv.turns.clock import SystemClock

BOOT = "5f1c2ab94e07"

OURS = "bussrv"
SQLITE_EACH = "SQLite, one transaction each"
SQLITE_GROUPED = "SQLite, grouped"
REDIS = "Redis"
REDIS_ALONE = "Redis, without registry"
OTHERS = (SQLITE_EACH, SQLITE_GROUPED, REDIS, REDIS_ALONE)
NO_JOURNAL = "no journal"
DISK = "write+sync"
SYSTEMS = (OURS, *OTHERS, NO_JOURNAL, DISK)

CLOSED = "closed loop"
BARE = "bare"
OPEN = "open loop"
AT_BEGINNING: Key = (DISK, 1, "at the beginning")
AT_END: Key = (DISK, 1, "at the end")

OPEN_SESSIONS = 1000
BAR_RATE = 1000
BAR_SYNCS = 4
"""The bar: so many syncs of this disk 99 of 100 changes may take at that rate."""


@dataclass(frozen=True)
class Plan:
    """How much is measured. Durations are in seconds, of one measurement."""

    rounds: int
    sessions: Sequence[int]
    rates: Sequence[int]
    closed: float
    bare: float
    open: float


class CountingFiles(Files):
    """The files of the operating system; counts lines and syncs."""

    def __init__(self) -> None:
        self._lines = 0
        self._syncs = 0

    @property
    def lines_per_sync(self) -> float:
        """How many lines shared a sync."""
        return self._lines / max(1, self._syncs)

    def write(self, descriptor: int, data: bytes) -> None:
        """Append lines."""
        self._lines += data.count(b"\n")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Return when they are on the disk."""
        self._syncs += 1
        super().sync(descriptor)


def make_writer(directory: Path, files: Files = FILES) -> BatchWriter:
    """The writer of the journal, with its files."""
    return BatchWriter(
        directory,
        "bench",
        BOOT,
        recovered=Recovered(),
        fold=RegistryFold(),
        sync="always",
        clock=SystemClock(),
        files=files,
    )


def make_journal(directory: Path, files: Files = FILES) -> FileJournal:
    """The journal as the server opens it, seals and all; without a key."""
    clock, manifest = SystemClock(), Manifest()
    sealer = Sealer(directory, "bench", manifest=manifest, key=None, clock=clock, files=files)
    upkeep = Upkeep(
        directory,
        sealer,
        manifest=manifest,
        unsealed=(),
        policy=UpkeepPolicy(),
        clock=clock,
        later=lambda action: action(),
        files=files,
    )
    return FileJournal(make_writer(directory, files), reactor, upkeep)


def make_line(seq: int, stamped: Stamped) -> str:
    """The line that the journal would write of an event, without newline."""
    return encode(Record(seq, stamped.time, stamped.mono, "bench", BOOT, stamped.event)).decode()[:-1]


def make_change() -> Stamped:
    """One of the changes."""
    clock = SystemClock()
    event = ServiceRegistered(
        protocol="objects",
        session=f"{BOOT}.1",
        routing_id=f"{1:024x}",
        peer="127.0.0.1:40000",
        service="bench/1",
    )
    return Stamped(clock.utc(), clock.mono(), event)


class Run:
    """The measurements of one run of this program."""

    def __init__(self, directory: Path, plan: Plan, redis: journal_redis.Redis | None) -> None:
        self._directory = directory
        self._plan = plan
        self._redis = redis
        self._line = make_line(1, make_change()).encode() + b"\n"
        self._numbers = count()
        self.results = Results()

    async def all_rounds(self) -> None:
        """Measure everything."""
        self.results.add(AT_BEGINNING, syncs_one_by_one(self._directory, self._line, self._plan.closed))
        for _ in range(self._plan.rounds):
            for sessions in self._plan.sessions:
                await self._closed(sessions)
                self._bare(sessions)
            for rate in self._plan.rates:
                await self._open(rate)
        self.results.add(AT_END, syncs_one_by_one(self._directory, self._line, self._plan.closed))

    async def _closed(self, sessions: int) -> None:
        seconds = self._plan.closed
        files = CountingFiles()
        journal = make_journal(self._new_directory(), files)
        ours = await closed_loop(journal, sessions, seconds)
        await journal.close()
        self.results.add((CLOSED, sessions, OURS), Figures(ours.rate, ours.p50, ours.p99, files.lines_per_sync))
        for name, grouped in ((SQLITE_EACH, False), (SQLITE_GROUPED, True)):
            sqlite = journal_sqlite.SqliteJournal(self._new_directory(), reactor, make_line, grouped=grouped)
            self.results.add((CLOSED, sessions, name), await closed_loop(sqlite, sessions, seconds))
            await sqlite.close()
        if self._redis is not None:
            gc.collect()
            journal = await self._redis.as_journal(reactor, make_line)
            self.results.add((CLOSED, sessions, REDIS), await closed_loop(journal, sessions, seconds))
            await journal.close()
            self.results.add((CLOSED, sessions, REDIS_ALONE), self._redis.closed_loop(sessions, 1, seconds))
        if sessions == 1:
            self.results.add((CLOSED, sessions, NO_JOURNAL), without_journal(seconds))

    def _bare(self, together: int) -> None:
        seconds = self._plan.bare
        writer = make_writer(self._new_directory())
        self.results.add((BARE, together, OURS), bare_writer(writer, make_change(), together, seconds))
        directory = self._new_directory()
        sqlite = journal_sqlite.bare(directory, make_change(), make_line, together, seconds)
        self.results.add((BARE, together, SQLITE_GROUPED), sqlite)
        if self._redis is not None:
            self.results.add((BARE, together, REDIS_ALONE), self._redis.closed_loop(1, together, seconds))

    async def _open(self, rate: int) -> None:
        seconds = self._plan.open
        journal = make_journal(self._new_directory())
        self.results.add((OPEN, rate, OURS), await open_loop(journal, OPEN_SESSIONS, rate, seconds))
        await journal.close()
        for name, grouped in ((SQLITE_EACH, False), (SQLITE_GROUPED, True)):
            sqlite = journal_sqlite.SqliteJournal(self._new_directory(), reactor, make_line, grouped=grouped)
            self.results.add((OPEN, rate, name), await open_loop(sqlite, OPEN_SESSIONS, rate, seconds))
            await sqlite.close()
        if self._redis is not None:
            gc.collect()
            journal = await self._redis.as_journal(reactor, make_line)
            self.results.add((OPEN, rate, REDIS), await open_loop(journal, OPEN_SESSIONS, rate, seconds))
            await journal.close()
            self.results.add((OPEN, rate, REDIS_ALONE), self._redis.open_loop(OPEN_SESSIONS, rate, seconds))
        self.results.add((OPEN, rate, NO_JOURNAL), await open_loop(MemoryJournal(), OPEN_SESSIONS, rate, seconds))
        if rate <= BAR_RATE:
            self.results.add((OPEN, rate, DISK), syncs_as_asked(self._directory, self._line, rate, seconds))

    def _new_directory(self) -> Path:
        # This measurement is not to clear away the leftovers of the one before.
        gc.collect()
        path = self._directory / str(next(self._numbers))
        path.mkdir()
        return path


def bare_writer(writer: BatchWriter, stamped: Stamped, together: int, seconds: float) -> Figures:
    """The journal's writer and nothing else: so many changes in each batch, one after the other."""
    latencies: list[float] = []
    begin = now = time.perf_counter()
    while now - begin < seconds:
        writer.commit([make_entry([stamped]) for _ in range(together)])
        before, now = now, time.perf_counter()
        latencies += [now - before] * together
    writer.close()
    return figures(latencies, now - begin, together)


def bars(results: Results, plan: Plan) -> list[Bar]:
    """The bars, as far as they were measured."""
    found = []
    for section, number, other in product((CLOSED, BARE), plan.sessions, OTHERS):
        ours, theirs = (results.median((section, number, system)) for system in (OURS, other))
        if ours is not None and theirs is not None:
            found.append(Bar(f"{section}, {number}: faster than {other}", ours.rate / theirs.rate))
    for rate, other in product(plan.rates, OTHERS):
        ours, theirs = (results.median((OPEN, rate, system)) for system in (OURS, other))
        if ours is not None and theirs is not None:
            found.append(Bar(f"open loop, {rate}/s: p99 less than that of {other}", theirs.p99 / ours.p99))
    ours = results.median((OPEN, BAR_RATE, OURS))
    if ours is not None:
        syncs = ours.p99 / typical_sync(results)
        disk = results.median((OPEN, BAR_RATE, DISK))
        alone = "" if disk is None else f", the disk alone {disk.p99 / typical_sync(results):.1f}"
        what = f"open loop, {BAR_RATE}/s: p99 within {BAR_SYNCS} syncs (takes {syncs:.1f}{alone})"
        found.append(Bar(what, BAR_SYNCS / syncs))
    return found


def typical_sync(results: Results) -> float:
    """How long a sync of this disk takes, in seconds."""
    measured = [each.p50 for key in (AT_BEGINNING, AT_END) for each in results.rounds[key]]
    return sum(measured) / len(measured)


def print_table(results: Results) -> None:
    """One row for each kind of measurement."""
    print(f"\n{'':<48}{'changes/s':>11}{'p50 ms':>10}{'p99 ms':>10}{'per sync':>10}")
    before = None
    for key in sorted(results.rounds, key=_table_order):
        section, number, system = key
        if before not in (None, key[:2]):
            print()
        before = key[:2]
        row = results.median(key)
        assert row is not None
        shared = "" if row.shared is None else f"{row.shared:.1f}"
        name = f"{section}, {number}{'/s' if section == OPEN else ''}, {system}"
        print(f"{name:<48}{row.rate:>11,.0f}{row.p50 * 1000:>10.3f}{row.p99 * 1000:>10.3f}{shared:>10}")


def _table_order(key: Key) -> tuple[int, int, int]:
    section, number, system = key
    sections = (DISK, CLOSED, BARE, OPEN)
    return sections.index(section), number, SYSTEMS.index(system) if system in SYSTEMS else 0


def as_json(machine: dict[str, str], results: Results, found: list[Bar]) -> dict[str, Any]:
    """Everything, each round of it; times in seconds."""
    rows = []
    for (section, number, system), rounds in results.rounds.items():
        median = results.median((section, number, system))
        assert median is not None
        rows.append({"section": section, "number": number, "system": system, **asdict(median)})
        rows[-1]["rounds"] = [asdict(each) for each in rounds]
    return {
        "machine": machine,
        "sync": typical_sync(results),
        "rows": rows,
        "bars": [bar.as_json() for bar in found],
    }


def read_command_line() -> argparse.Namespace:
    """The options of this program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 10, 100, 1000], help="changes on their way")
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 10_000], help="changes asked for a second")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="one round, and a short one")
    parser.add_argument("--directory", type=Path, default=Path(), help="where to write: on the disk to be measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    return parser.parse_args()


def main() -> None:
    """Read the command line, measure, print."""
    options = read_command_line()
    # As the server does.
    tune_collector()
    rounds = 1 if options.quick else options.rounds
    closed, bare, opened = (0.3, 0.15, 0.5) if options.quick else (0.4, 0.2, 1.0)
    plan = Plan(rounds, options.sessions, options.rates, closed, bare, opened)
    redis_version = journal_redis.version()
    machine = {**facts(options.directory), "redis": redis_version or "is not installed: left out"}
    for name, value in machine.items():
        print(f"{name}: {value}")
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-journal-")
        directory = Path(stack.enter_context(temporary)).resolve()
        redis = None
        if redis_version is not None:
            line = make_line(1, make_change()).encode()
            redis = stack.enter_context(journal_redis.redis(directory, line))
        run = Run(directory, plan, redis)
        try:
            react(lambda _: Deferred.fromCoroutine(run.all_rounds()))
        except SystemExit as end:
            if end.code:
                raise
    found = bars(run.results, plan)
    print_table(run.results)
    print_bars(found)
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(machine, run.results, found), indent=1) + "\n")


if __name__ == "__main__":
    main()
