"""Opening a journal directory: see that nothing is missing, set a torn tail aside, replay the last segment.

What is replayed is the snapshot that the last segment begins with and the records behind it, so the time it takes does
not grow with the history. The segments before it are not replayed, but each is held against the digest that the
header of the next one has of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.events import ServerStopped
from bussrv.journal.chain import START, line_hash
from bussrv.journal.files import FILES, Files
from bussrv.journal.header import Damage, Header, Previous
from bussrv.journal.manifest import MANIFEST_NAME, read_manifest
from bussrv.journal.reading import NO_FOLD, BadLine, Fold, Line, SegmentReader, read_header
from bussrv.journal.segment import (
    COMPRESSED_SUFFIX,
    GARBLED,
    NEW_SUFFIX,
    Digests,
    Extent,
    digest_of,
    digests_of,
    extent_of,
    first_seq,
    is_compressed,
    list_segments,
    segment_name,
    set_end_aside,
    torn_tail,
)

ADVICE = (
    "Restore the journal from a copy, start with another directory, or start once with --journal-salvage: "
    "then a new chain begins behind the damage."
)


class Recovered(Struct, frozen=True, kw_only=True):
    """What a journal directory held when it was opened, and where the next segment goes on.

    :ivar next_seq: the number of the record to come, 1 in a new journal.
    :ivar hash: the hash of the last line.
    :ivar previous: the last segment.
    :ivar server: the server id of the last record.
    :ivar stopped: whether the last boot ended in an orderly way.
    :ivar torn_bytes: the size of an unfinished line that was set aside.
    :ivar salvaged: the damage behind which the next segment begins a new chain.
    :ivar unsealed: segments that ended without being sealed as closed.
    """

    next_seq: int = 1
    hash: str = START
    previous: Previous | None = None
    server: str | None = None
    stopped: bool = True
    torn_bytes: int = 0
    salvaged: Damage | None = None
    unsealed: tuple[Extent, ...] = ()


_MISSING = "the segment is sealed, but it is not there"


class Damaged(JournalError):
    """A journal is damaged where no crash can have done it.

    :ivar damage: where.
    """

    def __init__(self, message: str, damage: Damage) -> None:
        super().__init__(message)
        self.damage = damage


def recover(directory: Path, fold: Fold, files: Files = FILES) -> Recovered:
    """Replay a locked journal directory into ``fold``. Nothing in it is changed before everything was looked at.

    :raises Damaged: if a line is damaged or missing anywhere but at the very end, if a segment is not what it was when
        it was sealed, or if a seal is missing; names segment and line.
    :raises JournalError: if the directory or a file in it cannot be read.
    """
    try:
        paths = list_segments(directory)
        recovered = _Recovery(directory, paths, fold, files).run() if paths else _nothing(directory)
        _remove_unfinished(directory, files)
        return recovered
    except OSError as error:
        raise JournalError(f"cannot read the journal directory {directory}: {error}") from error


def _remove_unfinished(directory: Path, files: Files) -> None:
    for path in sorted(directory.iterdir()):
        is_copy = path.name.endswith(COMPRESSED_SUFFIX) and path.with_suffix("").exists()
        if path.name.endswith(NEW_SUFFIX) or is_copy:
            files.remove(path)


def _nothing(directory: Path) -> Recovered:
    sealed = [seal.segment for seal in read_manifest(directory / MANIFEST_NAME).seals.values()]
    if sealed:
        raise _damaged(directory / segment_name(max(sealed)), 0, max(sealed), _MISSING)
    return Recovered()


def _damaged(path: Path, line: int, seq: int | None, what: str) -> Damaged:
    where = f"{path}, line {line}" if line else str(path)
    number = first_seq(path) if path.name != MANIFEST_NAME else 0
    doubt = "" if seq is None else f"From record {seq} on the journal is in doubt. "
    return Damaged(f"{where}: {what}. {doubt}{ADVICE}", Damage(segment=number, line=line, seq=seq, reason=what))


class _Recovery:
    """One look at a journal that has segments; those before the last salvage are not judged any more."""

    def __init__(self, directory: Path, paths: list[Path], fold: Fold, files: Files) -> None:
        self._manifest_path = directory / MANIFEST_NAME
        self._manifest = read_manifest(self._manifest_path)
        self._fold = fold
        self._files = files
        # What was about to be removed when a crash came is not missed, nor has it to be whole.
        kept = [path for path in paths if first_seq(path) not in self._manifest.pruned]
        self._headers = _since_salvage(kept)
        self._paths = kept[-len(self._headers) :]
        self._overlong: dict[Path, int] = {}

    def run(self) -> Recovered:
        self._check_manifest()
        for path, successor, header in zip(self._paths, self._paths[1:], self._headers[1:], strict=False):
            self._check_segment(path, successor, header)
        *older, last = self._paths
        with _named(last):
            found = digests_of(last, [seal.bytes for seal in self._manifest.all_seals.get(first_seq(last), [])])
        self._check_seals(last, found)
        extent, header, line = _measure(last, self._fold)
        torn = 0 if is_compressed(last) else len(torn_tail(last))
        if torn:
            self._overlong[last] = extent.bytes
        for path, size in self._overlong.items():
            set_end_aside(path, size, self._files)
        unsealed = [_measure(path, NO_FOLD)[0] for path in older if not self._is_closed(path)]
        if line is None:
            # A crash came between the beginning of the segment and its first record.
            self._files.remove(last)
            return Recovered(
                next_seq=header.segment,
                hash=header.prev,
                previous=header.previous,
                server=header.server,
                stopped=False,
                torn_bytes=torn,
                salvaged=header.salvaged,
                unsealed=tuple(unsealed),
            )
        if not self._is_closed(last):
            unsealed.append(extent)
        return Recovered(
            next_seq=line.record.seq + 1,
            hash=line_hash(line.text),
            previous=extent.as_previous(),
            server=line.record.server,
            stopped=isinstance(line.record.event, ServerStopped),
            torn_bytes=torn,
            unsealed=tuple(unsealed),
        )

    def _is_closed(self, path: Path) -> bool:
        seal = self._manifest.seals.get(first_seq(path))
        return seal is not None and seal.closed

    def _check_manifest(self) -> None:
        lines = _line_numbers(self._manifest_path)
        first = self._headers[0]
        judged_from = 0 if first.salvaged is None else lines.get(first.seal or "", 0)
        for fault in self._manifest.faults:
            if fault.line > judged_from:
                raise _damaged(self._manifest_path, fault.line, None, fault.message)
        for path, header in zip(self._paths, self._headers, strict=True):
            if header.salvaged is None and header.seal is not None and header.seal not in lines:
                what = f"the manifest has no entry {header.seal}, which the segment refers to: it was cut or replaced"
                raise _damaged(path, 1, header.segment, what)
        last = self._paths[-1]
        for seal in self._manifest.seals.values():
            if seal.segment > first_seq(last):
                raise _damaged(last.with_name(segment_name(seal.segment)), 0, seal.segment, _MISSING)

    def _check_segment(self, path: Path, successor: Path, header: Header) -> None:
        """Hold a segment against its seal, and against what the next one says of it in its header."""
        expected, number = header.previous, first_seq(path)
        if expected is None or expected.segment != number:
            _measure(successor, NO_FOLD)
            missing = number + 1 if expected is None else expected.segment
            raise _damaged(path.with_name(segment_name(missing)), 0, missing, "the segment is missing")
        seals = self._manifest.all_seals.get(number, [])
        with _named(path):
            found = digests_of(path, [expected.bytes, *(seal.bytes for seal in seals)])
        size, digest = found.size, found.digest
        if size > expected.bytes and not self._is_closed(path):
            # What a failing disk did not let go of; it was refused, and the next segment began without it.
            self._overlong[path] = size = expected.bytes
            digest = found.beginnings[size]
        self._check_seals(path, found)
        if expected != Previous(number, size, digest):
            _measure(path, NO_FOLD)
            _measure(successor, NO_FOLD)
            raise _damaged(path, 0, number, "it is not what it was when it was closed")

    def _check_seals(self, path: Path, found: Digests) -> None:
        """Hold a segment against its seals, most of which are of its beginning only."""
        for seal in self._manifest.all_seals.get(first_seq(path), []):
            digest = found.beginnings.get(seal.bytes)
            is_longer = seal.closed and found.size > seal.bytes
            if digest == seal.digest and not is_longer:
                continue
            # If there is one, the line says more.
            _measure(path, NO_FOLD)
            if digest is None:
                raise _damaged(path, 0, seal.last_seq, f"it was cut: {seal.bytes} bytes of it are sealed")
            if digest != seal.digest:
                raise _damaged(path, 0, seal.first_seq, "it is not what it was when it was sealed")
            what = "it goes on behind its last record, where it was closed"
            raise _damaged(path, 0, seal.segment + seal.records, what)


def _line_numbers(manifest: Path) -> dict[str, int]:
    """The lines of a manifest by their hashes, whatever they say."""
    if not manifest.exists():
        return {}
    lines = manifest.read_bytes().split(b"\n")[:-1]
    return {line_hash(line): number for number, line in enumerate(lines, start=1)}


def _since_salvage(paths: list[Path]) -> list[Header]:
    """The headers of the segments since the last one that began a new chain."""
    headers: list[Header] = []
    for path in reversed(paths):
        with _named(path):
            headers.insert(0, read_header(path))
        if headers[0].salvaged is not None:
            break
    return headers


def _measure(path: Path, fold: Fold) -> tuple[Extent, Header, Line | None]:
    """Replay a segment into ``fold``.

    :returns: how far it goes, its header, and its last record.
    :raises Damaged: names the first line that is not what it should be.
    """
    first = line = None
    with _named(path):
        reader = SegmentReader(path, take=fold.take)
        try:
            for line in reader.read():
                first = first or line
                fold.apply(line.record.event, line.record.time)
            size = reader.position
        finally:
            reader.close()
    number = reader.header.segment
    begin, end = (None if each is None else each.record for each in (first, line))
    return extent_of(number, digest_of(path, size), reader.next_seq - number, begin, end), reader.header, line


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say what to do about a segment that is not what it should be."""
    try:
        yield
    except BadLine as error:
        raise _damaged(path, error.line, error.seq, error.what) from error
    except GARBLED as error:
        raise _damaged(path, 0, first_seq(path), f"it cannot be decompressed: {error}") from error
