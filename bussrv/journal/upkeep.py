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
from typing import Literal

from msgspec import Struct
from twisted.logger import Logger

from bussrv.clock import Clock
from bussrv.errors import JournalError
from bussrv.events import JournalPruned
from bussrv.journal import closed
from bussrv.journal.batch import BatchWriter
from bussrv.journal.chain import START
from bussrv.journal.files import FILES, Files
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME, Manifest, ManifestFile, Pruned, Seal, last_seq
from bussrv.journal.segment import Extent, first_seq, is_compressed, list_segments, segment_name

MARKER = "rotate"
"""A file of this name in the journal directory ends the segment, and is removed."""

PULSE = 1.0
"""Seconds between two looks at what is due."""

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

    :param manifest: what :func:`bussrv.journal.manifest.read_manifest` found there.
    :param key: what seals are signed with.
    :param unsealed: segments that an earlier boot did not come to seal as closed.
    :param later: runs a function in the background, one after the other.
    :raises JournalError: if the key in force is another one.
    :raises OSError: if a first key cannot be written down.
    """

    def __init__(
        self,
        directory: Path,
        server: str,
        *,
        manifest: Manifest,
        key: PrivateKey | None,
        unsealed: Iterable[Extent],
        policy: Policy,
        clock: Clock,
        later: Later,
        files: Files = FILES,
    ) -> None:
        self._directory = directory
        self._path = directory / MANIFEST_NAME
        self._server = server
        self._key = key
        self._policy = policy
        self._clock = clock
        self._later = later
        self._files = files
        self._closed = list(unsealed)
        self._sealed: Extent | None = None
        self._next_look = 0
        self._seal_due = 0
        self._is_failing = False
        self._open(manifest)
        self._done = {seal.segment: seal for seal in manifest.seals.values() if seal.closed}
        for number in manifest.pruned:
            self._done.pop(number, None)

    def _open(self, manifest: Manifest) -> None:
        is_new_key = self._key is not None and manifest.in_force is None
        self._manifest = ManifestFile(self._path, manifest, None if is_new_key else self._key, files=self._files)
        if self._key is not None and is_new_key:
            self._manifest.introduce(self._key.public, self._key, time=self._clock.utc(), server=self._server)

    @property
    def last_seal(self) -> str | None:
        """The hash of the last line of the manifest, if there is one."""
        return None if self._manifest.last_hash == START else self._manifest.last_hash

    def begin(self) -> None:
        """Do what an earlier boot left undone with segments that are closed."""
        paths = {first_seq(path): path for path in list_segments(self._directory)}
        for number, seal in self._done.items():
            if number in paths and not is_compressed(paths[number]):
                self._put_away(number, seal.digest)

    def look(self, writer: BatchWriter, *, at_end: bool = False) -> None:
        """See to what is due. Never raises; what fails is said in the log and tried again.

        :param at_end: nothing more will be written.
        """
        now = self._clock.mono()
        if now < self._next_look and not writer.closed and not self._is_first(writer) and not at_end:
            return
        self._next_look = now + int(PULSE * 1_000_000)
        try:
            self._end_segment(writer)
            self._closed += writer.closed
            writer.closed.clear()
            self._seal(writer)
            if not at_end:
                self._prune(writer)
        except (OSError, JournalError) as error:
            if not self._is_failing:
                log.error("journal: upkeep failed, it is tried again: {error}", error=error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _is_first(self, writer: BatchWriter) -> bool:
        """Whether nothing of the segment that is being written is sealed yet."""
        segment = writer.segment
        return (
            segment is not None and not self._is_failing and (self._sealed is None or self._sealed.segment != segment)
        )

    def _end_segment(self, writer: BatchWriter) -> None:
        marker = self._directory / MARKER
        if marker.exists():
            writer.rotate()
            self._files.remove(marker)
        else:
            writer.rotate_if_due()

    def _seal(self, writer: BatchWriter) -> None:
        if self.last_seal is not None and not self._path.exists():
            log.critical("journal: somebody removed {path}; a new one is begun", path=self._path)
            self._closed = []
            self._open(Manifest())
        growing = self._growing(writer)
        extents = [*((extent, True) for extent in self._closed), *((extent, False) for extent in growing)]
        if not extents:
            return
        hashes = self._manifest.append([self._as_seal(extent, is_closed) for extent, is_closed in extents])
        for (extent, is_closed), seal_hash in zip(extents, hashes, strict=True):
            log.info("journal: sealed {what}: {hash}", what=_in_words(extent, is_closed), hash=seal_hash)
        for extent in self._closed:
            self._done[extent.segment] = self._as_seal(extent, True)
            self._put_away(extent.segment, extent.digest)
        self._closed = []
        for extent in growing:
            self._sealed = extent
            self._seal_due = self._clock.mono() + int(self._policy.seal_interval * 1_000_000)

    def _growing(self, writer: BatchWriter) -> list[Extent]:
        """The segment that is being written, if it is to be sealed now."""
        if writer.segment is None or (not self._is_first(writer) and self._clock.mono() < self._seal_due):
            return []
        writer.sync()
        extent = writer.extent()
        return [] if extent is None or extent == self._sealed else [extent]

    def _as_seal(self, extent: Extent, is_closed: bool) -> Seal:
        return Seal(
            time=self._clock.utc(),
            server=self._server,
            segment=extent.segment,
            closed=is_closed,
            bytes=extent.bytes,
            digest=extent.digest,
            records=extent.records,
            first_seq=extent.first_seq,
            last_seq=extent.last_seq,
            first_time=extent.first_time,
            last_time=extent.last_time,
        )

    def _put_away(self, number: int, digest: str) -> None:
        path = self._directory / segment_name(number)

        def put_away() -> None:
            try:
                closed.make_read_only(path, self._files)
                if self._policy.compress:
                    closed.compress(path, digest, self._files)
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
            seal = self._done.get(first_seq(path))
            if seal is None:
                return
            reason = self._why_prune(seal, total)
            if reason is None:
                return
            total -= closed.stored_size(path)
            self._remove(seal, reason, writer)

    def _why_prune(self, seal: Seal, total: int) -> Literal["age", "size"] | None:
        age, size = self._policy.retain_age, self._policy.retain_bytes
        if age is not None and seal.last_time is not None and self._clock.utc() - seal.last_time > age * 1_000_000:
            return "age"
        return "size" if size is not None and total > size else None

    def _remove(self, seal: Seal, reason: Literal["age", "size"], writer: BatchWriter) -> None:
        pruned = Pruned(self._clock.utc(), self._server, seal.segment, last_seq(seal), seal.bytes, seal.digest, reason)
        self._manifest.append([pruned])
        del self._done[seal.segment]
        log.info("journal: removing {what}, retention by {reason}", what=_in_words(seal, True), reason=reason)
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


def _in_words(extent: Extent | Seal, is_closed: bool) -> str:
    how = "to its end" if is_closed else "so far"
    return f"segment {extent.segment} {how}, records {extent.first_seq} to {extent.last_seq}"
