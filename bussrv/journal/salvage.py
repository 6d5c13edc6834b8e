"""Going on behind damage: what can still be read of a journal, and where a new chain begins.

Nothing of what is there is changed. The next segment says in its header where the damage is, and what the last segment
was like when it was found so; from then on only what comes behind is judged when a server starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.chain import START
from bussrv.journal.header import Damage, Header, Previous, decode_header, decode_part
from bussrv.journal.manifest import MANIFEST_NAME, last_seq, read_manifest
from bussrv.journal.reading import MAX_LINE, Fold
from bussrv.journal.record import Record, decode
from bussrv.journal.recovery import Recovered
from bussrv.journal.segment import digest_of, first_seq, list_segments, open_segment


def salvage(directory: Path, damage: Damage, fold: Fold) -> Recovered:
    """Take in everything that can be read since the last snapshot that can, whatever stands in between.

    :param damage: what :func:`bussrv.journal.recovery.recover` found.
    :param fold: an empty one.
    :raises JournalError: if the directory or a file in it cannot be read at all.
    """
    try:
        paths = list_segments(directory)
        next_seq, server = 1, None
        for found in _since_last_snapshot(paths, fold):
            next_seq, server = max(next_seq, found.seq + 1), found.server
        previous = Previous(first_seq(paths[-1]), *digest_of(paths[-1])) if paths else None
    except (OSError, EOFError) as error:
        raise JournalError(f"cannot salvage {directory}: {error}") from error
    # No number is used twice, not even one of a record that nobody can read any more.
    sealed = [last_seq(seal) + 1 for seal in read_manifest(directory / MANIFEST_NAME).seals.values()]
    named = [first_seq(path) + 1 for path in paths]
    return Recovered(
        next_seq=max([next_seq, *sealed, *named]),
        hash=START,
        previous=previous,
        server=server,
        stopped=False,
        salvaged=damage,
    )


def _since_last_snapshot(paths: list[Path], fold: Fold) -> Iterator[Record]:
    begin = next((index for index in reversed(range(len(paths))) if _has_snapshot(paths[index])), 0)
    for path in paths[begin:]:
        yield from _records(path, fold, takes_snapshot=path == paths[begin])


def _has_snapshot(path: Path) -> bool:
    """Whether header and snapshot of a segment can be read."""
    try:
        lines = _lines(path)
        parts = decode_header(next(lines)).parts
        for _ in range(parts):
            decode_part(next(lines))
    except (JournalError, StopIteration, OSError, EOFError):
        return False
    return True


def _records(path: Path, fold: Fold, *, takes_snapshot: bool) -> Iterator[Record]:
    parts_left = 0
    for line in _lines(path):
        found = _decode(line)
        if isinstance(found, Record):
            fold.apply(found.event, found.time)
            yield found
        elif isinstance(found, Header):
            parts_left = found.parts if takes_snapshot else 0
        elif parts_left:
            fold.take(decode_part(line).state)
            parts_left -= 1


def _decode(line: bytes) -> Record | Header | None:
    with suppress(JournalError):
        return decode(line)
    with suppress(JournalError):
        return decode_header(line)
    return None


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a segment, as far as it can be read."""
    try:
        with open_segment(path) as file:
            while line := file.readline(MAX_LINE):
                yield line
    except (OSError, EOFError):
        return
