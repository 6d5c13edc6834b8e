"""What a replay looks at: the records of journals, in a Spark session of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bussrv.audit.failure import as_failure
from bussrv.audit.reading.snapshot import segments_of
from bussrv.audit.reading.sources import are_small, is_url, take_snapshot
from bussrv.errors import BussrvError
from bussrv.journal.moments import END, Moment
from bussrv.journal.reading import read_header
from bussrv.journal.record import format_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bussrv.audit.store import Store


class ReplayFailed(BussrvError):
    """There is no answer. The message says why."""


@dataclass(frozen=True)
class Past:
    """Records of journals.

    :ivar records: with the columns of :data:`bussrv.audit.replay.timeline.LOOKED_AT`.
    :ivar store: keeps what is computed from them, as long as this is there.
    """

    records: DataFrame
    store: Store


def check_moment(locations: Sequence[str], moment: Moment) -> None:
    """See that journals reach back to a moment. Of those that are not on this machine, that is not known.

    :raises ReplayFailed: if one does not, or if the moment is a record, and there are several servers.
    :raises bussrv.errors.JournalError: if one of ``locations`` is no journal, or does not begin as it should.
    """
    first = {location: read_header(segments_of(Path(location))[0]) for location in locations if not is_url(location)}
    servers = {header.server for header in first.values()}
    if moment.seq is not None and len(servers) > 1:
        raise ReplayFailed(f"these are the journals of {len(servers)} servers: say a time instead of {moment}")
    for location, header in first.items():
        begins = f"the journal {location} begins with record {header.segment}, at {format_time(header.time)}"
        is_early = header.time > moment.time if moment.time is not None else header.segment - 1 > (moment.seq or 0)
        if header.segment > 1 and is_early and moment != END:
            raise ReplayFailed(f"{begins}; {moment} is before that")


@contextmanager
def open_past(locations: Sequence[str], times: Sequence[int | None] = (None,)) -> Iterator[Past]:
    """The records of journals; gone afterwards.

    :param locations: directories of one or more journals, of running servers too, or URLs of what Spark can read.
    :param times: those that are asked for, UTC microseconds since 1970: only segments that have to do with them are
        read. ``None``: all are.
    :raises ReplayFailed: if Spark is not there, or fails.
    :raises bussrv.errors.JournalError: if one of ``locations`` is no journal, or cannot be read.
    """
    quick_start = are_small(locations)
    try:
        from bussrv.audit.session import spark_session
    except ImportError as error:
        raise ReplayFailed(f"a replay needs PySpark ({error}): pip install 'bussrv[audit]'") from error
    with (
        spark_session(quick_start=quick_start) as spark,
        TemporaryDirectory(prefix="bussrv-replay-") as place,
        as_failure(ReplayFailed),
    ):
        yield _load(spark, locations, times, Path(place))


def _load(spark: SparkSession, locations: Sequence[str], times: Sequence[int | None], place: Path) -> Past:
    """Read the records, and what was there before them."""
    from bussrv.audit.progress import Progress
    from bussrv.audit.reading.ingest import ingest
    from bussrv.audit.replay.timeline import LOOKED_AT
    from bussrv.audit.store import Store

    known = [time for time in times if time is not None]
    since, until = (min(known), max(known) + 1) if len(known) == len(times) else (None, None)
    if not _are_of_different_servers(locations):
        since = None
    store = Store(spark, place)
    with take_snapshot(spark, locations, since=since, until=until) as snapshot:
        records = store.keep("records", ingest(spark, snapshot, store, Progress()).records.select(*LOOKED_AT))
    return Past(records, store)


def _are_of_different_servers(locations: Sequence[str]) -> bool:
    """Whether each journal is all that there is of its server: if not, they go on from one another."""
    if any(map(is_url, locations)):
        return False
    distinct = {Path(location).resolve() for location in locations}
    return len({read_header(segments_of(each)[0]).server for each in distinct}) == len(distinct)
