"""SQLite in the place of the journal: WAL mode, ``synchronous=FULL``, the same lines, each durable when answered."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from journal_figures import Figures, figures
from twisted.internet.defer import Deferred
from zope.interface import implementer

from bussrv.journal.interfaces import IJournal, Waiter
from bussrv.journal.record import Record, Stamped

MOST_ROWS = 1000
"""In one statement."""

Lines = Sequence[str]
Entry = tuple[Sequence[Stamped], Waiter | None]
Encode = Callable[[int, Stamped], str]


class Table:
    """A table of lines."""

    def __init__(self, directory: Path) -> None:
        self._connection = sqlite3.connect(directory / "journal.db", isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=FULL",
            "CREATE TABLE journal (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)",
        ):
            self._connection.execute(statement)
        self.transactions = 0

    def insert(self, lines: Lines) -> None:
        """Durable when it returns: one transaction.

        As few statements as possible: each gives the interpreter's lock away and has to get it back, which takes
        longer than the insertion.
        """
        self.transactions += 1
        if len(lines) <= MOST_ROWS:
            self._insert(lines)
            return
        self._connection.execute("BEGIN")
        for first in range(0, len(lines), MOST_ROWS):
            self._insert(lines[first : first + MOST_ROWS])
        self._connection.execute("COMMIT")

    def _insert(self, lines: Lines) -> None:
        rows = ",".join(["(?)"] * len(lines))
        self._connection.execute(f"INSERT INTO journal (line) VALUES {rows}", lines)

    def close(self) -> None:
        self._connection.close()


@implementer(IJournal)
class SqliteJournal:
    """A writer thread that puts lines into a table.

    :param grouped: whether everything that queued up meanwhile goes into one transaction, or each change into its own.
    """

    bytes_accepted = 0
    unavailable = None

    def __init__(self, directory: Path, reactor: Any, encode: Encode, *, grouped: bool) -> None:
        self.table = Table(directory)
        self._reactor = reactor
        self._encode = encode
        self._grouped = grouped
        self._seq = 0
        self._inbox: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._closed: Deferred[None] = Deferred()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        self._inbox.put((stamped, waiter))

    def append_fact(self, stamped: Stamped) -> None:
        self._inbox.put(([stamped], None))

    def refuse(self) -> None:
        """Nothing is refused."""

    def follow(self, follower: Callable[[list[Record]], None]) -> None:
        """Nobody is told."""

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Nothing is sent by those who are told."""

    def close(self) -> Deferred[None]:
        self._inbox.put(None)
        return self._closed

    def _run(self) -> None:
        while (first := self._inbox.get()) is not None:
            batch = [first]
            # Sessions that open before the measurement need no transactions of their own.
            while self._grouped or batch[-1][1] is None:
                try:
                    entry = self._inbox.get_nowait()
                except queue.Empty:
                    break
                if entry is None:
                    self._inbox.put(None)
                    break
                batch.append(entry)
            self._write(batch)
        self.table.close()
        self._reactor.callFromThread(self._closed.callback, None)

    def _write(self, batch: list[Entry]) -> None:
        lines = []
        for stamped, _ in batch:
            for each in stamped:
                self._seq += 1
                lines.append(self._encode(self._seq, each))
        self.table.insert(lines)
        self._reactor.callFromThread(_answer, batch)


def _answer(batch: list[Entry]) -> None:
    for _, done in batch:
        if done is not None:
            done.callback([])


def bare(directory: Path, stamped: Stamped, encode: Encode, together: int, seconds: float) -> Figures:
    """One thread and nothing else: so many lines in each transaction, one after the other."""
    table = Table(directory)
    latencies: list[float] = []
    begin = now = time.perf_counter()
    seq = 0
    while now - begin < seconds:
        lines = [encode(seq + number, stamped) for number in range(together)]
        seq += together
        table.insert(lines)
        before, now = now, time.perf_counter()
        latencies += [now - before] * together
    table.close()
    return figures(latencies, now - begin, together)
