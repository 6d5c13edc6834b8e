"""A journal that is not on disk: for ``--journal off``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from bussrv.errors import JournalUnavailable
from bussrv.journal.interfaces import IJournal, Waiter
from bussrv.journal.record import Record, Stamped


@implementer(IJournal)
class MemoryJournal:
    """Numbers events like a journal on disk, and keeps nothing. What it numbered counts as durable."""

    unavailable: JournalUnavailable | None = None
    bytes_accepted = 0

    def __init__(self, server: str = "memory", boot: str = "memory") -> None:
        self._server = server
        self._boot = boot
        self._next_seq = 1
        self._followers: list[Callable[[list[Record]], None]] = []

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        """Number events; durable at once."""
        waiter.callback(self.number(stamped))

    def append(self, stamped: Sequence[Stamped]) -> Deferred[list[Record]]:
        """See :class:`IJournal`."""
        done: Deferred[list[Record]] = Deferred()
        self.append_change(stamped, done)
        return done

    def append_fact(self, stamped: Stamped) -> None:
        """Number an event that nobody waits for."""
        self.number([stamped])

    def refuse(self) -> None:
        """Nobody counts that here."""

    def follow(self, follower: Callable[[list[Record]], None]) -> None:
        """Call ``follower`` with what is numbered from now on."""
        self._followers.append(follower)

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Nobody waits here, so nobody is told together with others."""

    def close(self) -> Deferred[None]:
        """Nothing is left to do."""
        return succeed(None)

    def number(self, stamped: Sequence[Stamped]) -> list[Record]:
        """Make records of events, and tell those who follow."""
        records = []
        for each in stamped:
            records.append(Record(self._next_seq, each.time, each.mono, self._server, self._boot, each.event))
            self._next_seq += 1
        for follower in self._followers:
            follower(records)
        return records
