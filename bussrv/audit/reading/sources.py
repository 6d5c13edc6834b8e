"""The journals of an audit: directories on this machine, or at URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bussrv.audit.fold.stored import is_stored
from bussrv.audit.reading.remote import RemoteDirectory, StoredDirectory, take_remote
from bussrv.audit.reading.snapshot import JournalSnapshot, segments_of, take_journal
from bussrv.errors import JournalError
from bussrv.journal.evidence.witnesses import Others
from bussrv.journal.keys import PublicKey

HANDED_OUT = 16 << 30
"""Up to this size, in bytes, a Spark that starts quickly is faster: of smaller journals it only hands out the stripes;
of larger ones it may make the tables.
"""


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


def are_small(locations: Sequence[str]) -> bool:
    """Whether a Spark that starts quickly reads these journals faster.

    :raises JournalError: as :func:`size_of`.
    """
    size = size_of(locations)
    return size is not None and size <= HANDED_OUT


def only_spark(url: str) -> RemoteDirectory:
    """The reader of a journal at a URL that is in no object store, if there is no Spark.

    :raises JournalError: always.
    """
    raise JournalError(f"{url}: --engine embedded reads directories and s3:// only: use --engine spark")


@contextmanager
def take_snapshot(
    locations: Sequence[str],
    directory: Callable[[str], RemoteDirectory] = only_spark,
    *,
    trusted: PublicKey | None = None,
    since: int | None = None,
    until: int | None = None,
    parent: Path | None = None,
    index_of: Callable[[str], int] | None = None,
    others: Others | None = None,
) -> Iterator[JournalSnapshot]:
    """A snapshot of journals, removed afterwards. A journal that is named twice is taken once.

    :param directory: reads a journal at a URL that is in no object store.
    :param trusted: the key that the seals must be traceable to.
    :param since, until: UTC microseconds. Segments entirely before or after this period are left out.
    :param parent: the directory of the snapshot. If Spark runs on several machines, all of them must see it.
    :param index_of: the index of a journal. ``None``: journals are counted.
    :param others: what others know of the journals.
    :raises JournalError: if one of them is no journal, holds no record, or cannot be read.
    """
    with TemporaryDirectory(prefix="bussrv-audit-", dir=parent) as name:
        root, journals = Path(name), []
        distinct = dict.fromkeys(each if is_url(each) else str(Path(each).resolve()) for each in locations)
        for place, location in enumerate(distinct):
            index = place if index_of is None else index_of(location)
            if is_url(location):
                there = StoredDirectory(location) if is_stored(location) else directory(location)
                journals.append(take_remote(there, location, index, root, trusted))
            else:
                journals.append(take_journal(Path(location), index, root, trusted, since, until))
        yield JournalSnapshot(tuple(journals), root, others)
