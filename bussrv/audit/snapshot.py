"""What is audited: the segments of journals as they are at one moment. No Spark here.

The last segment of a journal may belong to a running server, so a copy of it is audited, up to its last newline. The
other segments never change any more and are linked to, unless an unfinished record has to be left out of them too. All
are put in one directory, where Spark finds them under names that it cannot misread::

    0/00000000000000000001.jsonl    the first journal
    0/00000000000000000813.jsonl
    1/00000000000000000001.jsonl    the second one
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.segment import list_segments, torn_tail


@dataclass(frozen=True)
class TornTail:
    """What a segment ends in instead of a newline: an unfinished record, which the server does not read either.

    :ivar path: the segment.
    :ivar line: the number of that line.
    :ivar size: its size in bytes.
    :ivar last: whether it is the last segment of its journal, which a crash or a running server may leave so.
    """

    path: Path
    line: int
    size: int
    last: bool


@dataclass(frozen=True)
class Snapshot:
    """Journals as they were at one moment.

    :ivar root: holds one directory for each journal, named by its index in ``journals``.
    :ivar journals: their own directories.
    :ivar segments: how many segments they have.
    :ivar size: how large these are together, in bytes.
    :ivar torn_tails: what was left out.
    """

    root: Path
    journals: tuple[Path, ...]
    segments: int
    size: int
    torn_tails: tuple[TornTail, ...]


@contextmanager
def take_snapshot(journals: Sequence[Path]) -> Iterator[Snapshot]:
    """A snapshot of journal directories; it is gone afterwards. A directory that is named twice is taken once.

    :raises JournalError: if one of them is no journal, holds no record, or cannot be read.
    """
    directories = tuple(dict.fromkeys(path.resolve() for path in journals))
    with tempfile.TemporaryDirectory(prefix="bussrv-audit-") as scratch:
        root = Path(scratch)
        sizes: list[int] = []
        torn_tails: list[TornTail] = []
        for index, directory in enumerate(directories):
            place = root / str(index)
            place.mkdir()
            paths = list_segments(directory)
            try:
                for path in paths:
                    torn_tails += _take(path, place / path.name, last=path == paths[-1])
            except OSError as error:
                raise JournalError(f"cannot read the segment {error.filename}: {error.strerror}") from error
            taken = [path.stat().st_size for path in place.iterdir()]
            if not any(taken):
                raise JournalError(f"{directory} holds no journal records")
            sizes += taken
        yield Snapshot(root, directories, len(sizes), sum(sizes), tuple(torn_tails))


def _take(path: Path, taken: Path, last: bool) -> Iterator[TornTail]:
    """Put a segment into the snapshot, without the unfinished record that it may end in."""
    if not last and not torn_tail(path):
        taken.symlink_to(path)
        return
    shutil.copyfile(path, taken)
    tail = torn_tail(taken)
    if tail:
        os.truncate(taken, taken.stat().st_size - len(tail))
        with taken.open("rb") as file:
            yield TornTail(path, sum(1 for _ in file) + 1, len(tail), last)
