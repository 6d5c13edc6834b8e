"""A spool whose thread, reactor and disk do as a test tells them."""

from __future__ import annotations

import queue
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock as ReactorClock

from bussrv.journal.space import Space
from bussrv.settings import Settings
from bussrv.spool.entries import Append, Claim, Page, Put
from bussrv.spool.file import NAME, SpoolFile
from bussrv.spool.spool import Spool
from tests.journal.support import PATIENCE, FakeClock


class Reactor(ReactorClock):
    """Runs what the thread asks for only while the test waits. Its turns end then as well."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def callFromThread(self, function: Any, *args: Any) -> None:
        self._calls.put((function, *args))

    def run_until(self, condition: Callable[[], object]) -> None:
        self.advance(0)
        while not condition():
            function, *args = self._calls.get(timeout=PATIENCE)
            function(*args)
            self.advance(0)

    def wait(self, done: Deferred[Any]) -> Any:
        """The result of a Deferred, or its failure raised."""
        results: list[Any] = []
        done.addBoth(results.append)
        self.run_until(lambda: results)
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        return results[0]


class Disk:
    """Makes connections that fail when they are told to.

    :ivar failing: the beginnings of the statements that fail.
    :ivar fail_after: so many statements work, the one after them fails; ``None``: none fails because of that.
    :ivar statements: how many there were, by their first word.
    """

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.fail_after: int | None = None
        self.statements: Counter[str] = Counter()

    def connect(self, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        disk = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
                disk.count(sql)
                return super().execute(sql, *parameters)

        return sqlite3.connect(*args, factory=Connection, **kwargs)

    def count(self, sql: str) -> None:
        self.statements[sql.split()[0]] += 1
        if any(sql.startswith(each) for each in self.failing):
            raise sqlite3.OperationalError("disk I/O error")
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0:
                self.fail_after = None
                raise sqlite3.OperationalError("disk I/O error")


class Scene:
    """A spool of a server."""

    def __init__(self, directory: Path | None = None, **settings: Any) -> None:
        self.directory = directory
        self.disk, self.clock, self.reactor = Disk(), FakeClock(), Reactor()
        self.counters: Counter[str] = Counter()
        self.settings = Settings(**settings)
        self.spool = self.start()

    def start(self, space: Space | None = None) -> Spool:
        """Another boot of the server. The one before was closed."""
        file = SpoolFile(self.directory, space, self.disk.connect)
        self.spool = Spool(file, self.settings, self.counters, self.clock, self.reactor)
        return self.spool

    def wait(self, done: Deferred[Any]) -> Any:
        return self.reactor.wait(done)

    def write(self, *changes: Any) -> Any:
        return self.wait(self.spool.write(changes))

    def claim(self, owner: str = "ann", address: str = "10.0.0.1:7", **more: Any) -> None:
        self.write(Claim(owner=owner, address=address, **more))

    def append(self, payload: bytes, owner: str = "ann", **more: Any) -> Any:
        return self.write(Append(owner=owner, kind="queue", payload=payload, **more))

    def put(self, key: str, payload: bytes, owner: str = "ann", **more: Any) -> Any:
        return self.write(Put(owner=owner, kind="state", key=key, payload=payload, **more))

    def page(self, owner: str = "ann", kind: str = "queue", **more: Any) -> Page:
        page: Page = self.wait(self.spool.page(owner, kind, **more))
        return page

    def payloads(self, owner: str = "ann", kind: str = "queue") -> list[bytes]:
        return [each.payload for each in self.page(owner, kind).entries]

    def advance(self, seconds: float) -> None:
        """Let time pass, for all clocks."""
        self.clock.advance(seconds)
        self.reactor.advance(seconds)

    def close(self) -> None:
        self.wait(self.spool.close())


def bytes_of(directory: Path) -> bytes:
    """Everything in the files of a spool."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob(f"{NAME}*")))
