"""What is audited: the segments of journals as they are at one moment. No Spark here.

The last segment of a journal may belong to a running server, so a copy of it is audited, up to its last newline. The
other segments never change any more and are linked to, unless an unfinished record has to be left out of them too. All
are put in one directory, where Spark finds them under names that it cannot misread::

    0/00000000000000000001.jsonl.gz    the first journal
    0/00000000000000000813.jsonl
    1/00000000000000000001.jsonl       the second one

A running server may compress or remove a segment that is linked to; :meth:`Snapshot.check` tells.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.segment import digest_of, first_seq, is_compressed, list_segments, torn_tail


@dataclass(frozen=True)
class Segment:
    """A segment of a journal.

    :ivar path: where it is.
    :ivar taken: its name in the snapshot.
    :ivar number: the number in its name.
    :ivar bytes: its size, before it was compressed.
    :ivar digest: the SHA-256 of these bytes; ``None`` if it may still grow, or is unreadable.
    :ivar unreadable: why it cannot be decompressed. It is not in the snapshot then.
    """

    path: Path
    taken: str
    number: int
    bytes: int
    digest: str | None = None
    unreadable: str | None = None


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
    :ivar segments: their segments, those of a journal in order.
    :ivar torn_tails: what was left out.
    """

    root: Path
    journals: tuple[Path, ...]
    segments: tuple[Segment, ...]
    torn_tails: tuple[TornTail, ...]

    @property
    def size(self) -> int:
        """How large the segments are together, in bytes, before they were compressed."""
        return sum(segment.bytes for segment in self.segments)

    def check(self) -> None:
        """See that everything is still there; to be asked when all of it was read.

        :raises JournalError: names what is not.
        """
        for segment in self.segments:
            if segment.unreadable is None and not (self.root / segment.taken).exists():
                raise JournalError(
                    f"{segment.path} went away while it was read, for the server compressed or removed it: try again"
                )


@contextmanager
def take_snapshot(journals: Sequence[Path]) -> Iterator[Snapshot]:
    """A snapshot of journal directories; it is gone afterwards. A directory that is named twice is taken once.

    Every byte is read for it once.

    :raises JournalError: if one of them is no journal, holds no record, or cannot be read.
    """
    directories = tuple(dict.fromkeys(path.resolve() for path in journals))
    with tempfile.TemporaryDirectory(prefix="bussrv-audit-") as scratch:
        root = Path(scratch)
        segments: list[Segment] = []
        torn_tails: list[TornTail] = []
        for index, directory in enumerate(directories):
            (root / str(index)).mkdir()
            paths = list_segments(directory)
            try:
                taken = [_take(path, root, f"{index}/{path.name}", last=path == paths[-1]) for path in paths]
                for segment in taken:
                    torn_tails += _cut_torn_tail(segment, root / segment.taken, last=segment is taken[-1])
                if not any(segment.unreadable or (root / segment.taken).stat().st_size for segment in taken):
                    raise JournalError(f"{directory} holds no journal records")
            except OSError as error:
                raise JournalError(f"cannot read the segment {error.filename}: {error.strerror}") from error
            segments += taken
        yield Snapshot(root, directories, tuple(segments), tuple(torn_tails))


def _take(path: Path, root: Path, taken: str, last: bool) -> Segment:
    """Put a segment into the snapshot."""
    number = first_seq(path)
    if last and not is_compressed(path):
        size = Path(shutil.copyfile(path, root / taken)).stat().st_size
        return Segment(path, taken, number, size)
    try:
        size, digest = digest_of(path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return Segment(path, taken, number, 0, unreadable=str(error))
    (root / taken).symlink_to(path)
    return Segment(path, taken, number, size, digest)


def _cut_torn_tail(segment: Segment, taken: Path, last: bool) -> Iterator[TornTail]:
    """Leave the unfinished record that a segment may end in out of the snapshot."""
    tail = b"" if is_compressed(taken) else torn_tail(taken)
    if not tail:
        return
    if taken.is_symlink():
        taken.unlink()
        shutil.copyfile(segment.path, taken)
    os.truncate(taken, taken.stat().st_size - len(tail))
    with taken.open("rb") as file:
        yield TornTail(segment.path, sum(1 for _ in file) + 1, len(tail), last)
