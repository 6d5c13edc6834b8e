"""Going on after damage: all that can still be read of a journal, and the beginning of a new chain.

Nothing of what is there is changed. The next segment says in its header where the damage is, and what the last segment
was like when it was found so; from then on only later segments are judged when a server starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.bounded import lines_in
from bussrv.journal.chain import START
from bussrv.journal.header import Damage, Previous, decode_header, decode_part
from bussrv.journal.manifest import MANIFEST_NAME, last_seq
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import Fold, SegmentReader
from bussrv.journal.record import decode
from bussrv.journal.recovery import Recovered
from bussrv.journal.segment import CORRUPT, first_seq, is_compressed, list_segments, open_segment

SHORTEST_RECORD = 64
"""No record takes fewer bytes: the hash of the line before it alone is that long."""


def salvage(directory: Path, damage: Damage, fold: Fold) -> Recovered:
    """Take in everything that can be read since the last snapshot that can, whatever stands in between.

    :param damage: what :func:`bussrv.journal.recovery.recover` found.
    :param fold: an empty one.
    :raises JournalError: if the directory or a file in it cannot be read at all.
    """
    found = _Found()
    try:
        paths = list_segments(directory)
        for path in _since_last_snapshot(paths, damage):
            _take_in(path, fold, found)
        previous = _as_found(paths[-1]) if paths else None
    except OSError as error:
        raise JournalError(f"cannot salvage {directory}: {error}") from error
    sealed = [last_seq(seal) + 1 for seal in read_manifest(directory / MANIFEST_NAME).seals.values()]
    return Recovered(
        next_seq=max([found.next_seq, *sealed]),
        hash=START,
        previous=previous,
        server=found.server,
        stopped=False,
        salvaged=damage,
    )


class _Found(Struct):
    """The records read so far. No number is to be used twice, not even one of a record that nobody can read any more:
    ``next_seq`` leaves out as many as there may have been.
    """

    next_seq: int = 1
    server: str | None = None


def _since_last_snapshot(paths: list[Path], damage: Damage) -> list[Path]:
    """The last segment that begins as it should, and later ones; all of them if none does."""
    for index in reversed(range(len(paths))):
        if _begins_well(paths[index], damage):
            return paths[index:]
    return paths


def _begins_well(path: Path, damage: Damage) -> bool:
    """Whether header, snapshot and first record of a segment hold each other's hash, and are not in doubt."""
    try:
        with closing(SegmentReader(path)) as reader:
            next(reader.read(), None)
    except JournalError:
        return False
    return damage.segment != reader.header.segment or damage.line > reader.line


def _take_in(path: Path, fold: Fold, found: _Found) -> None:
    """A snapshot in the middle is not taken in: what it says is there already, or is contradicted by it."""
    takes_snapshot = found.next_seq == 1
    found.next_seq = max(found.next_seq, first_seq(path) + 1)
    read = 0
    for text in _lines(path):
        read += len(text)
        with suppress(JournalError):
            record = decode(text)
            fold.apply(record.event, record.time)
            found.next_seq, found.server = max(found.next_seq, record.seq + 1), record.server
            continue
        with suppress(JournalError):
            decode_header(text)
            continue
        with suppress(JournalError, ValueError):
            part = decode_part(text)
            if takes_snapshot:
                fold.take(part.state, part.version)
            continue
        found.next_seq += 1 + len(text) // SHORTEST_RECORD
    if not is_compressed(path):
        # Beyond the bounds, there may be records that nobody reads.
        found.next_seq += max(0, path.stat().st_size - read) // SHORTEST_RECORD


def _as_found(path: Path) -> Previous:
    """The digest of a segment, as far as it can be read."""
    size, hashed = 0, sha256()
    for text in _lines(path):
        size += len(text)
        hashed.update(text)
    return Previous(first_seq(path), size, hashed.hexdigest())


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a segment, as far as it can be decompressed."""
    with open_segment(path) as file, suppress(*CORRUPT):
        yield from lines_in(file)
