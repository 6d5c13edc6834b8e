"""What a journal needs beside being written: seals, the end of segments that are due, retention.

The writer thread looks after it between two batches. What takes long (compressing, removing) is done by a thread of its
own, one after the other.

A segment is sealed when its first records are in it, again every ``seal_interval`` seconds while records come, and for
the last time when it is closed. Only what is sealed as closed is compressed or removed, and a removal is said in
the manifest and in the journal before it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct
from twisted.logger import Logger

from bussrv.clock import Clock
from bussrv.errors import JournalError
from bussrv.events import JournalPruned
from bussrv.journal import closed
from bussrv.journal.batch import PULSE, BatchWriter
from bussrv.journal.files import FILES, Files
from bussrv.journal.manifest import Seal, last_seq
from bussrv.journal.sealing import MARKER, Reason, Sealer, in_words
from bussrv.journal.segment import Extent, first_seq, is_compressed, list_segments, segment_name

Later = Callable[[Callable[[], None]], object]

log = Logger()


class Policy(Struct, frozen=True, kw_only=True):
    """What is done with segments.

    :ivar seal_interval: seconds between two seals of a segment that grows.
    :ivar compress: whether closed segments are compressed.
    :ivar retain_age: how many seconds after its last record a segment may be removed; ``None``: never.
    :ivar retain_bytes: how large the journal may be before its oldest segments are removed; ``None``: any size.
    """

    seal_interval: float = 60.0
    compress: bool = False
    retain_age: float | None = None
    retain_bytes: int | None = None


class Upkeep:
    """Looks after a journal directory that is open for writing.

    :param closed: the seals of the segments that are closed and not removed.
    :param unsealed: segments that an earlier boot did not come to seal as closed.
    :param later: runs a function in the background, one after the other.
    """

    def __init__(
        self,
        directory: Path,
        sealer: Sealer,
        *,
        closed: Iterable[Seal],
        unsealed: Iterable[Extent],
        policy: Policy,
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
        self._closed = {seal.segment: seal for seal in closed}
        self._ended = list(unsealed)
        self._sealed: Extent | None = None
        self._next_look = 0
        self._seal_due = 0
        self._is_failing = False

    def begin(self) -> None:
        """Do what an earlier boot left undone with segments that are closed."""
        paths = {first_seq(path): path for path in list_segments(self._directory)}
        for number, seal in self._closed.items():
            if number in paths and not is_compressed(paths[number]):
                self._put_away(seal)

    def look(self, writer: BatchWriter, *, at_end: bool = False) -> None:
        """See to what is due. What fails is said in the log and tried again.

        :param at_end: nothing more will be written.
        """
        now = self._clock.mono()
        if now < self._next_look and not writer.closed and not self._is_new(writer) and not at_end:
            return
        self._next_look = now + int(PULSE * 1_000_000)
        try:
            self._end_segment(writer)
            self._seal(writer)
            if not at_end:
                self._prune(writer)
        except (OSError, JournalError) as error:
            if not self._is_failing:
                log.error("journal: upkeep failed, it is tried again: {error}", error=error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _is_new(self, writer: BatchWriter) -> bool:
        """Whether nothing of the segment that is being written is sealed yet."""
        if writer.segment is None or self._is_failing:
            return False
        return self._sealed is None or self._sealed.segment != writer.segment

    def _end_segment(self, writer: BatchWriter) -> None:
        marker = self._directory / MARKER
        if marker.exists():
            writer.rotate()
        else:
            writer.rotate_if_due()
        self._ended += writer.closed
        writer.closed.clear()

    def _seal(self, writer: BatchWriter) -> None:
        if self._sealer.begin_anew_if_removed():
            log.critical(
                "journal: somebody removed the manifest of {directory}; a new one is begun", directory=self._directory
            )
            self._ended, self._sealed = [], None
        if self._ended:
            for seal, seal_hash in self._sealer.seal(self._ended, closed=True):
                _tell(seal, seal_hash)
                self._closed[seal.segment] = seal
                self._put_away(seal)
            self._ended = []
        if writer.segment is not None and (self._is_new(writer) or self._clock.mono() >= self._seal_due):
            self._seal_growing(writer)
        # Who asked for the end of a segment waits for its seal, too.
        self._files.remove(self._directory / MARKER)

    def _seal_growing(self, writer: BatchWriter) -> None:
        writer.sync()
        extent = writer.extent()
        if extent is not None and extent != self._sealed:
            ((seal, seal_hash),) = self._sealer.seal([extent], closed=False)
            _tell(seal, seal_hash)
            self._sealed = extent
        self._seal_due = self._clock.mono() + int(self._policy.seal_interval * 1_000_000)

    def _put_away(self, seal: Seal) -> None:
        path = self._directory / segment_name(seal.segment)

        def put_away() -> None:
            try:
                closed.make_read_only(path, self._files)
                if self._policy.compress:
                    closed.compress(path, seal.digest, self._files)
            except FileNotFoundError:
                return
            except (OSError, JournalError) as error:
                log.error("journal: {path} cannot be put away: {error}", path=path, error=error)

        self._later(put_away)

    def _prune(self, writer: BatchWriter) -> None:
        """Remove the oldest segments, as far as the policy says so."""
        if self._policy.retain_age is None and self._policy.retain_bytes is None:
            return
        paths = list_segments(self._directory)
        total = sum(closed.stored_size(path) for path in paths)
        for path in paths[:-1]:
            seal = self._closed.get(first_seq(path))
            reason = None if seal is None else self._why_prune(seal, total)
            if seal is None or reason is None:
                return
            total -= closed.stored_size(path)
            self._remove(seal, reason, writer)

    def _why_prune(self, seal: Seal, total: int) -> Reason | None:
        age, size = self._policy.retain_age, self._policy.retain_bytes
        if age is not None and seal.last_time is not None and self._clock.utc() - seal.last_time > age * 1_000_000:
            return "age"
        return "size" if size is not None and total > size else None

    def _remove(self, seal: Seal, reason: Reason, writer: BatchWriter) -> None:
        self._sealer.prune(seal, reason)
        del self._closed[seal.segment]
        log.info("journal: removing {what}, retention by {reason}", what=in_words(seal), reason=reason)
        writer.note(
            JournalPruned(
                segment=seal.segment,
                last_seq=last_seq(seal),
                bytes=seal.bytes,
                digest=seal.digest,
                reason=f"retention-{reason}",
            )
        )

        def remove() -> None:
            try:
                closed.remove(self._directory, seal.segment, self._files)
            except OSError as error:
                log.error("journal: segment {number} cannot be removed: {error}", number=seal.segment, error=error)

        self._later(remove)


def _tell(seal: Seal, seal_hash: str) -> None:
    """Who keeps the hash of a seal elsewhere, the log for example, finds out when the journal is cut off before it."""
    log.info("journal: sealed {what}: {hash}", what=in_words(seal), hash=seal_hash)
