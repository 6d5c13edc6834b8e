"""A spool with a thread of its own, and one commit for everything that queued up meanwhile.

As with the journal, the reactor hands work over at the end of its turn and never waits. The thread does all work that
came during its last commit in one transaction, commits, and tells the reactor.

When the disk fails, everything of the transaction fails with :class:`SpoolUnavailable`; the next one is tried anew, and
one a second if nothing comes. A damaged file is set aside, and another one is begun.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from zope.interface import implementer

from bussrv.errors import OverLimit, SpoolUnavailable
from bussrv.settings import Settings
from bussrv.spool.accounts import ENTRY_BYTES
from bussrv.spool.entries import Append, AppendToAll, Change, Claim, Owner, Page, Put, Written, entries_in
from bussrv.spool.file import SpoolDamaged, SpoolFile, is_damage
from bussrv.spool.interfaces import ISpool, SpoolWaiter
from bussrv.spool.store import SpoolStore
from bussrv.turns.clock import Clock
from bussrv.turns.reactor_turn import EndOfReactorTurn
from bussrv.turns.slices import Slices, by_steps

MOST_WAITING = 64 << 20
"""How many bytes may wait to be written before changes are refused. A payload for many owners is held once."""

IDLE = 1.0
"""After so many seconds without work the thread looks whether it is to tidy up, and tries a disk that failed."""

UNTIDY = 10.0
"""Bytes of removed entries stay in the files for about so many seconds at most."""

MOST_FRAYED = 3600.0
"""A small file is written anew so many seconds after it was the last time, and when it is closed, if something was
removed meanwhile."""

MOST_REWRITTEN = 32 << 20
"""A larger file is not written anew, except when somebody is forgotten: it takes memory and time."""

LONGEST_SLEEP = 60.0
"""The clock is looked at so often for entries that expire, because it may be set."""

SLICE = 0.002
"""How many seconds those who wait are told before the reactor does something else."""

log = Logger()


class _Job(Struct, frozen=True):
    """Something to do with the store, and who is told.

    :ivar held: the bytes of memory that it takes until it is done.
    :ivar size: the bytes that it writes.
    :ivar grows: whether it needs space on the disk.
    """

    work: Callable[[SpoolStore], Any]
    waiter: Any
    held: int = 0
    size: int = 0
    is_change: bool = False
    grows: bool = False


class _Condition(Struct, frozen=True):
    """Why changes are refused: for clients, and with paths for operators."""

    message: str
    trouble: str


@implementer(ISpool)
class Spool:
    """A spool in a file, or in memory.

    :param counters: counts what is refused, dropped, expired and damaged.
    """

    def __init__(
        self,
        file: SpoolFile,
        settings: Settings,
        counters: Counter[str],
        clock: Clock,
        reactor: Any,
    ) -> None:
        self.damage_observers: list[Callable[[], object]] = []
        self.kept = 0
        self.entries: Counter[str] = Counter()
        self._entries: dict[str, int] = {}
        self._file = file
        self._settings = settings
        self._counters = counters
        self._clock = clock
        self._reactor = reactor
        self._space = file.space
        self._inbox: queue.SimpleQueue[list[_Job | None]] = queue.SimpleQueue()
        self._collected: list[_Job | None] = []
        self._turn = EndOfReactorTurn(self._hand_over, reactor)
        self._thread: threading.Thread | None = None
        self._waiting = 0
        self._condition: _Condition | None = None
        self._untold: deque[tuple[_Job, Any]] = deque()
        self._slices = Slices(reactor, SLICE, Counter())
        self._is_telling = False
        self._closed: Deferred[None] | None = None
        self._timer: Any = None
        # The rest belongs to the thread.
        self._store: SpoolStore | None = None
        self._found: _Condition | None = None
        self._tidied = self._rewritten = clock.mono()
        self._is_tidy = True

    @property
    def unavailable(self) -> SpoolUnavailable | None:
        """Why changes are not even tried now, if so; see :class:`ISpool`."""
        if self._condition is not None:
            return SpoolUnavailable(self._condition.message)
        return self._refusal()

    @property
    def trouble(self) -> str | None:
        """The same for operators, as a sentence without its end; ``None``: changes are made."""
        unavailable = self.unavailable
        if self._condition is not None:
            return self._condition.trouble
        return None if unavailable is None else unavailable.message

    def append_changes(self, changes: Sequence[Change], waiter: SpoolWaiter) -> None:
        """Make changes, all or none; see :class:`ISpool`."""
        refusal = self._refusal()
        if refusal is not None:
            self._counters[refusal.reason] += 1
            waiter.errback(refusal)
            return
        added = [each for each in changes if isinstance(each, (Append, AppendToAll, Put))]
        size = (1 + sum(map(entries_in, added))) * ENTRY_BYTES
        held = size + sum({id(each.payload): len(each.payload) for each in added}.values())
        size += sum(len(each.payload) for each in added)
        grows = bool(added) or any(isinstance(each, Claim) for each in changes)
        self._collect(_Job(partial(SpoolStore.apply, changes=changes), waiter, held, size, True, grows))

    def write(self, changes: Sequence[Change]) -> Deferred[Written]:
        """See :class:`ISpool`."""
        done: Deferred[Written] = Deferred()
        self.append_changes(changes, done)
        return done

    def page(
        self, owner: str, kind: str, *, after: int = 0, most: int = 100, most_bytes: int = 1 << 20
    ) -> Deferred[Page]:
        """Read entries; see :class:`ISpool`."""
        return self._read(lambda store: store.page(owner, kind, after, most, most_bytes))

    def owner(self, owner: str) -> Deferred[Owner | None]:
        """Read an owner; see :class:`ISpool`."""
        return self._read(lambda store: store.owner(owner))

    def owners(self, *, after: str = "", most: int = 1000) -> Deferred[tuple[str, ...]]:
        """Read the keys of owners; see :class:`ISpool`."""
        return self._read(lambda store: store.owners(after, most))

    def entries_of(self, owner: str) -> int:
        """How many entries an owner has; see :class:`ISpool`."""
        return self._entries.get(owner, 0)

    def close(self) -> Deferred[None]:
        """Write what waits and close; see :class:`ISpool`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._closed = Deferred()
        if self._thread is None:
            return succeed(None)
        self._collect(None)
        self._turn.hurry()
        return self._closed

    def _refusal(self) -> SpoolUnavailable | None:
        """Why nothing more is queued. A disk that failed is tried."""
        if self._closed is not None:
            return SpoolUnavailable("the spool is closed")
        if self._waiting >= MOST_WAITING:
            return SpoolUnavailable(f"the spool is too slow: {self._waiting} bytes wait to be written")
        return None

    def _read(self, work: Callable[[SpoolStore], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        if self._closed is not None:
            done.errback(SpoolUnavailable("the spool is closed"))
        else:
            self._collect(_Job(work, done))
        return done

    def _collect(self, job: _Job | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="bussrv-spool", daemon=True)
            self._thread.start()
        if job is not None:
            self._waiting += job.held
        self._collected.append(job)
        self._turn.wait()

    def _hand_over(self) -> None:
        collected, self._collected = self._collected, []
        self._inbox.put(collected)

    def _tell(
        self,
        outcomes: list[tuple[_Job, Any]],
        condition: _Condition | None,
        expiry: int | None,
        kept: int,
        changed: tuple[bool, dict[str, int]],
    ) -> None:
        """Tell the outcomes of a transaction."""
        self._condition, self.kept = condition, kept
        self._has_counted(*changed)
        for job, outcome in outcomes:
            self._waiting -= job.held
            self._count(job, outcome)
        self._tell_soon(outcomes)
        self._wait_for(expiry)

    def _has_counted(self, is_all: bool, entries: dict[str, int]) -> None:
        """Owners have so many entries now; ``is_all``: others have none."""
        if is_all:
            self._entries.clear()
            self.entries.clear()
        for owner, count in entries.items():
            self.entries[owner.partition(" ")[0]] += count - self._entries.get(owner, 0)
            if count:
                self._entries[owner] = count
            else:
                self._entries.pop(owner, None)

    def _tell_soon(self, outcomes: list[tuple[_Job, Any]]) -> None:
        self._untold += outcomes
        if not self._is_telling:
            self._is_telling = True
            self._slices.do(by_steps(self._tellings(), self._reactor.seconds))

    def _count(self, job: _Job, outcome: Any) -> None:
        if isinstance(outcome, OverLimit):
            self._counters[outcome.limit] += 1
        elif isinstance(outcome, SpoolUnavailable) and job.is_change:
            self._counters[outcome.reason] += 1
        elif isinstance(outcome, Written) and outcome.dropped:
            self._counters["spool-dropped"] += outcome.dropped

    def _tellings(self) -> Iterator[None]:
        while self._untold:
            job, outcome = self._untold.popleft()
            (job.waiter.errback if isinstance(outcome, Exception) else job.waiter.callback)(outcome)
            yield
        self._is_telling = False

    def _wait_for(self, expiry: int | None) -> None:
        """Have entries removed that expire then; one timer is enough."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if expiry is not None and self._closed is None:
            seconds = (expiry - self._clock.utc()) / 1_000_000
            self._timer = self._reactor.callLater(min(max(seconds, 0.0), LONGEST_SLEEP), self._expire)

    def _expire(self) -> None:
        self._timer = None
        # If it fails, the next transaction that does not says what expires next.
        expired = Deferred().addCallbacks(self._tell_expired, lambda _: None)
        self._collect(_Job(SpoolStore.expire, expired, is_change=True))

    def _tell_expired(self, count: int) -> None:
        self._counters["spool-expired"] += count

    def _tell_damage(self) -> None:
        self._counters["spool-damaged"] += 1
        for each in self.damage_observers:
            each()

    def _tell_closed(self, closed: Deferred[None]) -> None:
        if self._thread is not None:
            self._thread.join()
        self._tell_soon([(_Job(SpoolStore.close, closed), None)])

    # In the thread.

    def _run(self) -> None:
        is_open = True
        while is_open:
            jobs = self._next_jobs()
            is_open = not jobs or jobs[-1] is not None
            self._do([each for each in jobs if each is not None])
            self._tidy(is_end=not is_open)
        self._close_store()
        self._file.release()
        self._reactor.callFromThread(self._tell_closed, self._closed)

    def _next_jobs(self) -> list[_Job | None]:
        store, jobs = self._store, list[_Job | None]()
        timeout = IDLE if self._found is not None or (store is not None and store.has_removed) else MOST_FRAYED
        try:
            jobs += self._inbox.get(timeout=timeout)
            while jobs[-1] is not None:
                jobs += self._inbox.get_nowait()
        except queue.Empty:
            pass
        return jobs

    def _do(self, jobs: list[_Job]) -> None:
        if not jobs and self._found is None:
            return
        expiry = None
        try:
            shortage = self._shortage()
            outcomes, expiry = self._in_one_transaction(self._opened(), jobs, shortage)
            self._find(shortage)
        except Exception as error:
            unavailable = SpoolUnavailable(self._failed(error))
            outcomes = [(job, self._read_again(job, unavailable)) for job in jobs]
        if self._store is None:
            kept, changed = 0, (True, dict[str, int]())
        else:
            kept, changed = self._store.kept, self._store.take_changed()
        self._reactor.callFromThread(self._tell, outcomes, self._found, expiry, kept, changed)

    def _in_one_transaction(
        self, store: SpoolStore, jobs: list[_Job], shortage: _Condition | None
    ) -> tuple[list[tuple[_Job, Any]], int | None]:
        self._file.check()
        try:
            store.begin()
            if not jobs:
                store.probe()
            outcomes = [(job, self._outcome(store, job, shortage)) for job in jobs]
            expiry = store.next_expiry()
            store.commit()
        except BaseException:
            store.rollback()
            raise
        if self._space is not None:
            self._space.wrote(sum(job.size for job in jobs))
        return outcomes, expiry

    def _shortage(self) -> _Condition | None:
        if self._space is None or self._space.shortage() is None:
            return None
        return _Condition("the disk gets full", self._space.sentence)

    @staticmethod
    def _outcome(store: SpoolStore, job: _Job, shortage: _Condition | None) -> Any:
        if job.grows and shortage is not None:
            return SpoolUnavailable(shortage.message)
        try:
            return job.work(store)
        except (sqlite3.OperationalError, SpoolDamaged):
            raise
        except Exception as error:
            if is_damage(error):
                raise
            return error

    def _read_again(self, job: _Job, unavailable: SpoolUnavailable) -> Any:
        """The outcome of a job of a transaction that failed. Readings had changes in them that were taken back."""
        if job.is_change or self._store is None or not self._store.is_counted:
            return unavailable
        try:
            return job.work(self._store)
        except Exception:
            return unavailable

    def _opened(self) -> SpoolStore:
        if self._store is None:
            try:
                self._store = SpoolStore(self._open_file(), self._settings, self._clock.utc)
            except BaseException:
                self._file.release()
                raise
        return self._store

    def _open_file(self) -> sqlite3.Connection:
        try:
            return self._file.open()
        except SpoolDamaged as error:
            self._set_aside(error)
            return self._file.open()

    def _find(self, condition: _Condition | None) -> None:
        """Whether changes are refused, and why; the log says when that begins and ends."""
        before, self._found = self._found, condition
        if before is None and condition is not None:
            log.critical("spool: changes are refused: {why}", event="spool.failing", why=condition.trouble)
        elif before is not None and condition is None:
            log.info("spool: can be written again", event="spool.restored")

    def _failed(self, error: Exception) -> str:
        """A transaction failed. :returns: why, for clients."""
        if isinstance(error, SpoolDamaged) or is_damage(error):
            self._set_aside(error)
            return "the spool was damaged"
        self._find(_Condition("the spool cannot be written", f"the spool cannot be written: {error}"))
        return "the spool cannot be written"

    def _set_aside(self, error: Exception) -> None:
        self._close_store()
        try:
            aside = self._file.set_aside()
        except OSError as failed:
            # The next transaction finds the damage again.
            trouble = f"the spool was damaged, {error}, and cannot be set aside: {failed}"
            self._find(_Condition("the spool was damaged", trouble))
            return
        finally:
            self._file.release()
        log.critical(
            "spool: {directory} was damaged, and is begun anew; what was kept is in {aside}: {error}",
            event="spool.set-aside",
            directory=self._file.directory,
            aside=aside or "no file",
            error=error,
        )
        self._reactor.callFromThread(self._tell_damage)

    def _close_store(self) -> None:
        try:
            if self._store is not None:
                self._store.close()
        except sqlite3.Error as error:
            log.error("spool: closing failed: {error}", event="spool.close-failed", error=error)
        self._store = None

    def _tidy(self, *, is_end: bool) -> None:
        store, now = self._store, self._clock.mono()
        if store is None:
            return
        try:
            if store.has_removed and (is_end or now - self._tidied >= UNTIDY * 1_000_000):
                self._tidied = now
                store.tidy()
            is_due = is_end or now - self._rewritten >= MOST_FRAYED * 1_000_000
            if store.is_frayed and is_due and store.size() <= MOST_REWRITTEN:
                self._rewritten = now
                store.rewrite()
        except sqlite3.Error as error:
            if is_damage(error):
                self._set_aside(error)
            elif self._is_tidy:
                log.error("spool: removed bytes stay in the file: {error}", event="spool.not-tidied", error=error)
            self._is_tidy = False
        else:
            self._is_tidy = True
