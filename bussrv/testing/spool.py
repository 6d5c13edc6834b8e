"""A spool without a thread, for servers in memory: work is done at once, and its outcome told in the next turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from bussrv.errors import SpoolUnavailable
from bussrv.settings import Settings
from bussrv.spool.entries import Change, Owner, Page, Written
from bussrv.spool.file import SpoolFile
from bussrv.spool.interfaces import ISpool, SpoolWaiter
from bussrv.spool.store import SpoolStore


@implementer(ISpool)
class PromptSpool:
    """A spool in memory.

    :ivar entries: not counted here.
    :ivar fails: whether changes are refused, as by a disk that fails.
    :ivar reactor: calls later. Calls of one that nobody advances any more are lost.
    :ivar delay: seconds until what was asked for is told.
    """

    trouble = None
    kept = 0

    def __init__(self, settings: Settings, counters: Counter[str], utc: Callable[[], int], reactor: Clock) -> None:
        self._settings, self._utc = settings, utc
        self.fails = False
        self.delay = 0.0
        self._due = 0.0
        self.entries: Counter[str] = Counter()
        self.damage_observers: list[Callable[[], object]] = []
        self._counters = counters
        self.reactor = reactor
        self._boot = 0

    @cached_property
    def store(self) -> SpoolStore:
        """Its entries. Most servers in memory keep none, and to make the tables is a tenth of the start of one."""
        return SpoolStore(SpoolFile(None).open(), self._settings, self._utc)

    def restart(self, reactor: Clock) -> None:
        """The server is another one: what was to be told is lost."""
        self.reactor, self._due = reactor, 0.0

    def begin_boot(self, counters: Counter[str]) -> None:
        """The server starts again: what was to be told is lost, and nobody is told of damage any more."""
        self._boot += 1
        self._counters, self._due = counters, 0.0
        self.damage_observers = []

    def close(self) -> Deferred[None]:
        """Nothing waits."""
        return succeed(None)

    def damage(self) -> None:
        """Everything in it is lost."""
        self.__dict__.pop("store", None)
        for each in self.damage_observers:
            each()

    @property
    def unavailable(self) -> SpoolUnavailable | None:
        """See :class:`ISpool`."""
        return SpoolUnavailable("full") if self.fails else None

    def append_changes(self, changes: Sequence[Change], waiter: SpoolWaiter) -> None:
        """See :class:`ISpool`."""
        outcome = self.unavailable or self._do(lambda: self.store.apply(changes))
        tell = waiter.errback if isinstance(outcome, Exception) else waiter.callback
        self._tell(tell, outcome)

    def write(self, changes: Sequence[Change]) -> Deferred[Written]:
        """See :class:`ISpool`."""
        done: Deferred[Written] = Deferred()
        self.append_changes(changes, done)
        return done

    def page(
        self, owner: str, kind: str, *, after: int = 0, most: int = 100, most_bytes: int = 1 << 20
    ) -> Deferred[Page]:
        """See :class:`ISpool`."""
        return self._read(lambda: self.store.page(owner, kind, after, most, most_bytes))

    def owner(self, owner: str) -> Deferred[Owner | None]:
        """See :class:`ISpool`."""
        return self._read(lambda: self.store.owner(owner))

    def owners(self, *, after: str = "", most: int = 1000) -> Deferred[tuple[str, ...]]:
        """See :class:`ISpool`."""
        return self._read(lambda: self.store.owners(after, most))

    def entries_of(self, owner: str) -> int:
        """See :class:`ISpool`."""
        found = self._do(lambda: self.store.owner(owner))
        return 0 if found is None else sum(found.kinds.values())

    def _read(self, work: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self._tell(done.callback, self._do(work))
        return done

    def _tell(self, tell: Callable[[Any], object], outcome: Any) -> None:
        """In the order of the calls."""
        now = self.reactor.seconds()
        self._due = max(self._due, now + self.delay)
        self.reactor.callLater(self._due - now, self._tell_in, self._boot, tell, outcome)

    def _tell_in(self, boot: int, tell: Callable[[Any], object], outcome: Any) -> None:
        if boot == self._boot:
            tell(outcome)

    def _do(self, work: Callable[[], Any]) -> Any:
        self.store.begin()
        try:
            outcome = work()
        except Exception as error:
            return error
        finally:
            self.store.commit()
        if isinstance(outcome, Written):
            self._counters["spool-dropped"] += outcome.dropped
        return outcome
