"""The journals that an audit is told of: directories of this machine, or URLs of what Spark can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bussrv.audit.reading.snapshot import Journal, Snapshot, scratch, segments_of, take_journal
from bussrv.errors import JournalError
from bussrv.journal.keys import PublicKey
from bussrv.journal.reading import read_header, read_segments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL = 256 << 20
"""Journals up to this size, in bytes, are read in less time by a Spark that starts quickly."""


def is_url(location: str) -> bool:
    """Whether a journal is named by a URL, and so not in a directory of this machine."""
    return "://" in location


def size_of(locations: Sequence[str]) -> int | None:
    """How large journals are together, in bytes, as they are stored; ``None`` if some are not on this machine.

    :raises JournalError: if one of them is no journal, or holds no segment.
    """
    size = 0
    for location in locations:
        if not is_url(location):
            size += sum(path.stat().st_size for path in segments_of(Path(location)))
    return None if any(map(is_url, locations)) else size


def are_small(locations: Sequence[str]) -> bool:
    """Whether a Spark that starts quickly is done with journals in less time.

    :raises JournalError: as :func:`size_of`.
    """
    size = size_of(locations)
    return size is not None and size <= SMALL


@contextmanager
def take_snapshot(
    spark: SparkSession,
    locations: Sequence[str],
    *,
    trusted: PublicKey | None = None,
    since: int | None = None,
    until: int | None = None,
    parent: Path | None = None,
    index_of: Callable[[str], int] | None = None,
) -> Iterator[Snapshot]:
    """A snapshot of journals; it is gone afterwards. A journal that is named twice is taken once.

    :param trusted: the key that seals have to be led back to.
    :param since, until: UTC microseconds; segments of which all is before or behind them are left out.
    :param parent: where to put the snapshot; with Spark on several machines, a directory that all of them see.
    :param index_of: the index of a journal; ``None``: they are counted.
    :raises JournalError: if one of them is no journal, holds no record, or cannot be read.
    """
    from bussrv.audit.reading.remote import take_remote

    def choice(paths: Sequence[Path]) -> Sequence[Path]:
        return choose(paths, since, until)

    with scratch(parent) as root:
        journals: list[Journal] = []
        for place, location in enumerate(_distinct(locations)):
            index = place if index_of is None else index_of(location)
            if is_url(location):
                journals.append(take_remote(spark, location, index, root, trusted))
            else:
                journals.append(take_journal(Path(location), index, root, trusted, choice))
        yield Snapshot(tuple(journals), root)


def _distinct(locations: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(each if is_url(each) else str(Path(each).resolve()) for each in locations))


def choose(paths: Sequence[Path], since: int | None, until: int | None) -> Sequence[Path]:
    """Those of the segments of a journal that may hold something of a period, by when they were begun.

    Each holds what the registry was before it, so nothing before the one in which the period begins is needed.

    :raises JournalError: if all of them were begun behind it.
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
    """Whether a segment was begun, or holds a record, from before a moment; also if that cannot be told."""
    try:
        if read_header(path).time < moment:
            return True
        # Records wait until they are written, and so may be older than the segment that was made for them.
        first = next(read_segments([path]), None)
    except JournalError:
        return True
    return first is not None and first.time < moment
