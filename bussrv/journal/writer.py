"""The journal on disk: one writer thread, one sync for everything that queued up meanwhile.

The reactor hands entries over and never waits; the thread numbers, encodes, writes and syncs them in batches, then
tells the reactor. Batches form by themselves while the previous one is on its way to the disk.

When the disk fails, changes that were asked for fail with :class:`JournalUnavailable`; facts (a session was lost) are
kept and written first when the disk works again, between a ``journal.degraded`` and a ``journal.restored`` record.
Numbers have no gap, because a record gets its number only when it is written.

A change is checked against those that are on their way before it, so it must not be written when one of them was not.
Therefore changes belong to *terms*: when one is refused, so is every later one of the same term, and a new term begins
when the reactor is told.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import Logger
from zope.interface import implementer

from bussrv.clock import Clock
from bussrv.errors import JournalUnavailable
from bussrv.events import Event, JournalDegraded, JournalRestored
from bussrv.interfaces import IJournal
from bussrv.journal import record
from bussrv.journal.record import Record, Stamped
from bussrv.journal.segment import SegmentFile

SyncMode = Literal["always", "interval", "off"]

SEGMENT_BYTES = 64 << 20
SYNC_INTERVAL = 1.0
"""Seconds between the syncs of ``--journal-sync interval``."""

RETRY_INTERVAL = 1.0
"""Seconds until a disk that failed is tried again, when nothing else asks for it."""

log = Logger()


class Entry(Struct):
    """Events that go to the disk together. Without ``done`` they are facts, which are written sooner or later.

    :ivar bodies: what :func:`bussrv.journal.record.encode_event` says of each.
    """

    stamped: Sequence[Stamped]
    bodies: list[bytes]
    done: Deferred[list[Record]] | None = None
    term: int = 0
    records: list[Record] = []


def make_entry(stamped: Sequence[Stamped], done: Deferred[list[Record]] | None = None, term: int = 0) -> Entry:
    """An entry, encoded where an event that cannot be written is still the business of who made it."""
    return Entry(stamped, [record.encode_event(each.event) for each in stamped], done, term)


class BatchWriter:
    """What the writer thread does: batches of entries to segments. Knows nothing of threads or the reactor.

    :param last_seq: the number of the last record that is there.
    :param sync: when an entry counts as durable. ``always``: when it is on the disk; ``interval``: when it is
        written, at most a second before it is on the disk; ``off``: when it is written.
    :param segment_bytes: a segment that has grown so large is the last of its kind; the next record begins a new one.
    """

    def __init__(
        self,
        directory: Path,
        server: str,
        boot: str,
        *,
        last_seq: int,
        sync: SyncMode,
        clock: Clock,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._directory = directory
        self._server = server
        self._boot = boot
        self._next_seq = last_seq + 1
        self._sync = sync
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._segment: SegmentFile | None = None
        self._facts: list[Entry] = []
        self._degraded: Stamped | None = None
        self._refused = 0
        self._sync_due: int | None = None

    @property
    def degraded(self) -> bool:
        """Whether the last attempt to write failed."""
        return self._degraded is not None

    def patience(self) -> float | None:
        """How many seconds may pass before :meth:`commit` has something to do, even without new entries."""
        if self._degraded is not None:
            return RETRY_INTERVAL
        if self._sync_due is not None:
            return max(0.0, (self._sync_due - self._clock.mono()) / 1_000_000)
        return None

    def refuse(self, count: int) -> None:
        """Changes are refused without being tried; the next call of :meth:`commit` takes them into account."""
        self._refused += count

    def commit(self, entries: Sequence[Entry]) -> list[Entry]:
        """Write ``entries`` behind what was kept back, and fill in their records.

        :returns: everything that was written, in order.
        :raises Exception: nothing of it is in the journal; the facts among it are kept for the next call. Whatever it
            is, not only an ``OSError``: the next call may go well.
        """
        batch = [*self._facts, *self._healed(), *entries]
        first_seq = self._next_seq
        try:
            self._write(batch)
            self._sync_if_due()
        except Exception as error:
            self._next_seq = first_seq
            self._give_up(entries, error)
            raise
        if self._segment is not None:
            self._segment.mark_good()
        self._facts = []
        self._degraded = None
        self._refused = 0
        return batch

    def close(self) -> None:
        """Sync and close the segment.

        :raises OSError: if the disk fails.
        """
        if self._segment is not None:
            self._end_segment()

    def _stamp(self, event: Event) -> Stamped:
        return Stamped(self._clock.utc(), self._clock.mono(), event)

    def _healed(self) -> list[Entry]:
        return [make_entry([self._stamp(JournalRestored(refused=self._refused))])] if self._degraded else []

    def _write(self, batch: Sequence[Entry]) -> None:
        if not batch:
            return
        if self._segment is not None and self._segment.size >= self._segment_bytes:
            self._end_segment()
        if self._segment is None:
            self._segment = SegmentFile(self._directory, self._next_seq)
        lines: list[bytes] = []
        for entry in batch:
            entry.records = [self._number(stamped) for stamped in entry.stamped]
            lines += map(record.line, entry.records, entry.bodies)
        self._segment.write(b"".join(lines))
        if self._sync == "always":
            self._segment.sync()
        elif self._sync == "interval" and self._sync_due is None:
            self._sync_due = self._clock.mono() + int(SYNC_INTERVAL * 1_000_000)

    def _number(self, stamped: Stamped) -> Record:
        seq = self._next_seq
        self._next_seq += 1
        return Record(seq, stamped.time, stamped.mono, self._server, self._boot, stamped.event)

    def _sync_if_due(self) -> None:
        if self._sync_due is not None and self._segment is not None and self._clock.mono() >= self._sync_due:
            self._segment.sync()
            self._sync_due = None

    def _give_up(self, entries: Sequence[Entry], error: Exception) -> None:
        if self._degraded is None:
            self._degraded = self._stamp(JournalDegraded(message=str(error)))
            self._facts.append(make_entry([self._degraded]))
        self._facts += [entry for entry in entries if entry.done is None]
        self._refused += sum(entry.done is not None for entry in entries)
        self._sync_due = None
        segment, self._segment = self._segment, None
        if segment is not None:
            try:
                segment.abandon()
            except OSError as second:
                log.error("journal: cannot cut {path} back: {error}", path=segment.path, error=second)

    def _end_segment(self) -> None:
        segment, self._segment = self._segment, None
        self._sync_due = None
        if segment is not None:
            try:
                if self._sync != "off":
                    segment.sync()
            finally:
                segment.close()


@implementer(IJournal)
class FileJournal:
    """A journal in a directory of segments, written by a thread of its own."""

    def __init__(self, writer: BatchWriter, reactor: IReactorFromThreads) -> None:
        self._writer = writer
        self._reactor = reactor
        self._inbox: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._closed: Deferred[None] | None = None
        self._is_closed = False
        self._term = 0
        self._oldest_term = 0
        self._trouble = ""
        self._followers: list[Callable[[list[Record]], None]] = []
        self._thread = threading.Thread(target=self._run, name="bussrv-journal", daemon=True)
        self._thread.start()

    def append(self, stamped: Sequence[Stamped]) -> Deferred[list[Record]]:
        """Write events that somebody waits for, one directly behind the other.

        :returns: fires with their records when they are durable; fails with :class:`JournalUnavailable`.
        :raises ValueError, TypeError: if one of them cannot be encoded; nothing is written then.
        """
        if self._is_closed:
            return fail(JournalUnavailable("the journal is closed"))
        done: Deferred[list[Record]] = Deferred()
        self._inbox.put(make_entry(stamped, done, self._term))
        return done

    def note(self, stamped: Stamped) -> None:
        """Write an event that has happened already and that nobody waits for.

        :raises ValueError, TypeError: if it cannot be encoded.
        """
        self._inbox.put(make_entry([stamped]))

    def follow(self, follower: Callable[[list[Record]], None]) -> None:
        """Call ``follower`` with what is durable from now on, in order, before anybody who waits for it is told."""
        self._followers.append(follower)

    def close(self) -> Deferred[None]:
        """Write everything that is queued, then stop.

        :returns: fires when the files are closed. To be called once.
        """
        self._closed = Deferred()
        self._inbox.put(None)
        return self._closed

    def _run(self) -> None:
        open_ = True
        while open_:
            entries = self._next_batch()
            if entries and entries[-1] is None:
                open_ = False
            self._commit([entry for entry in entries if entry is not None])
        try:
            self._writer.close()
        except OSError as error:
            log.error("journal: closing failed: {error}", error=error)
        self._reactor.callFromThread(self._tell_closed)

    def _next_batch(self) -> list[Entry | None]:
        entries: list[Entry | None] = []
        try:
            entries.append(self._inbox.get(timeout=self._writer.patience()))
            while entries[-1] is not None:
                entries.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return entries

    def _commit(self, entries: list[Entry]) -> None:
        late = [entry for entry in entries if entry.done is not None and entry.term < self._oldest_term]
        if late:
            self._writer.refuse(len(late))
            self._reactor.callFromThread(self._tell_failed, late, self._trouble, self._oldest_term)
            entries = [entry for entry in entries if entry.done is None or entry.term >= self._oldest_term]
        was_degraded = self._writer.degraded
        try:
            written = self._writer.commit(entries)
        except Exception as error:
            if not was_degraded:
                log.critical("journal: cannot be written, changes are refused: {error}", error=error)
            self._trouble = f"the journal cannot be written: {error}"
            self._oldest_term = max(
                [entry.term + 1 for entry in entries if entry.done is not None], default=self._oldest_term
            )
            self._reactor.callFromThread(self._tell_failed, entries, self._trouble, self._oldest_term)
        else:
            if was_degraded:
                log.info("journal: can be written again")
            self._reactor.callFromThread(self._tell_written, written)

    # What follows runs in the reactor.

    def _tell_written(self, entries: list[Entry]) -> None:
        for entry in entries:
            for follower in self._followers:
                follower(entry.records)
            if entry.done is not None:
                entry.done.callback(entry.records)

    def _tell_failed(self, entries: list[Entry], message: str, term: int) -> None:
        self._term = max(self._term, term)
        for entry in entries:
            if entry.done is not None:
                entry.done.errback(JournalUnavailable(message))

    def _tell_closed(self) -> None:
        self._thread.join()
        self._is_closed = True
        while not self._inbox.empty():
            entry = self._inbox.get()
            if entry is not None and entry.done is not None:
                entry.done.errback(JournalUnavailable("the journal is closed"))
        if self._closed is not None:
            self._closed.callback(None)
