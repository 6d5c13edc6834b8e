"""The segments of journals as they are at one moment. No Spark here.

A running server may still write to the last segment of a journal. So a copy of it is audited, up to its last newline.
The other segments never change, so they are links, unless an unfinished record must be left out of them as well. All
are in one directory, under names that Spark cannot misread::

    0/00000000000000000001.jsonl.gz    the first journal
    0/00000000000000000813.jsonl
    1/00000000000000000001.jsonl       the second one

A segment *is taken* as ``0/00000000000000000001``, whether it is compressed or not.

A journal that is not on this machine (``s3://…``, ``hdfs://…``) is read in place, except its last segment. See
:mod:`bussrv.audit.reading.remote`.

A running server may compress or remove a linked segment. :meth:`JournalSnapshot.check` finds that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.checkpoints import SealedCheckpoint
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.witnesses import Others, known_checkpoints
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME, Manifest
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import read_header, read_segments
from bussrv.journal.regular import read_regular
from bussrv.journal.segment import COMPRESSED_SUFFIX, DIGITS, SUFFIX, count_lines, first_seq, list_segments, torn_size

PATIENCE = 1.0
"""Seconds for a running server to seal a segment that it has just begun or closed."""

_POLL = 0.05
_BLOCK = 1 << 20


@dataclass(frozen=True)
class TakenSegment:
    """A segment of a journal.

    :ivar file: its path or URL.
    :ivar taken: its name in the snapshot: the index of the journal, a slash, its number in 20 digits.
    :ivar number: the number in its name.
    :ivar bytes: the size of the file.
    :ivar stamp: a text that differs if the file was replaced or written to.
    :ivar in_place: whether it is read in place, and is not in the snapshot.
    :ivar torn: the size of an unfinished record at its end, which was left out: a line without a newline. The server
        does not read it either. ``lines`` stand before it.
    """

    file: str
    taken: str
    number: int
    bytes: int
    stamp: str
    in_place: bool = False
    torn: int = 0
    lines: int = 0

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed."""
        return self.file.endswith(COMPRESSED_SUFFIX)

    def path_in(self, root: Path) -> Path:
        """Its path on this machine; ``root``: the directory of the snapshot."""
        return (
            Path(self.file)
            if self.in_place
            else root / (self.taken + (COMPRESSED_SUFFIX if self.is_compressed else SUFFIX))
        )


@dataclass(frozen=True)
class Journal:
    """A journal as it was at one moment.

    :ivar location: its directory or URL.
    :ivar segments: those that are audited, in order.
    :ivar numbers: the numbers of all its segments, audited or not.
    :ivar manifest: their seals. It was read before the segments, so that they have all that is sealed.
    :ivar late: a newer manifest, if a running server had not sealed everything yet.
    """

    location: str
    segments: tuple[TakenSegment, ...]
    numbers: frozenset[int]
    manifest: Manifest
    late: Manifest

    @cached_property
    def checkpoints(self) -> tuple[list[SealedCheckpoint], list[Finding]]:
        """Its checkpoints, in order, and what is wrong with the signature of its server under them."""
        return known_checkpoints(self.manifest)


@dataclass(frozen=True)
class JournalSnapshot:
    """Journals as they were at one moment.

    :ivar journals: one or more.
    :ivar local: the directory of the snapshot.
    :ivar others: what others know of the journals.
    """

    journals: tuple[Journal, ...]
    local: Path
    others: Others | None = None

    @property
    def segments(self) -> tuple[TakenSegment, ...]:
        """All segments, those of a journal in order."""
        return tuple(segment for journal in self.journals for segment in journal.segments)

    def check(self) -> None:
        """Check that all segments are still there. Call it after reading them.

        :raises JournalError: if one is not.
        """
        for journal in self.journals:
            for segment in journal.segments:
                if "://" not in journal.location and not segment.path_in(self.local).exists():
                    raise JournalError(
                        f"{segment.file} went away while it was read, for the server compressed or removed it: "
                        "try again"
                    )


def segments_of(directory: Path) -> list[Path]:
    """The segments of a journal directory on this machine, oldest first.

    :raises JournalError: if it cannot be read, or has no segment.
    """
    paths = list_segments(directory)
    if not paths:
        raise JournalError(f"{directory} holds no journal records")
    return paths


