"""Batches of entries to segments: what the writer thread does. Nothing here knows of threads or of the reactor.

When the disk fails, changes that were asked for are not written; facts (a session was lost) are kept and written first
when the disk works again, between a ``journal.degraded`` and a ``journal.restored`` record. When the disk gets full,
changes are not written either, but facts still are. Numbers have no gap, because a record gets its number only when it
is written.

Another program that changes the segment counts as a failure of the disk: nothing is said to be durable unless it is in
the file at the path. The next segment says what was lost, and begins with the registry, so nothing else is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from twisted.logger import Logger

from bussrv.counts.histogram import Histogram
from bussrv.events import Event, JournalDegraded, JournalRestored
from bussrv.journal import record
from bussrv.journal.condition import JournalEnd
from bussrv.journal.files import FILES, Files
from bussrv.journal.header import Damage, Header, Previous
from bussrv.journal.interfaces import Waiter
from bussrv.journal.lock import DirectoryGone, Locked
from bussrv.journal.outside_changes import Changed, OutsideChange, set_aside
from bussrv.journal.reading import Fold
from bussrv.journal.record import Record, Stamped
from bussrv.journal.record_tree import RecordTree, tree_after
from bussrv.journal.recovery import Recovered
from bussrv.journal.segment import Extent, SegmentFile, ended_change
from bussrv.journal.space import Space
from bussrv.turns.clock import Clock

SyncMode = Literal["always", "interval", "off"]

SYNC_INTERVAL = 1.0
"""Seconds between the syncs of ``--journal-sync interval``."""

PULSE = 1.0
"""Seconds between two looks at what is due, and until a disk that failed is tried again."""

CHECKED = 1_000
"""Microseconds after a batch in which the segment is not compared again before the next one, but only after it."""

log = Logger()


class BatchEntry(Struct):
    """Events that go to the disk together. Without ``done`` they are facts, which are written sooner or later.

    :ivar bodies: what :func:`bussrv.journal.record.encode_event` says of each.
    :ivar is_counted: whether it counts among those that wait to be written.
    """

    stamped: Sequence[Stamped]
    bodies: list[bytes]
    done: Waiter | None = None
    term: int = 0
    records: list[Record] = []
    is_counted: bool = False


def make_entry(stamped: Sequence[Stamped], done: Waiter | None = None, term: int = 0) -> BatchEntry:
    """An entry, encoded where an event that cannot be written is still the business of who made it."""
    encode = record.encode_event
    bodies = [encode(stamped[0].event)] if len(stamped) == 1 else [encode(each.event) for each in stamped]
    return BatchEntry(stamped, bodies, done, term)


class NoRoom(Exception):
    """The disk gets full."""


OnWritten = Callable[[list[BatchEntry], list[Record]], None]


class Rotation(Struct, frozen=True, kw_only=True):
    """When a segment is the last of its kind and the next record begins a new one.

    :ivar bytes: when it has grown so large.
    :ivar age: when it was begun so many seconds ago.
    """

    bytes: int = 64 << 20
    age: float = 3600.0


class BatchWriter:
    """Writes batches of entries, numbers and chains their records, and begins a new segment when one is due.

    :param recovered: where the journal continues.
    :param fold: what the journal adds up to so far; every record that is written is applied to it, and each segment
        begins with its snapshot.
    :param sync: when an entry counts as durable. ``always``: when it is on the disk; ``interval``: when it is
        written, at most a second before it is on the disk; ``off``: when it is written.
    :param before_batch: called before anything is written, and when nothing is to be; what it raises counts as a
        failure of the disk.
    :param keep_lock: called once a second, and before a segment is begun; says whether the directory was missing and
        was made again. If it raises ``Locked``, another server has the directory, and nothing more is written to it.
    :param last_seal: gives the hash of the last line of the manifest.
    :param space: says when the disk gets full.
    :ivar closed: segments that ended and that nobody has taken care of yet.
    :ivar head: the end of what is durable.
    :ivar is_failing: whether the last attempt to write failed.
    :ivar syncs: how long the disk took for each sync of records.
    :ivar changes: how often another program changed the journal; until it can be written again, that is once.
    """

    def __init__(
        self,
        directory: Path,
        server: str,
        boot: str,
        *,
        recovered: Recovered,
        fold: Fold,
        sync: SyncMode,
        clock: Clock,
        rotation: Rotation = Rotation(),  # noqa: B008 - frozen
        before_batch: Callable[[], None] = lambda: None,
        keep_lock: Callable[[], bool] = lambda: False,
        last_seal: Callable[[], str | None] = lambda: None,
        files: Files = FILES,
        space: Space | None = None,
    ) -> None:
        self.closed: list[Extent] = []
        self.syncs = Histogram()
        self.changes = 0
        self._is_changed = False
        self._directory = directory
        self._server = server
        self._boot = boot
        self._next_seq = recovered.next_seq
        self._hash = recovered.hash
        last = recovered.previous.segment if recovered.previous is not None else 0
        self.head = JournalEnd(last, recovered.next_seq - 1, recovered.hash)
        self._previous: Previous | None = recovered.previous
        self._tree = recovered.tree
        self._salvaged: Damage | None = recovered.salvaged
        self._fold = fold
        self._sync = sync
        self._clock = clock
        self._rotation = rotation
        self._before_batch = before_batch
        self._keep_lock = keep_lock
        self._lock_due = 0
        self._loser: Locked | None = None
        self._last_seal = last_seal
        self._files = files
        self._space = Space(directory, 0, clock, files) if space is None else space
        self.is_failing = False
        self._segment: SegmentFile | None = None
        self._segment_due = 0
        self._check_due = 0
        self._unmended: SegmentFile | None = None
        self._facts: list[BatchEntry] = []
        self._degraded: Stamped | None = None
        self._refused = 0
        self._sync_due: int | None = None

    @property
    def degraded(self) -> bool:
        """Whether changes are refused."""
        return self._degraded is not None

    @property
    def trouble(self) -> str | None:
        """Why changes are refused; ``None``: they are not."""
        degraded = self._degraded
        return degraded.event.message if degraded is not None and isinstance(degraded.event, JournalDegraded) else None

    @property
    def is_locked_out(self) -> bool:
        """Whether another server has the directory: nothing in it is the business of this one any more."""
        return self._loser is not None

    def patience(self) -> float:
        """How many seconds may pass before :meth:`commit` has to be called, even without new entries."""
        if self._sync_due is None:
            return PULSE
        return min(PULSE, max(0.0, (self._sync_due - self._clock.mono()) / 1_000_000))

    @property
    def segment(self) -> int | None:
        """The number of the segment that is being written, if it has records."""
        return self._segment.header.segment if self._segment is not None and self._segment.good.records else None

    def extent(self) -> Extent | None:
        """How far the segment that is being written goes; ``None`` when there is none."""
        return None if self._segment is None else self._segment.good.extent()

    def refuse(self, count: int) -> None:
        """Changes are refused without being tried; the next call of :meth:`commit` takes them into account."""
        self._refused += count

    def note(self, event: Event) -> None:
        """Write an event of the journal itself with the next batch."""
        self._facts.append(make_entry([self._stamp(event)]))

    def commit(self, entries: Sequence[BatchEntry], on_written: OnWritten = lambda _, __: None) -> list[BatchEntry]:
        """Write ``entries`` after those that were kept back, and fill in their records.

        :param on_written: is given everything that was written, and its records, as soon as it counts as durable,
            before the rest is done.
        :returns: the same, in order.
        :raises Exception: nothing of it is in the journal; the facts among it are kept for the next call. Whatever it
            is, not only an ``OSError``: the next call may go well.
        :raises NoRoom: the facts among it are in the journal, nothing else.
        """
        shortage = self._space.shortage()
        if shortage is None:
            batch = self._commit([*self._facts, *self._healed(), *entries], entries, on_written)
            self._degraded = None
            self._is_changed = False
            self._refused = 0
            return batch
        facts = [entry for entry in entries if entry.done is None]
        self._refused += len(entries) - len(facts)
        self._degrade(shortage)
        batch = self._commit([*self._facts, *facts], facts, on_written)
        if len(facts) < len(entries):
            raise NoRoom(shortage)
        return batch

    def _commit(
        self, batch: list[BatchEntry], entries: Sequence[BatchEntry], on_written: OnWritten
    ) -> list[BatchEntry]:
        first_seq = self._next_seq
        try:
            records = self._write(batch)
            self._sync_if_due()
        except Exception as error:
            self._next_seq = first_seq
            self._give_up(entries, error)
            raise
        if batch:
            on_written(batch, records)
        self._take_in(records)
        return batch

    def _take_in(self, records: list[Record]) -> None:
        if self._segment is not None:
            self._segment.mark_good()
            self._hash = self._segment.good.hash
            self.head = JournalEnd(self._segment.header.segment, self._next_seq - 1, self._hash)
        self._fold.apply_all(records)
        self._facts = []
        self.is_failing = False

    def sync(self) -> None:
        """See that what was written is on the disk, whatever the mode, and that it is what was written.

        :raises OSError: if the disk fails, or another program changed the segment.
        """
        if self._segment is not None and self._sync != "always":
            self._sync_now(self._segment)
        if self._segment is not None:
            self._segment.check()

    def begin_anew(self, damage: Damage) -> None:
        """Another program changed an earlier segment, or the manifest. The next segment begins a new chain.

        :raises OSError: if the disk fails. The segment has ended all the same.
        """
        self._count_change()
        self._degrade(damage.reason)
        segment = self._segment
        try:
            if segment is not None and segment.good.records:
                self._end_segment(segment)
            elif segment is not None:
                self._abandon(segment)
        finally:
            self._salvaged = self._salvaged or damage

    def rotate(self) -> None:
        """End the segment that is being written, if it has records; the next record begins a new one.

        :raises OSError: if the disk fails. The segment has ended all the same.
        """
        if self._segment is not None and self._segment.good.records:
            self._end_segment(self._segment)

    def rotate_if_due(self) -> None:
        """The same if it is large or old enough.

        :raises OSError: if the disk fails. The segment has ended all the same.
        """
        is_due = self._clock.mono() >= self._segment_due
        if self._segment is not None and (is_due or self._segment.good.bytes >= self._rotation.bytes):
            self.rotate()

    def close(self) -> None:
        """Sync and close the segment.

        :raises OSError: if the disk fails.
        """
        if self._segment is not None:
            self._end_segment(self._segment)

    def _stamp(self, event: Event) -> Stamped:
        return Stamped(self._clock.utc(), self._clock.mono(), event)

    def _healed(self) -> list[BatchEntry]:
        return [make_entry([self._stamp(JournalRestored(refused=self._refused))])] if self._degraded else []

    def _write(self, batch: Sequence[BatchEntry]) -> list[Record]:
        self._before_batch()
        self._hold(at_once=False)
        if not batch:
            if self._segment is not None:
                self._check(self._segment)
            return []
        if self._space.is_exhausted:
            raise NoRoom(self._space.shortage() or "")
        self.rotate_if_due()
        if self._segment is None:
            self._segment = self._begin_segment()
        if self._clock.mono() >= self._check_due:
            self._check(self._segment)
        text, records, last = self._number(batch)
        self._space.wrote(len(text))
        self._segment.write(text, last, records)
        if self._sync == "always":
            self._sync_now(self._segment)
        elif self._sync == "interval" and self._sync_due is None:
            self._sync_due = self._clock.mono() + int(SYNC_INTERVAL * 1_000_000)
        self._check(self._segment)
        self._check_due = self._clock.mono() + CHECKED
        return records

    def _check(self, segment: SegmentFile) -> None:
        """See that the segment is as it was left.

        :raises OSError: it is not.
        """
        try:
            segment.check()
        except Changed:
            # If the whole directory is gone, that says more.
            self._hold(at_once=True)
            raise

    def hold(self) -> None:
        """See at once that the lock is still held.

        :raises Locked: if another server has the directory; this one writes nothing more.
        :raises OSError, JournalError: if the directory is gone and cannot be made again.
        """
        self._hold(at_once=True)

    def _hold(self, *, at_once: bool) -> None:
        """See that the lock is still held. A server that lost it writes nothing more, even if the other has stopped."""
        if self._loser is not None:
            raise self._loser
        if at_once or self._clock.mono() >= self._lock_due:
            try:
                is_made_again = self._keep_lock()
            except Locked as error:
                self._loser = error
                log.critical(
                    "journal: {error}; this one writes nothing more until it is started again",
                    event="journal.locked-out",
                    error=error,
                )
                raise
            self._lock_due = self._clock.mono() + int(PULSE * 1_000_000)
            if is_made_again:
                self._count_change()
                log.critical(
                    "journal: {directory} was removed or moved away. It is made again, and a new segment begins there "
                    "with the registry",
                    event="journal.directory-removed",
                    directory=self._directory,
                )

    def _number(self, batch: Sequence[BatchEntry]) -> tuple[bytes, list[Record], str]:
        stamped: list[Stamped] = []
        bodies: list[bytes] = []
        for entry in batch:
            stamped += entry.stamped
            bodies += entry.bodies
        lines, records, last = record.number(stamped, bodies, self._next_seq, self._hash, self._server, self._boot)
        self._next_seq += len(records)
        begin = 0
        for entry in batch:
            end = begin + len(entry.bodies)
            entry.records = records[begin:end]
            begin = end
        return lines, records, last

    def _sync_if_due(self) -> None:
        if self._sync_due is not None and self._segment is not None and self._clock.mono() >= self._sync_due:
            self._sync_now(self._segment)

    def _sync_now(self, segment: SegmentFile) -> None:
        begun = self._clock.mono()
        segment.sync()
        self.syncs.observe((self._clock.mono() - begun) / 1_000_000)
        self._sync_due = None

    def _begin_segment(self) -> SegmentFile:
        self._hold(at_once=True)
        self._mend()
        states = self._fold.states()
        salvaged = self._salvaged or self._loss()
        # Who holds the old tree must not take a new chain for its continuation.
        tree = RecordTree(self._next_seq) if salvaged else tree_after(self._tree, self._next_seq)
        header = Header(
            prev=self._hash,
            segment=self._next_seq,
            parts=len(states),
            time=self._clock.utc(),
            server=self._server,
            boot=self._boot,
            previous=self._previous,
            seal=self._last_seal(),
            salvaged=salvaged,
            tree=tree.as_header(),
        )
        segment = SegmentFile(self._directory, header, states, self._files)
        self._hash = segment.good.hash
        self._salvaged = None
        self._segment_due = self._clock.mono() + int(self._rotation.age * 1_000_000)
        return segment

    def _end_segment(self, segment: SegmentFile) -> None:
        segment.check()
        self._leave(segment)
        self._note_closed(segment)
        try:
            segment.sync()
        finally:
            segment.close()

    def _leave(self, segment: SegmentFile) -> None:
        """The good part of a segment is all that there will be of it."""
        self._segment = None
        self._sync_due = None
        if segment.good.records:
            self._previous = segment.good.extent().as_previous()
            self._hash, self._tree = segment.good.hash, segment.good.tree
        else:
            self._hash, self._salvaged = segment.header.prev, segment.header.salvaged

    def _give_up(self, entries: Sequence[BatchEntry], error: Exception) -> None:
        self.is_failing = True
        if isinstance(error, (Changed, DirectoryGone)):
            self._count_change()
        self._degrade(str(error))
        self._facts += [entry for entry in entries if entry.done is None]
        self._refused += sum(entry.done is not None for entry in entries)
        if self._segment is not None:
            self._abandon(self._segment)

    def _count_change(self) -> None:
        if not self._is_changed:
            self._is_changed = True
            self.changes += 1

    def _degrade(self, message: str) -> None:
        if self._degraded is None:
            self._degraded = self._stamp(JournalDegraded(message=message))
            self._facts.append(make_entry([self._degraded]))

    def _abandon(self, segment: SegmentFile) -> None:
        self._leave(segment)
        self._unmended = segment
        try:
            self._mend()
        except OSError as error:
            log.error(
                "journal: cannot cut {path} back: {error}", event="journal.not-cut", path=segment.path, error=error
            )

    def _mend(self) -> None:
        """Cut off all that follows the good part of a segment that was given up; before that it is not closed.

        A segment that another program changed is left as it is, for those who look into it. If the whole directory is
        gone, it may come back as it was.
        """
        segment = self._unmended
        if segment is not None and self._directory.exists():
            found = segment.change()
            if found is None:
                segment.cut_back()
                self._note_closed(segment)
            elif segment.good.records:
                self._salvaged = self._salvaged or segment.damage(found)
            else:
                # Make room for the next one of that name.
                set_aside(segment.path, self._files)
            self._unmended = None
            segment.close()

    def _note_closed(self, segment: SegmentFile) -> None:
        if segment.good.records:
            self.closed.append(segment.good.extent())

    def _loss(self) -> Damage | None:
        """Nothing can follow from the last segment if another program changed it after it ended."""
        if self._previous is None:
            return None
        number = self._previous.segment
        found = ended_change(self._directory, number, self._previous.bytes, self._files)
        return None if found is None else ended_damage(number, found)


def ended_damage(number: int, found: OutsideChange) -> Damage:
    """The damage of a segment that another program changed after it ended."""
    return Damage(segment=number, line=1, seq=number, reason=f"{found.what} while the server was running")
