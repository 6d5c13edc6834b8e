"""The upkeep of a journal: seals, the end of segments that are due, compression, retention.

The writer thread looks after it between two batches. What takes long (compressing, removing) is done by a thread of its
own, one after the other.

A segment is sealed when its first records are in it, again every ``seal_interval`` seconds while records come, and for
the last time when it is closed. Only what is sealed as closed is compressed or removed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct
from twisted.logger import Logger

from bussrv.clock import Clock
from bussrv.errors import JournalError
from bussrv.journal import closed
from bussrv.journal.batch import PULSE, BatchWriter
from bussrv.journal.files import FILES, Files
from bussrv.journal.manifest import Manifest, Seal
from bussrv.journal.retention import Later, Retention
from bussrv.journal.sealing import MARKER, Sealer, in_words
from bussrv.journal.segment import Extent, first_seq, is_compressed, is_there, list_segments, segment_name

log = Logger()


class Policy(Struct, frozen=True, kw_only=True):
    """The options for segments.

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

    :param manifest: what was there when the directory was opened.
    :param unsealed: segments that an earlier boot did not come to seal as closed.
    :param later: runs a function in the background, one after the other.
    """

    def __init__(
        self,
        directory: Path,
        sealer: Sealer,
        *,
        manifest: Manifest,
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
        self._retention = Retention(
            directory,
            sealer,
            age=policy.retain_age,
            size=policy.retain_bytes,
            pruned=manifest.pruned.values(),
            clock=clock,
            later=later,
            files=files,
        )
        self._closed = {seal.segment: seal for seal in manifest.closed()}
        self._ended = list(unsealed)
        self._sealed: Extent | None = None
        self._next_look = 0
        self._seal_due = 0
        self._is_failing = False
        self._is_stopped = False
        self._looking = threading.Lock()

    def begin(self) -> None:
        """Do what an earlier boot left undone with segments that are closed.

        :raises JournalError: if the directory cannot be read.
        """
        paths = {first_seq(path): path for path in list_segments(self._directory)}
        for number, seal in self._closed.items():
            if number in paths and not is_compressed(paths[number]):
                self._later(partial(self._put_away, seal, compress=self._policy.compress))

    def look(self, writer: BatchWriter, *, at_end: bool = False) -> None:
        """Do everything that is due. A failure is logged, and the work is tried again.

        :param at_end: nothing more will be written.
        """
        with self._looking:
            if not self._is_stopped and (at_end or self._is_time(writer)):
                self._look(writer, at_end)

    def stop(self) -> None:
        """Do nothing any more. When this returns, nothing is under way but what runs in the background."""
        with self._looking:
            self._is_stopped = True

    def _is_time(self, writer: BatchWriter) -> bool:
        if self._clock.mono() >= self._next_look:
            return True
        return not self._is_failing and (bool(writer.closed) or self._is_unsealed(writer))

    def _look(self, writer: BatchWriter, at_end: bool) -> None:
        self._next_look = self._clock.mono() + int(PULSE * 1_000_000)
        try:
            is_asked = self._end_segment(writer)
            self._seal(writer, at_end)
            if is_asked:
                # A client that asked for the end of a segment waits for its seal, too.
                self._files.remove(self._directory / MARKER)
            if not at_end:
                self._retention.look(writer, self._closed)
        except Exception as error:
            # Changes of the registry go on after any failure.
            if not self._is_failing:
                log.error("journal: upkeep failed, it is tried again: {error}", error=error)
            self._is_failing = True
        else:
            if self._is_failing:
                log.info("journal: upkeep works again")
            self._is_failing = False

    def _is_unsealed(self, writer: BatchWriter) -> bool:
        """Whether nothing of the segment that is being written is sealed yet."""
        if writer.segment is None:
            return False
        return self._sealed is None or self._sealed.segment != writer.segment

    def _end_segment(self, writer: BatchWriter) -> bool:
        """End the segment if it is due. :returns: whether somebody asked for it."""
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

    def _seal(self, writer: BatchWriter, at_end: bool) -> None:
        if self._sealer.begin_anew_if_removed():
            log.critical(
                "journal: somebody removed the manifest of {directory}; a new one is begun", directory=self._directory
            )
            # Nothing is sealed any more, and a segment that is gone as well cannot be.
            self._ended = [each for each in self._ended if is_there(self._directory, each.segment)]
            self._closed = {}
            self._sealed = None
        if self._ended:
            self._seal_closed(at_end)
        if writer.segment is not None and (self._is_unsealed(writer) or self._clock.mono() >= self._seal_due):
            self._seal_growing(writer)

    def _seal_closed(self, at_end: bool) -> None:
        for extent in self._ended:
            # That may have failed when it ended, or never have come to pass in an earlier boot.
            closed.sync(self._directory / segment_name(extent.segment), self._files)
        for seal, seal_hash in self._sealer.seal(self._ended, closed=True):
            _tell(seal, seal_hash)
            self._closed[seal.segment] = seal
            if at_end:
                # Slow work is left to the next boot.
                self._put_away(seal, compress=False)
            else:
                self._later(partial(self._put_away, seal, compress=self._policy.compress))
        self._ended = []

    def _seal_growing(self, writer: BatchWriter) -> None:
        writer.sync()
        extent = writer.extent()
        if extent is not None and extent != self._sealed:
            ((seal, seal_hash),) = self._sealer.seal([extent], closed=False)
            _tell(seal, seal_hash)
            self._sealed = extent
        self._seal_due = self._clock.mono() + int(self._policy.seal_interval * 1_000_000)

    def _put_away(self, seal: Seal, *, compress: bool) -> None:
        path = self._directory / segment_name(seal.segment)
        try:
            closed.make_read_only(path, self._files)
            if compress:
                closed.compress(path, seal.digest, self._files)
        except FileNotFoundError:
            return
        except (OSError, JournalError) as error:
            log.error("journal: {path} cannot be put away: {error}", path=path, error=error)


def _tell(seal: Seal, seal_hash: str) -> None:
    """An auditor with the hash of a seal, such as from the log, notices when the journal is cut off before it."""
    log.info("journal: sealed {what}: {hash}", what=in_words(seal), hash=seal_hash)
