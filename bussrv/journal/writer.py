"""The journal on disk: one writer thread, one sync for everything that queued up meanwhile.

The reactor hands entries over and never waits; the thread writes them in batches (:mod:`bussrv.journal.batch`), then
tells the reactor. Batches form by themselves while the previous one is on its way to the disk. What one turn of the
reactor brings is handed over at its end: were the thread woken by the first of it, the two would be in each other's way
until the last. If the turn brought several entries, the next one may bring more, which would need a sync of their own;
so they wait for a turn that brings none.

When the disk fails, changes that were asked for fail with :class:`JournalUnavailable`, and facts are kept.

A change is checked against those that are on their way before it, so it must not be written when one of them was not.
Therefore changes belong to *terms*: when one is refused, so is every later one of the same term, and a new term begins
when the reactor is told.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from bussrv.errors import JournalUnavailable
from bussrv.events import Event
from bussrv.journal.batch import BatchEntry, BatchWriter, NoRoom, make_entry
from bussrv.journal.interfaces import IJournal, Waiter
from bussrv.journal.lock import DirectoryGone, Locked
from bussrv.journal.outside_changes import Changed
from bussrv.journal.record import HEAD_SIZE, Record, Stamped
from bussrv.journal.upkeep import Upkeep
from bussrv.turns.reactor_turn import EndOfReactorTurn
from bussrv.turns.slices import Slices

MOST_COLLECTING = 0.002
"""The most seconds for which several entries wait for more before they are handed over."""

TOLD_TOGETHER = 256
"""Followers are given the records of so many entries at a time, before those who wait for these are told."""

TOLD_BETWEEN_LOOKS = 8
"""So many who wait are told between two looks at the clock."""

SLICE = 0.002
"""How many seconds those who wait are told before the reactor does something else."""

MOST_WAITING = 50_000
"""How many entries may wait to be written before changes are refused. A disk that works writes as many in seconds."""

log = Logger()


@implementer(IJournal)
class FileJournal:
    """A journal in a directory of segments, written by a thread of its own.

    :param upkeep: sees to seals and retention.
    :param hide: what is written instead of an event; by default the event.
    :ivar waiting: how many entries wait to be written.
    """

    def __init__(
        self,
        writer: BatchWriter,
        reactor: Any,
        upkeep: Upkeep | None = None,
        hide: Callable[[Event], Event] | None = None,
    ) -> None:
        self.bytes_accepted = 0
        self._counters: Counter[str] = Counter()
        self._counted = 0
        self._writer = writer
        self._reactor = reactor
        self._upkeep = upkeep
        self._hide = hide
        self._inbox: queue.SimpleQueue[list[BatchEntry | None]] = queue.SimpleQueue()
        self._collected: list[BatchEntry | None] = []
        self._collected_before = 0
        self._collected_until = 0.0
        self._turn = EndOfReactorTurn(self._turn_ended, reactor)
        self._closed: Deferred[None] | None = None
        self._is_closed = False
        self._term = 0
        self._oldest_term = 0
        # Why the last batch failed: for clients, and with paths for operators.
        self._refusal = ""
        self._trouble = ""
        self._slices = Slices(reactor, SLICE, Counter())
        self._untold: deque[BatchEntry | Callable[[], object]] = deque()
        self._is_telling = False
        self._is_failing = False
        self.waiting = 0
        self._unwritten: deque[BatchEntry] = deque()
        self._turned_away = 0
        self._turned_away_before = 0
        self._followers: list[Callable[[list[Record]], None]] = []
        self._begin_telling: Callable[[], object] = lambda: None
        self._end_telling: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="bussrv-journal", daemon=True)
        self._thread.start()

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        """Write events that somebody waits for, one directly after the other; see :class:`IJournal`."""
        if self._is_closed:
            waiter.errback(JournalUnavailable("the journal is closed"))
        else:
            self._collect(make_entry(stamped if self._hide is None else self._hidden(stamped), waiter, self._term))

    def append(self, stamped: Sequence[Stamped]) -> Deferred[list[Record]]:
        """See :class:`IJournal`."""
        done: Deferred[list[Record]] = Deferred()
        self.append_change(stamped, done)
        return done

    def append_fact(self, stamped: Stamped) -> None:
        """Write an event that has happened already and that nobody waits for.

        :raises ValueError, TypeError: if it cannot be encoded.
        """
        self._collect(make_entry(self._hidden([stamped])))

    @property
    def unavailable(self) -> JournalUnavailable | None:
        """Why changes are not even tried now, if so: the disk fails, or is so slow that too much waits for it."""
        if self._is_failing:
            return JournalUnavailable(self._refusal)
        if self.waiting >= MOST_WAITING:
            return JournalUnavailable(f"the journal is too slow: {self.waiting} entries wait to be written")
        return None

    @property
    def trouble(self) -> str | None:
        """The same for operators, as a sentence without its end; ``None``: changes are tried."""
        unavailable = self.unavailable
        if unavailable is None:
            return None
        return self._trouble if self._is_failing else unavailable.message

    @property
    def waiting_since(self) -> int | None:
        """Since when the oldest of them waits, in microseconds of the monotonic clock; ``None``: nothing waits."""
        return self._unwritten[0].stamped[0].mono if self._unwritten else None

    def refuse(self) -> None:
        """A change was not tried. It counts among those that the journal says were refused."""
        self._turned_away += 1

    def follow(self, follower: Callable[[list[Record]], None]) -> None:
        """Call ``follower`` with what is durable from now on, in order, before anybody who waits for it is told."""
        self._followers.append(follower)

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Call ``begin`` before some of those who wait are told one after the other, and ``end`` after them."""
        self._begin_telling, self._end_telling = begin, end

    def count_in(self, counters: Counter[str]) -> None:
        """Count changes of other programs, as ``journal-changed``, in these counters from now on."""
        self._counters = counters

    def close(self) -> Deferred[None]:
        """Write everything that is queued, then stop.

        :returns: fires when the files are closed. To be called once.
        """
        self._closed = Deferred()
        self._collect(None)
        self._turn.hurry()
        return self._closed

    def abandon(self) -> None:
        """Stop at once, because the server could not start. When this returns, the thread has ended."""
        self.close()
        self._thread.join()

    def _collect(self, entry: BatchEntry | None) -> None:
        if entry is not None:
            bodies = entry.bodies
            self.bytes_accepted += len(bodies[0] if len(bodies) == 1 else b"".join(bodies)) + HEAD_SIZE * len(bodies)
            self.waiting += 1
            entry.is_counted = True
            self._unwritten.append(entry)
        self._collected.append(entry)
        if not self._turn.is_awaited:
            self._turn.wait()

    def _turn_ended(self) -> None:
        if self._may_bring_more():
            self._turn.wait()
            return
        self._collected_before = 0
        collected, self._collected = self._collected, []
        self._inbox.put(collected)

    def _may_bring_more(self) -> bool:
        """Whether to wait for the next turn, because this one has brought several entries, or more of them."""
        count, before, now = len(self._collected), self._collected_before, self._reactor.seconds()
        if not before:
            self._collected_until = now + MOST_COLLECTING
        self._collected_before = count
        return count > max(before, 1) and now < self._collected_until and self._closed is None

    def _hidden(self, stamped: Sequence[Stamped]) -> Sequence[Stamped]:
        hide = self._hide
        return stamped if hide is None else [Stamped(each.time, each.mono, hide(each.event)) for each in stamped]

    def _run(self) -> None:
        open_ = True
        while open_:
            entries = self._next_batch()
            if entries and entries[-1] is None:
                open_ = False
            self._commit([entry for entry in entries if entry is not None])
            if self._upkeep is not None:
                self._upkeep.do_due_work(self._writer)
            self._count_changes()
        if self._writer.degraded:
            # If another program changed the segment just now, the next start needs a segment that says so.
            self._commit([])
        try:
            self._writer.close()
        except OSError as error:
            log.error("journal: closing failed: {error}", event="journal.close-failed", error=error)
        if self._upkeep is not None:
            self._upkeep.do_due_work(self._writer, at_end=True)
        self._reactor.callFromThread(self._tell_closed)

    def _count_changes(self) -> None:
        new, self._counted = self._writer.changes - self._counted, self._writer.changes
        if new:
            self._reactor.callFromThread(self._tell_changes, new)

    def _next_batch(self) -> list[BatchEntry | None]:
        entries: list[BatchEntry | None] = []
        try:
            entries += self._inbox.get(timeout=self._writer.patience())
            while entries[-1] is not None:
                entries += self._inbox.get_nowait()
        except queue.Empty:
            pass
        return entries

    def _commit(self, entries: list[BatchEntry]) -> None:
        turned_away = self._turned_away
        self._writer.refuse(turned_away - self._turned_away_before)
        self._turned_away_before = turned_away
        late = [entry for entry in entries if entry.done is not None and entry.term < self._oldest_term]
        if late:
            self._writer.refuse(len(late))
            self._reactor.callFromThread(
                self._tell_failed, late, self._refusal, self._oldest_term, self._writer.is_failing
            )
            entries = [entry for entry in entries if entry.done is None or entry.term >= self._oldest_term]
        was_degraded = self._writer.degraded
        try:
            self._writer.commit(entries, self._tell)
        except Exception as error:
            if not was_degraded:
                log.critical(
                    "journal: cannot be written, changes are refused: {error}", event="journal.failing", error=error
                )
            self._trouble = f"the journal cannot be written: {error}"
            self._refusal = _for_clients(error)
            self._oldest_term = max(
                [entry.term + 1 for entry in entries if entry.done is not None], default=self._oldest_term
            )
            self._reactor.callFromThread(
                self._tell_failed, entries, self._refusal, self._oldest_term, self._writer.is_failing
            )
        else:
            if was_degraded and not self._writer.degraded:
                log.info("journal: can be written again", event="journal.restored")
            elif self._writer.degraded and not was_degraded:
                log.critical(
                    "journal: the disk gets full, changes are refused: {why}",
                    event="journal.full",
                    why=self._writer.trouble,
                )

    def _tell(self, written: list[BatchEntry], records: list[Record]) -> None:
        told = [(written, records)]
        if len(written) > TOLD_TOGETHER:
            parts = [written[begin : begin + TOLD_TOGETHER] for begin in range(0, len(written), TOLD_TOGETHER)]
            told = [(part, [each for entry in part for each in entry.records]) for part in parts]
        self._reactor.callFromThread(self._tell_written, told)

    # The rest runs in the reactor.

    def _tell_written(self, told: list[tuple[list[BatchEntry], list[Record]]]) -> None:
        """Tell of entries, and of the records of these, in parts."""
        self._is_failing = False
        for entries, records in told:
            self._no_longer_wait(entries)
            self._untold.append(partial(self._follow, records))
            self._untold += entries
        self._tell_soon()

    def _tell_changes(self, new: int) -> None:
        self._counters["journal-changed"] += new

    def _no_longer_wait(self, entries: Iterable[BatchEntry]) -> None:
        """Entries were written, or refused. Facts that were not written wait on."""
        unwritten, counted = self._unwritten, 0
        for entry in entries:
            counted += entry.is_counted
            entry.is_counted = False
        self.waiting -= counted
        while unwritten and not unwritten[0].is_counted:
            unwritten.popleft()

    def _follow(self, records: list[Record]) -> None:
        for follower in self._followers:
            follower(records)

    def _tell_failed(self, entries: list[BatchEntry], message: str, term: int, is_failing: bool) -> None:
        self._is_failing = is_failing
        self._no_longer_wait(entry for entry in entries if entry.done is not None)
        self._untold.append(partial(self._begin_term, term))
        for entry in entries:
            if entry.done is not None:
                self._untold.append(partial(entry.done.errback, JournalUnavailable(message)))
        self._tell_soon()

    def _begin_term(self, term: int) -> None:
        self._term = max(self._term, term)

    def _tell_soon(self) -> None:
        if not self._is_telling:
            self._is_telling = True
            self._slices.do(self._tell_slice)

    def _tell_slice(self, until: float) -> bool:
        """Tell for a while: one batch may have been waited for by thousands."""
        self._begin_telling()
        try:
            while self._untold:
                try:
                    each = self._untold.popleft()
                    if not isinstance(each, BatchEntry):
                        each()
                    elif each.done is not None:
                        each.done.callback(each.records)
                except Exception:
                    log.failure("journal: what waited for a record failed", event="journal.waiter-failed")
                if not len(self._untold) % TOLD_BETWEEN_LOOKS and self._slices.is_over(until):
                    break
        finally:
            self._end_telling()
        self._is_telling = bool(self._untold)
        return self._is_telling

    def _tell_closed(self) -> None:
        """To be called when the thread has ended."""
        self._untold.append(self._finish)
        self._tell_soon()

    def _finish(self) -> None:
        self._thread.join()
        self._is_closed = True
        self._turn.hurry()
        while not self._inbox.empty():
            for entry in self._inbox.get():
                if entry is not None and entry.done is not None:
                    entry.done.errback(JournalUnavailable("the journal is closed"))
        if self._closed is not None:
            self._closed.callback(None)


def _for_clients(error: Exception) -> str:
    """Why the journal cannot be written. Paths of the server are none of a client's business."""
    why = ""
    if isinstance(error, Changed):
        why = "another program changed it"
    elif isinstance(error, Locked):
        why = "another server is using the journal directory"
    elif isinstance(error, DirectoryGone):
        why = "its directory is gone"
    elif isinstance(error, NoRoom):
        why = "the disk gets full"
    elif isinstance(error, OSError):
        why = error.strerror or ""
    return "the journal cannot be written" + (why and f": {why}")
