"""Retention: which segments of a journal are removed, and in which steps.

A removal takes three steps: a line in the manifest, a ``journal.pruned`` record in the journal, and the removal of the
file when both are on the disk. Segments are removed in order, the oldest first, so the journal never has a gap. If the
server crashes between the steps, the next boot repeats the record and finishes the removal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from twisted.logger import Logger

from bussrv.events import JournalPruned
from bussrv.journal import closed
from bussrv.journal.batch import BatchWriter
from bussrv.journal.files import FILES, Files
from bussrv.journal.manifest import Pruned, Seal, last_seq
from bussrv.journal.sealing import Reason, Sealer, in_words
from bussrv.journal.segment import first_seq, is_there, list_segments
from bussrv.turns.clock import Clock

Later = Callable[[Callable[[], None]], object]

log = Logger()


class Ages:
    """How many microseconds ago the last record of each closed segment was written.

    The wall clock is read once for a segment. From then on the monotonic clock counts, so that a wall clock that is set
    makes no segment older. A segment of this boot is never older than this boot.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin = clock.mono()
        self._written: dict[int, int] | None = None

    def take(self, sealed: Mapping[int, Seal]) -> None:
        """Learn of closed segments. Those of the first call are of earlier boots, or may be."""
        is_first = self._written is None
        written = self._written = {} if self._written is None else self._written
        for number in sealed.keys() - written.keys():
            last_time = sealed[number].last_time
            age = 0 if last_time is None else max(0, self._clock.utc() - last_time)
            now = self._clock.mono()
            written[number] = now - (age if is_first else min(age, now - self._begin))

    def of(self, segment: int) -> int:
        """The age of a segment that was taken."""
        return self._clock.mono() - (self._written or {})[segment]

    def forget(self, segment: int) -> None:
        """A segment is removed."""
        (self._written or {}).pop(segment, None)


class Retention:
    """Removes the oldest segments of a journal directory that is open for writing.

    :param age: how many seconds after its last record a segment is removed; ``None``: never.
    :param size: how many bytes the segments may take before the oldest are removed; ``None``: any number.
    :param pruned: what an earlier boot said is removed.
    :param later: runs a function in the background, one after the other.
    """

    def __init__(
        self,
        directory: Path,
        sealer: Sealer,
        *,
        age: float | None,
        size: int | None,
        pruned: Iterable[Pruned],
        clock: Clock,
        later: Later,
        files: Files = FILES,
    ) -> None:
        self._directory = directory
        self._sealer = sealer
        self._age = age
        self._size = size
        self._ages = Ages(clock)
        self._later = later
        self._files = files
        self._unsaid = [_event(each, each.reason) for each in pruned if is_there(directory, each.segment)]
        self._noted: list[int] = []
        self._leaving: list[int] = []
        self._is_removing = False
        self._is_failing = False

    def look(self, writer: BatchWriter, sealed: dict[int, Seal]) -> None:
        """Take the next step. To be called when the writer has tried to write what was noted before.

        :param sealed: the seals of the segments that are closed; those that are to be removed are taken out.
        :raises OSError, JournalError: if the manifest cannot be written, or the journal not be synced.
        """
        self._remove_what_was_said(writer)
        for event in self._unsaid:
            self._note(event, writer)
        self._unsaid = []
        self._choose(writer, sealed)

    def _remove_what_was_said(self, writer: BatchWriter) -> None:
        if self._noted and not writer.is_failing:
            writer.sync()
            self._leaving += self._noted
            self._noted = []
        self._leaving = [each for each in self._leaving if is_there(self._directory, each)]
        if self._leaving and not self._is_removing:
            self._is_removing = True
            self._later(partial(self._remove, tuple(self._leaving)))

    def _remove(self, segments: Iterable[int]) -> None:
        try:
            for number in segments:
                closed.remove(self._directory, number, self._files)
        except OSError as error:
            if not self._is_failing:
                log.error(
                    "journal: segment {number} cannot be removed, it is tried again: {error}",
                    event="journal.not-pruned",
                    number=number,
                    error=error,
                )
            self._is_failing = True
        else:
            self._is_failing = False
        finally:
            self._is_removing = False

    def _choose(self, writer: BatchWriter, sealed: dict[int, Seal]) -> None:
        if self._age is None and self._size is None:
            return
        if self._age is not None:
            self._ages.take(sealed)
        going = {*self._noted, *self._leaving}
        paths = [path for path in list_segments(self._directory) if first_seq(path) not in going]
        total = sum(closed.stored_size(path) for path in paths)
        for path in paths[:-1]:
            seal = sealed.get(first_seq(path))
            reason = None if seal is None else self._why(seal, total)
            if seal is None or reason is None:
                return
            total -= closed.stored_size(path)
            self._sealer.prune(seal, reason)
            del sealed[seal.segment]
            self._ages.forget(seal.segment)
            log.info(
                "journal: removing {what}, retention by {reason}",
                event="journal.pruning",
                what=in_words(seal),
                reason=reason,
            )
            self._note(_event(seal, reason), writer)

    def _why(self, seal: Seal, total: int) -> Reason | None:
        age = self._age
        if age is not None and seal.last_time is not None and self._ages.of(seal.segment) > age * 1_000_000:
            return "age"
        return "size" if self._size is not None and total > self._size else None

    def _note(self, event: JournalPruned, writer: BatchWriter) -> None:
        writer.note(event)
        self._noted.append(event.segment)


def _event(what: Seal | Pruned, reason: Reason) -> JournalPruned:
    return JournalPruned(
        segment=what.segment,
        last_seq=last_seq(what) if isinstance(what, Seal) else what.last_seq,
        bytes=what.bytes,
        digest=what.digest,
        reason=f"retention-{reason}",
    )
