"""A journal in memory that keeps its records. The test decides when a write is durable, and when the disk fails."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, succeed

from bussrv import events as ev
from bussrv.errors import JournalUnavailable
from bussrv.events import Event
from bussrv.journal.condition import JournalCondition
from bussrv.journal.interfaces import IJournal, Waiter
from bussrv.journal.memory import MemoryJournal
from bussrv.journal.record import HEAD_SIZE, Record, Stamped, encode_event
from bussrv.journal.recovery import Recovered
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.state import RegistryState
from bussrv.server.running.journal import NoJournal
from bussrv.settings import Settings
from bussrv.spool.interfaces import ISpool
from bussrv.synth.journal import JournalKeeper
from bussrv.testing.spool import PromptSpool
from bussrv.turns.clock import Clock


class _Held(NamedTuple):
    """Something that is not durable yet.

    :ivar due: when it is going to be, in seconds of the reactor; ``None``: when it is released.
    """

    stamped: Sequence[Stamped]
    waiter: Waiter | None
    due: float | None


class _Told:
    """Whose journal is written, and when, as the record has it that comes next."""

    record: Record

    @property
    def server(self) -> str:
        return self.record.server

    @property
    def boot(self) -> str:
        return self.record.boot

    @property
    def clock(self) -> Clock:
        return self

    def utc(self) -> int:
        return self.record.time

    def mono(self) -> int:
        return self.record.mono


class SteeredJournal(MemoryJournal):
    """A journal in memory.

    :param reactor: calls later; only for :attr:`delay`.
    :ivar records: all that is durable.
    :ivar delay: for how many seconds an entry is on its way to the disk; 0: it is durable at once.
    """

    def __init__(self, server: str = "memory", boot: str = "memory", reactor: Any = None) -> None:
        super().__init__(server, boot)
        self.records: list[Record] = []
        self.delay = 0.0
        self.follow(self.records.extend)
        self._reactor = reactor
        self._is_held = False
        self._held: deque[_Held] = deque()
        self._begin_telling: Callable[[], object] = lambda: None
        self._end_telling: Callable[[], object] = lambda: None

    def begin_boot(self, server: str, boot: str) -> None:
        """The server starts again. What was not durable is lost, and nobody follows any more."""
        self._server, self._boot = server, boot
        self._held.clear()
        self._is_held = False
        self._followers = [self.records.extend]

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        """See :class:`IJournal`."""
        self._measure(stamped)
        if self.unavailable is not None:
            waiter.errback(JournalUnavailable(self.unavailable.message))
        elif self._waits:
            self._hold_back(stamped, waiter)
        else:
            waiter.callback(self.number(stamped))

    def append_fact(self, stamped: Stamped) -> None:
        """See :class:`IJournal`."""
        self._measure([stamped])
        if self._waits:
            self._hold_back([stamped], None)
        else:
            self.number([stamped])

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """See :class:`IJournal`."""
        self._begin_telling, self._end_telling = begin, end

    def events(self, *kinds: type[Event]) -> list[Event]:
        """The events of these kinds that are durable; without kinds: all."""
        return [each.event for each in self.records if not kinds or isinstance(each.event, kinds)]

    def write_to(self, directory: Path) -> None:
        """Write everything that is durable into a directory, as a journal with chains and seals."""
        directory.mkdir(parents=True, exist_ok=True)
        keeper = JournalKeeper(directory)
        keeper.world = told = _Told()
        for each in self.records:
            told.record = each
            keeper.write([Stamped(each.time, each.mono, each.event)])
        keeper.close()

    # The test steers.

    def hold(self) -> None:
        """From now on nothing becomes durable, until :meth:`release`."""
        self._is_held = True

    @property
    def held(self) -> int:
        """How many entries are not durable yet."""
        return len(self._held)

    @property
    def changes_held(self) -> int:
        """How many of them somebody waits for."""
        return sum(each.waiter is not None for each in self._held)

    def release(self, count: int | None = None) -> None:
        """Make the first ``count`` held entries durable; without a count all of them, and hold no more."""
        self._begin_telling()
        while self._held and count != 0:
            self._make_durable(self._held.popleft())
            count = None if count is None else count - 1
        self._end_telling()
        if count is None:
            self._is_held = False

    def fail(self, message: str | None) -> None:
        """Refuse what is held and all that comes, as a full disk would; ``None`` ends that."""
        self.unavailable = None if message is None else JournalUnavailable(message)
        if message is None:
            return
        self._is_held = False
        held, self._held = self._held, deque()
        for each in held:
            if each.waiter is None:
                self.number(each.stamped)
            else:
                each.waiter.errback(JournalUnavailable(message))

    # The way to the disk.

    @property
    def _waits(self) -> bool:
        return bool(self._is_held or self._held or self.delay)

    def _hold_back(self, stamped: Sequence[Stamped], waiter: Waiter | None) -> None:
        due = None
        if not self._is_held:
            due = self._reactor.seconds() + self.delay
            self._reactor.callLater(self.delay, self._release_due)
        self._held.append(_Held(stamped, waiter, due))

    def _release_due(self) -> None:
        now = self._reactor.seconds()
        self._begin_telling()
        while self._held and not self._is_held and (self._held[0].due is None or self._held[0].due <= now):
            self._make_durable(self._held.popleft())
        self._end_telling()

    def _make_durable(self, entry: _Held) -> None:
        records = self.number(entry.stamped)
        if entry.waiter is not None:
            entry.waiter.callback(records)

    def _measure(self, stamped: Sequence[Stamped]) -> None:
        self.bytes_accepted += sum(HEAD_SIZE + len(encode_event(each.event)) for each in stamped)


class MemoryPlace(NoJournal):
    """The place of a journal in memory, and of the spool. Both outlive a server that is killed.

    :ivar journal: the journal, of all boots.
    :ivar kept: the spool, once a server has asked for it.
    """

    def __init__(self, reactor: Any) -> None:
        super().__init__()
        self.journal = SteeredJournal(reactor=reactor)
        self.kept: PromptSpool | None = None
        self._reactor = reactor

    def find(self) -> None:
        """Recover, as at the start of a server."""
        fold, records = RegistryFold(), self.journal.records
        for each in records:
            fold.apply(each.event, each.time)
        self.state: RegistryState = fold.state
        self.recovered = Recovered(
            next_seq=len(records) + 1,
            last_time=records[-1].time if records else 0,
            server=records[-1].server if records else None,
            stopped=not records or isinstance(records[-1].event, ev.ServerStopped),
        )

    def open(self, server: str, boot: str) -> IJournal:
        """Continue the journal."""
        self.journal.begin_boot(server, boot)
        return self.journal

    def spool(self, settings: Settings, counters: Counter[str], clock: Clock, reactor: Any) -> ISpool:
        """The spool, which is never full before its limits."""
        if self.kept is None:
            self.kept = PromptSpool(settings, counters, clock.utc, reactor)
        else:
            self.kept.begin_boot(counters)
        return self.kept

    def condition(self) -> JournalCondition:
        """How well it can be written."""
        unavailable = self.journal.unavailable
        trouble = None if unavailable is None else f"the journal cannot be written: {unavailable.message}"
        return JournalCondition(is_on=True, trouble=trouble, waiting=self.journal.held)

    def close(self) -> Deferred[None]:
        """Write what is left."""
        self.journal.release()
        return succeed(None)