def take_journal(
    directory: Path, index: int, root: Path, trusted: PublicKey | None, since: int | None, until: int | None
) -> Journal:
    """Take a journal directory on this machine into the snapshot at ``root``.

    :param since, until: UTC microseconds. Segments entirely before or after this period are left out.
    :raises JournalError: if it is not a journal, holds no record, or cannot be read.
    """
    paths = segments_of(directory)
    manifest = read_manifest(directory / MANIFEST_NAME, trusted)
    chosen = choose(paths, since, until)
    (root / str(index)).mkdir()
    segments: list[TakenSegment] = []
    try:
        for path in chosen:
            segment = _take(path, root, index, last=path == paths[-1])
            segments.append(cut_torn_tail(segment, root))
        if not any(segment.path_in(root).stat().st_size for segment in segments):
            raise JournalError(f"{directory} holds no journal records")
    except OSError as error:
        raise JournalError(f"cannot read the segment {error.filename}: {error.strerror}") from error
    late = _await_seals(directory, manifest, paths, trusted)
    numbers = frozenset(first_seq(path) for path in (*paths, *list_segments(directory)))
    return Journal(str(directory), tuple(segments), numbers, manifest, late)


def choose(paths: Sequence[Path], since: int | None, until: int | None) -> Sequence[Path]:
    """The segments of a journal that may have records of a period, by the times of their headers.

    Each segment has the registry before it, so earlier segments than the first of these are not needed.

    :raises JournalError: if all segments begin after the period.
    """
    end = len(paths)
    while until is not None and end and not _is_begun_before(paths[end - 1], until):
        end -= 1
    if not end:
        raise JournalError(f"{paths[0].parent} holds no journal records before the end of the period")
    later = (index for index in range(end) if since is not None and not _is_begun_before(paths[index], since + 1))
    begin = max(0, next(later, end if since is not None else 0) - 1)
    return paths[begin:end]


def _is_begun_before(path: Path, moment: int) -> bool:
    """Whether a segment begins or has a record before a moment. True also if it cannot be read."""
    try:
        if read_header(path).time < moment:
            return True
        # Records wait until they are written, so the first may be older than its segment.
        first = next(read_segments([path]), None)
    except JournalError:
        return True
    return first is not None and first.time < moment


def _take(path: Path, root: Path, index: int, last: bool) -> TakenSegment:
    """Put a segment into the snapshot."""
    with read_regular(path) as file:
        about = os.fstat(file.fileno())
    number = first_seq(path)
    stamp = f"{about.st_ino} {about.st_size} {about.st_mtime_ns}"
    segment = TakenSegment(str(path), taken_as(index, number), number, about.st_size, stamp, in_place=True)
    return _copied(segment, root, about.st_size) if last and may_be_torn(segment) else segment


def may_be_torn(segment: TakenSegment) -> bool:
    """Whether an unfinished record at the end is left out. One that exceeds the bounds is not read anyway."""
    return not segment.is_compressed and segment.bytes <= bounds.SEGMENT


def _copied(segment: TakenSegment, root: Path, size: int) -> TakenSegment:
    """The first ``size`` bytes of a segment that is read in place, copied into the snapshot at ``root``."""
    copied = replace(segment, in_place=False)
    with read_regular(Path(segment.file)) as source, copied.path_in(root).open("wb") as target:
        while size and (block := source.read(min(size, _BLOCK))):
            target.write(block)
            size -= len(block)
    return copied


def taken_as(index: int, number: int) -> str:
    """The name of a segment in a snapshot."""
    return f"{index}/{number:0{DIGITS}d}"


def cut_torn_tail(segment: TakenSegment, root: Path) -> TakenSegment:
    """Leave an unfinished record at the end of a segment out of the snapshot.

    :param root: the directory of the snapshot.
    """
    if not may_be_torn(segment):
        return segment
    path = segment.path_in(root)
    torn = torn_size(path)
    if not torn:
        return segment
    whole = path.stat().st_size - torn
    if segment.in_place:
        segment = _copied(segment, root, whole)
    taken = segment.path_in(root)
    os.truncate(taken, whole)
    return replace(segment, torn=torn, lines=count_lines(taken, whole))


def _await_seals(directory: Path, manifest: Manifest, paths: Sequence[Path], trusted: PublicKey | None) -> Manifest:
    """The manifest, also with seals that a running server makes at this moment."""
    late, until = manifest, time.monotonic() + PATIENCE
    while late.entries and not _is_sealed(late, paths) and time.monotonic() < until:
        time.sleep(_POLL)
        late = read_manifest(directory / MANIFEST_NAME, trusted)
    return late


def _is_sealed(manifest: Manifest, paths: Sequence[Path]) -> bool:
    *closed, last = (manifest.seals.get(first_seq(path)) for path in paths)
    return last is not None and all(seal is not None and seal.closed for seal in closed)
