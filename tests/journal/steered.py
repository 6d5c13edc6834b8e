"""A journal in memory that keeps its records. The test decides when a write is durable, and when the disk fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from bussrv.errors import JournalUnavailable
from bussrv.journal.interfaces import Waiter
from bussrv.journal.memory import MemoryJournal
from bussrv.journal.record import HEAD_SIZE, Record, Stamped, encode_event


class SteeredJournal(MemoryJournal):
    def __init__(self, server: str = "memory", boot: str = "memory") -> None:
        super().__init__(server, boot)
        self.records: list[Record] = []
        self.follow(self.records.extend)
        self._held: deque[tuple[Sequence[Stamped], Waiter | None]] | None = None
        self._begin_telling: Callable[[], object] = lambda: None
        self._end_telling: Callable[[], object] = lambda: None

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        self._measure(stamped)
        if self.unavailable is not None:
            waiter.errback(JournalUnavailable(self.unavailable.message))
        elif self._held is not None:
            self._held.append((stamped, waiter))
        else:
            waiter.callback(self.number(stamped))

    def append_fact(self, stamped: Stamped) -> None:
        self._measure([stamped])
        if self._held is not None:
            self._held.append(([stamped], None))
        else:
            self.number([stamped])

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self._begin_telling, self._end_telling = begin, end

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
            records = self.number(stamped)
            if done is not None:
                done.callback(records)
            count = None if count is None else count - 1
        self._end_telling()
        if count is None:
            self._held = None

    def fail(self, message: str | None) -> None:
        """Refuse what is held and all that comes, as a full disk would; ``None`` ends that."""
        self.unavailable = None if message is None else JournalUnavailable(message)
        if message is None:
            return
        held, self._held = self._held or deque(), None
        while held:
            stamped, done = held.popleft()
            if done is None:
                self.number(stamped)
            else:
                done.errback(JournalUnavailable(message))

    def _measure(self, stamped: Sequence[Stamped]) -> None:
        self.bytes_accepted += sum(HEAD_SIZE + len(encode_event(each.event)) for each in stamped)
