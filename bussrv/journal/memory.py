"""A journal that is not on disk: for ``--journal off``, and for tests that decide when a write is durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from bussrv.errors import JournalUnavailable
from bussrv.journal.interfaces import IJournal, Waiter
from bussrv.journal.record import HEAD_SIZE, Record, Stamped, encode_event


@implementer(IJournal)
class MemoryJournal:
    """Numbers events like a journal on disk.

    :param keep: whether ``records`` collects them; without it nothing is kept.
    """

    def __init__(self, server: str = "memory", boot: str = "memory", *, keep: bool = False) -> None:
        self.records: list[Record] = []
        self.bytes_accepted = 0
        self._server = server
        self._boot = boot
        self._keep = keep
        self._next_seq = 1
        self._held: deque[tuple[Sequence[Stamped], Waiter | None]] | None = None
        self._failing: str | None = None
        self._followers: list[Callable[[list[Record]], None]] = []
        self._begin_telling: Callable[[], object] = lambda: None
        self._end_telling: Callable[[], object] = lambda: None

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        """Number events; durable at once, unless :meth:`hold` was called."""
        self._measure(stamped)
        if self._failing is not None:
            waiter.errback(JournalUnavailable(self._failing))
        elif self._held is not None:
            self._held.append((stamped, waiter))
        else:
            waiter.callback(self._number(stamped))

    def append(self, stamped: Sequence[Stamped]) -> Deferred[list[Record]]:
        """See :class:`IJournal`."""
        done: Deferred[list[Record]] = Deferred()
        self.append_change(stamped, done)
        return done

    def append_fact(self, stamped: Stamped) -> None:
        """Number an event that nobody waits for."""
        self._measure([stamped])
        if self._held is not None:
            self._held.append(([stamped], None))
        else:
            self._number([stamped])

    @property
    def unavailable(self) -> JournalUnavailable | None:
        """Why changes are refused now, if so."""
        return None if self._failing is None else JournalUnavailable(self._failing)

    def refuse(self) -> None:
        """Nobody counts that here."""

    def follow(self, follower: Callable[[list[Record]], None]) -> None:
        """Call ``follower`` with what is numbered from now on."""
        self._followers.append(follower)

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Call ``begin`` before some of those who wait are told one after the other, and ``end`` after them."""
        self._begin_telling, self._end_telling = begin, end

    def close(self) -> Deferred[None]:
        """Nothing is left to do."""
        return succeed(None)

    def hold(self) -> None:
        """From now on nothing becomes durable, until :meth:`release`."""
        self._held = deque()

    @property
    def held(self) -> int:
        """How many entries are held."""
        return len(self._held or ())

    def release(self, count: int | None = None) -> None:
        """Make the first ``count`` held entries durable; without a count all of them, and hold no more."""
        held = self._held or deque()
        self._begin_telling()
        while held and count != 0:
            stamped, done = held.popleft()
            records = self._number(stamped)
            if done is not None:
                done.callback(records)
            count = None if count is None else count - 1
        self._end_telling()
        if count is None:
            self._held = None

    def fail(self, message: str | None) -> None:
        """Refuse what is held and all that comes, as a full disk would; ``None`` ends that."""
        self._failing = message
        if message is None:
            return
        held, self._held = self._held or deque(), None
        while held:
            stamped, done = held.popleft()
            if done is None:
                self._number(stamped)
            else:
                done.errback(JournalUnavailable(message))

    def _measure(self, stamped: Sequence[Stamped]) -> None:
        if self._keep:
            self.bytes_accepted += sum(HEAD_SIZE + len(encode_event(each.event)) for each in stamped)

    def _number(self, stamped: Sequence[Stamped]) -> list[Record]:
        records = []
        for each in stamped:
            records.append(Record(self._next_seq, each.time, each.mono, self._server, self._boot, each.event))
            self._next_seq += 1
        if self._keep:
            self.records += records
        for follower in self._followers:
            follower(records)
        return records
