"""The journals of an audit: directories on this machine, or at URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bussrv.audit.fold.stored import is_stored
from bussrv.audit.reading.remote import Directory, StoredDirectory, take_remote
from bussrv.audit.reading.snapshot import Journal, Snapshot, scratch, segments_of, take_journal
from bussrv.errors import JournalError
from bussrv.journal.keys import PublicKey
from bussrv.journal.reading import read_header, read_segments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL = 256 << 20
"""Up to this size, in bytes, journals are read faster by a Spark that starts quickly."""

HANDED_OUT = 16 << 30
"""The same of an audit. Of smaller journals Spark only hands out the stripes; of larger ones it may make the tables."""


def is_url(location: str) -> bool:
    """Whether a journal is at a URL, and not in a directory on this machine."""
    return "://" in location


def size_of(locations: Sequence[str]) -> int | None:
    """The size of journals in bytes, as they are stored. ``None`` if some are not on this machine.

    :raises JournalError: if one of them is no journal, or holds no segment.
    """
    size = 0
    for location in locations:
        if not is_url(location):
            size += sum(path.stat().st_size for path in segments_of(Path(location)))
    return None if any(map(is_url, locations)) else size


def are_small(locations: Sequence[str], most: int = SMALL) -> bool:
    """Whether a Spark that starts quickly reads these journals faster.

    :param most: up to how many bytes it does.
    :raises JournalError: as :func:`size_of`.
    """
    size = size_of(locations)
    return size is not None and size <= most


@contextmanager
def take_snapshot(
    spark: SparkSession | None,
    locations: Sequence[str],
    *,
    trusted: PublicKey | None = None,
    since: int | None = None,
    until: int | None = None,
    parent: Path | None = None,
    index_of: Callable[[str], int] | None = None,
) -> Iterator[Snapshot]:
    """A snapshot of journals, removed afterwards. A journal that is named twice is taken once.

    :param spark: reads journals at URLs that are not in an object store; ``None``: there are none.
    :param trusted: the key that the seals must be traceable to.
    :param since, until: UTC microseconds. Segments entirely before or after this period are left out.
    :param parent: the directory of the snapshot. If Spark runs on several machines, all of them must see it.
    :param index_of: the index of a journal. ``None``: journals are counted.
    :raises JournalError: if one of them is no journal, holds no record, or cannot be read.
    """

    def choice(paths: Sequence[Path]) -> Sequence[Path]:
        return choose(paths, since, until)

    with scratch(parent) as root:
        journals: list[Journal] = []
        for place, location in enumerate(_distinct(locations)):
            index = place if index_of is None else index_of(location)
            if is_url(location):
                journals.append(take_remote(_directory(spark, location), location, index, root, trusted))
            else:
                journals.append(take_journal(Path(location), index, root, trusted, choice))
        yield Snapshot(tuple(journals), root)


def _directory(spark: SparkSession | None, url: str) -> Directory:
    if is_stored(url):
        return StoredDirectory(url)
    if spark is None:
        raise JournalError(f"{url}: --engine embedded reads directories and s3:// only: use --engine spark")
    from bussrv.audit.spark.crew import SparkDirectory

    return SparkDirectory(spark, url)


def _distinct(locations: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(each if is_url(each) else str(Path(each).resolve()) for each in locations))


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
