"""The upkeep of a journal: work on its segments besides writing records.

1. A segment ends when it is due, or when somebody asks for it.
2. A segment is sealed when it has its first records, again every ``seal_interval`` seconds while records come, and for
   the last time when it has ended. It is *closed* then: nothing is written to it any more.
3. A closed segment is made read-only, and compressed if the operator wants that.
4. Retention removes the oldest closed segments, if the operator wants that only once they are shipped.

The writer thread does this between two batches of records. Compressing and removing take long: a background thread does
them, one after the other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct
from twisted.logger import Logger

from bussrv.errors import JournalError
from bussrv.events import JournalPruned
from bussrv.journal import closed
from bussrv.journal.ages import Ages
from bussrv.journal.batch import PULSE, BatchWriter, ended_damage
from bussrv.journal.files import FILES, SEALED, Files
from bussrv.journal.header import MANIFEST, Damage
from bussrv.journal.lock import Locked
from bussrv.journal.manifest import MANIFEST_NAME, Manifest, Pruned, Seal, last_seq
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.sealing import MARKER, Reason, Sealer, in_words
from bussrv.journal.segment import Extent, ended_change, first_seq, is_compressed, is_there, list_segments, segment_name
from bussrv.journal.ship_watch import ShipWatch
from bussrv.turns.clock import Clock

log = Logger()

Later = Callable[[Callable[[], None]], object]


class UpkeepPolicy(Struct, frozen=True, kw_only=True):
    """The options for the upkeep of segments.

    :ivar seal_interval: seconds between two seals of a segment that grows.
    :ivar compress: whether closed segments are compressed.
    :ivar retain_age: seconds after its last record at which a closed segment is removed; ``None``: never.
    :ivar retain_bytes: bytes of all segments on the disk. Beyond it the oldest closed segments are removed; ``None``:
        any size.
    :ivar retain_shipped: whether a segment is removed only once it is shipped to an object store.
    :ivar ship_within: seconds after the end of a segment within which it is to be shipped.
    """

    seal_interval: float = 60.0
    compress: bool = False
    retain_age: float | None = None
    retain_bytes: int | None = None
    retain_shipped: bool = False
    ship_within: float = 3600.0


class Retention:
    """Removes the oldest segments of a journal directory that is open for writing.

    A removal takes three steps: a line in the manifest, a ``journal.pruned`` record in the journal, and the removal of
    the file when both are on the disk. Segments are removed in order, the oldest first, so the journal never has a gap.
    If the server crashes between the steps, the next boot repeats the record and finishes the removal.

    :param policy: which segments are removed.
    :param pruned: what an earlier boot said is removed.
    :param watch: which segments have to stay until they are shipped.
    :param later: runs a function in the background, one after the other.
    """

    def __init__(
        self,
        directory: Path,
        sealer: Sealer,
        *,
        policy: UpkeepPolicy,
        pruned: Iterable[Pruned],
        watch: ShipWatch,
        clock: Clock,
        later: Later,
        files: Files = FILES,
    ) -> None:
        self._directory = directory
        self._sealer = sealer
        self._age = policy.retain_age
        self._size = policy.retain_bytes
        self._ages = Ages(clock, lambda seal: seal.last_time)
        self._watch = watch
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
            if seal is None or reason is None or self._watch.holds(seal):
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


class Upkeep:
    """The upkeep of a journal directory that is open for writing.

    :param sealer: adds seals to the manifest.
    :param manifest: the manifest as it was when the directory was opened.
    :param unsealed: segments that have ended, but that an earlier boot did not seal as closed.
    :param later: runs functions in the background, one after the other.
    :ivar last_seal: the last one, and the hash of its line; ``None``: there is none.
    :ivar watch: how far closed segments are shipped to an object store.
    """

    def __init__(
        self,
        directory: Path,
        sealer: Sealer,
        *,
        manifest: Manifest,
        unsealed: Iterable[Extent],
        policy: UpkeepPolicy,
        clock: Clock,
        later: Later,
        files: Files = FILES,
    ) -> None:
        self._directory = directory
        self._sealer = sealer
        self._policy = policy
        self._clock = clock
        self._later = later
        self._files = files
        self.watch = ShipWatch(directory, clock, is_required=policy.retain_shipped, within=policy.ship_within)
        self._retention = Retention(
            directory,
            sealer,
            policy=policy,
            pruned=manifest.pruned.values(),
            watch=self.watch,
            clock=clock,
            later=later,
            files=files,
        )
        # The last seal of each closed segment, by the number of the segment.
        self._closed = _closed_in(manifest)
        # Segments that have ended, and are not sealed as closed yet.
        self._ended = list(unsealed)
        # The part of the growing segment that is sealed; ``None``: nothing is.
        self._sealed: Extent | None = None
        # Times of the monotonic clock, in microseconds.
        self._next_work = 0
        self._seal_due = 0
        sealed = [(each.body, each.hash) for each in manifest.entries if isinstance(each.body, Seal)]
        self.last_seal = sealed[-1] if sealed else None
        self._is_failing = self._was_spared = False
        self._is_stopped = False
        self._working = threading.Lock()
        # Of witnesses: what the reactor's thread gives, for the manifest.
        self._cosignatures: deque[tuple[str, str]] = deque()

    def begin(self) -> None:
        """Make closed segments read-only, and compress them, if an earlier boot did not come to do so.

        :raises JournalError: if the directory cannot be read.
        """
        paths = {first_seq(path): path for path in list_segments(self._directory)}
        for number, seal in self._closed.items():
            if number in paths and not is_compressed(paths[number]):
                self._later(partial(self._finish, seal, compress=self._policy.compress))

    def do_due_work(self, writer: BatchWriter, *, at_end: bool = False) -> None:
        """End, seal and remove segments if that is due. A failure is logged, and the work is tried again later.

        :param at_end: whether the server stops: nothing more will be written. Slow work is left to the next boot.
        """
        with self._working:
            if not self._is_stopped and not writer.is_locked_out and (at_end or self._is_work_due(writer)):
                self._do_due_work(writer, at_end)

    def stop(self) -> None:
        """Do no more work. When this returns, the writer thread does none; work in the background may still run."""
        with self._working:
            self._is_stopped = True

    def cosign(self, seal: str, signatures: str) -> None:
        """Add cosignatures of the checkpoint of a seal to the manifest, soon. In any thread.

        :param seal: the hash of its line.
        :param signatures: the lines of the cosignatures.
        """
        self._cosignatures.append((seal, signatures))

    def _is_work_due(self, writer: BatchWriter) -> bool:
        if self._clock.mono() >= self._next_work:
            return True
        return not self._is_failing and (bool(writer.closed) or self._is_unsealed(writer))

    def _do_due_work(self, writer: BatchWriter, at_end: bool) -> None:
        self._next_work = self._clock.mono() + int(PULSE * 1_000_000)
        try:
            if not self._directory.exists():
                # The writer says so, and makes it again. Until then nothing in it counts as removed.
                return
            is_asked = self._end_segment(writer)
            self._seal(writer, at_end)
            self._keep_cosignatures()
            if is_asked:
                # A client that asked for the end of a segment waits for its seal, too.
                self._files.remove(self._directory / MARKER)
            if not at_end:
                self.watch.look(self._closed)
                self._retention.look(writer, self._closed)
        except Locked:
            # The writer has said so, and nothing in the directory is the business of this server any more.
            return
        except Exception as error:
            # Records are written after any failure of the upkeep.
            if not self._is_failing:
                log.error(
                    "journal: upkeep failed, it is tried again: {error}", event="journal.upkeep-failed", error=error
                )
            self._is_failing = True
        else:
            if self._is_failing:
                log.info("journal: upkeep works again", event="journal.upkeep-restored")
            self._is_failing = False

    def _is_unsealed(self, writer: BatchWriter) -> bool:
        """Whether no part of the growing segment is sealed yet."""
        if writer.segment is None:
            return False
        return self._sealed is None or self._sealed.segment != writer.segment

    def _end_segment(self, writer: BatchWriter) -> bool:
        """End the growing segment if it is due. :returns: whether somebody asked for it, by a file named ``MARKER``."""
        is_asked = (self._directory / MARKER).exists()
        try:
            if is_asked:
                writer.rotate()
            else:
                writer.rotate_if_due()
        finally:
            self._ended += writer.closed
            writer.closed.clear()
        return is_asked

    def _look_at_manifest(self, writer: BatchWriter) -> None:
        if self._sealer.go_on_if_back():
            log.info(
                "journal: the manifest of {directory} is back as it was",
                event="journal.manifest-back",
                directory=self._directory,
            )
            self._closed = _closed_in(read_manifest(self._directory / MANIFEST_NAME))
        changed = self._sealer.begin_anew_if_changed(writer.hold)
        if changed is not None:
            log.critical(
                "journal: another program changed the manifest of {directory}: {changed}; the next seal begins "
                "a new one",
                event="journal.manifest-removed",
                directory=self._directory,
                changed=changed,
            )
            # No segment is sealed in the new manifest.
            self._cosignatures.clear()
            self._closed = {}
            self._sealed = None
            reason = f"{changed} while the server was running"
            self._begin_anew(writer, Damage(segment=MANIFEST, line=1, reason=reason))

    def _seal(self, writer: BatchWriter, at_end: bool) -> None:
        self._look_at_manifest(writer)
        self._pass_over_changed(writer)
        if self._ended:
            self._seal_closed(at_end)
        is_due = self._clock.mono() >= self._seal_due and not self._is_spared()
        if writer.segment is not None and (self._is_unsealed(writer) or is_due):
            self._seal_growing(writer)

    def _keep_cosignatures(self) -> None:
        while self._cosignatures:
            self._sealer.cosign(*self._cosignatures[0])
            self._cosignatures.popleft()

    def _is_spared(self) -> bool:
        """Whether no growing segment is sealed again, so that the manifest does not exceed the bounds."""
        is_spared = self._sealer.is_sparing
        if is_spared and not self._was_spared:
            log.warn(
                "journal: the manifest of {directory} is long. From now on a segment is sealed when it begins and when "
                "it ends, and not in between: let the server begin another journal directory",
                event="journal.manifest-long",
                directory=self._directory,
            )
        self._was_spared = is_spared
        return is_spared

    def _pass_over_changed(self, writer: BatchWriter) -> None:
        """No segment is sealed that is not what was written: another program may have changed it since it ended."""
        looked = [(each, ended_change(self._directory, each.segment, each.bytes, self._files)) for each in self._ended]
        self._ended = [each for each, found in looked if found is None]
        for each, found in looked:
            if found is not None:
                log.critical(
                    "journal: another program changed segment {number} of {directory}: {changed}; it is not sealed",
                    event="journal.segment-changed",
                    number=each.segment,
                    directory=self._directory,
                    changed=found.what,
                )
                self._begin_anew(writer, ended_damage(each.segment, found))

    def _begin_anew(self, writer: BatchWriter, damage: Damage) -> None:
        try:
            writer.begin_anew(damage)
        finally:
            self._ended += writer.closed
            writer.closed.clear()

    def _seal_closed(self, at_end: bool) -> None:
        for extent in self._ended:
            # A sync may have failed when the segment ended, or an earlier boot crashed before it.
            closed.sync(self._directory / segment_name(extent.segment), self._files)
        for seal, seal_hash in self._sealer.seal(self._ended, closed=True):
            self._sealed_now(seal, seal_hash)
            self._closed[seal.segment] = seal
            if at_end:
                # Slow work is left to the next boot.
                self._finish(seal, compress=False)
            else:
                self._later(partial(self._finish, seal, compress=self._policy.compress))
        self._ended = []

    def _seal_growing(self, writer: BatchWriter) -> None:
        writer.sync()
        extent = writer.extent()
        if extent is not None and extent != self._sealed:
            ((seal, seal_hash),) = self._sealer.seal([extent], closed=False)
            self._sealed_now(seal, seal_hash)
            self._sealed = extent
        self._seal_due = self._clock.mono() + int(self._policy.seal_interval * 1_000_000)

    def _sealed_now(self, seal: Seal, seal_hash: str) -> None:
        """Log the hash of a seal. An auditor who has it notices if the journal was cut off before that seal."""
        self.last_seal = seal, seal_hash
        log.info("journal: sealed {what}: {hash}", event="journal.sealed", what=in_words(seal), hash=seal_hash)

    def _finish(self, seal: Seal, *, compress: bool) -> None:
        """Make a closed segment read-only, and compress it if ``compress``. Does nothing if it is gone already."""
        path = self._directory / segment_name(seal.segment)
        try:
            self._files.set_mode(path, SEALED)
            if compress:
                closed.compress(path, seal.digest, self._files)
        except FileNotFoundError:
            return
        except (OSError, JournalError) as error:
            log.error(
                "journal: {path} cannot be made read-only or compressed: {error}",
                event="journal.not-compressed",
                path=path,
                error=error,
            )


def _closed_in(manifest: Manifest) -> dict[int, Seal]:
    """The last seal of each closed segment, by the number of the segment."""
    return {seal.segment: seal for seal in manifest.closed()}
