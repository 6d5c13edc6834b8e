"""The records that a timeline is made of, in a Spark session of its own. Importing this does not import Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bussrv.audit.reading.sources import are_small, take_snapshot
from bussrv.audit.spark.failure import INSTALL, as_failure
from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

    from bussrv.audit.fold.lines import FoldLine
    from bussrv.audit.fold.segments import SegmentSource as Segment
    from bussrv.audit.spark.store import Store

_TEXTS = (
    *("server", "boot", "event", "outcome", "protocol", "session", "routing_id", "actor", "claimed", "peer", "method"),
    *("service", "reason", "limit", "action", "target", "rule", "name", "role", "home", "version", "message"),
)
_NUMBERS = (
    *("seq", "mono", "suppressed", "value", "duration", "objects_in", "objects_out", "bytes_in", "bytes_out"),
    *("sessions_closed", "until", "expiry"),
)
_COLUMNS = ", ".join(
    (
        *(f"{name} string" for name in (*_TEXTS, "interest", "address")),
        *(f"{name} bigint" for name in (*_NUMBERS, "moment")),
        *("persistent boolean", "routing_ids array<string>", "given boolean"),
    )
)

_TOGETHER = 10_000
"""The most records in one batch."""


class TimelineFailed(BussrvError):
    """There is no timeline. The message says why."""


@dataclass(frozen=True)
class TimelineRecords:
    """The records of journals.

    :ivar records: with the columns :data:`bussrv.audit.timeline.query.NEEDED`.
    :ivar store: keeps tables computed from them.
    """

    records: DataFrame
    store: Store


@contextmanager
def open_source(locations: Sequence[str]) -> Iterator[TimelineRecords]:
    """Read the records of journals. They are removed afterwards; the journals stay as they are.

    :param locations: directories of one or more journals, also of running servers, or URLs that Spark can read.
    :raises TimelineFailed: if Spark is missing or fails.
    :raises bussrv.errors.JournalError: if one of ``locations`` is no journal or cannot be read.
    """
    quick_start = are_small(locations)
    try:
        from bussrv.audit.spark.session import spark_session
    except ImportError as error:
        raise TimelineFailed(f"a timeline needs PySpark ({error}): {INSTALL}") from error
    with (
        as_failure(TimelineFailed),
        spark_session(quick_start=quick_start) as spark,
        TemporaryDirectory(prefix="bussrv-timeline-") as place,
    ):
        yield load(spark, locations, Path(place))


def load(spark: SparkSession, locations: Sequence[str], place: Path) -> TimelineRecords:
    """Read the records of journals.

    :param place: a directory for them.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

    from bussrv.audit.reading.stripes import first_segments, sources_of
    from bussrv.audit.spark.store import Store
    from bussrv.audit.spark.workers import SparkWorkers, one_by_one

    store, workers = Store(spark, place), SparkWorkers(spark, place)
    with take_snapshot(locations, workers.directory) as snapshot:
        journals = sources_of(snapshot)
        first = first_segments(journals)
        units = [(each, (each, each.taken in first)) for journal in journals for each in journal]
        try:
            with one_by_one(spark):
                tables = workers.frames(units, _records, _COLUMNS)
                records = reduce(DataFrame.unionByName, tables)
                kept = store.keep("records", records.withColumn("moment", F.timestamp_micros("moment")))
        finally:
            snapshot.check()
    return TimelineRecords(kept, store)


def _records(unit: tuple[Segment, bool], stored: Mapping[str, bytes]) -> Iterator[RecordBatch]:
    """The records of a segment, after its baseline if it is the first one of its server. Runs where executors are."""
    from bussrv.audit.fold.baseline import baseline
    from bussrv.audit.fold.lines import read_lines
    from bussrv.audit.fold.segments import content_of
    from bussrv.journal.segment import CORRUPT

    source, is_first = unit
    try:
        content = content_of(source, stored.get(source.path))
    except CORRUPT:
        return
    read = read_lines(content, source.number, is_chained=True)
    if is_first and read.header is not None:
        yield batch_of(baseline(read.parts, read.header.server, source.number), True)
    rows = [*zip(read.records, read.moments.tolist(), strict=True)]
    for begin in range(0, len(rows), _TOGETHER):
        yield batch_of(rows[begin : begin + _TOGETHER], False)


def batch_of(rows: Sequence[tuple[FoldLine, int]], is_given: bool) -> RecordBatch:
    """Records with their times.

    :param is_given: whether they are a baseline.
    """
    import msgspec
    import pyarrow as pa

    from bussrv.incidents.vocabulary import address_of

    records = [record for record, _ in rows]
    interests = [each.interest and msgspec.json.encode(each.interest).decode() for each in records]
    columns: dict[str, Any] = {
        name: pa.array([getattr(each, name) for each in records], pa.string()) for name in _TEXTS
    }
    columns["interest"] = pa.array(interests, pa.string())
    columns["address"] = pa.array([address_of(each.peer) for each in records], pa.string())
    columns |= {name: pa.array([getattr(each, name) for each in records], pa.int64()) for name in _NUMBERS}
    columns["moment"] = pa.array([moment for _, moment in rows], pa.int64())
    columns["persistent"] = pa.array([each.persistent for each in records], pa.bool_())
    columns["routing_ids"] = pa.array([each.routing_ids for each in records], pa.list_(pa.string()))
    columns["given"] = pa.array([is_given] * len(rows), pa.bool_())
    return pa.RecordBatch.from_pydict(columns)
