"""The records that a timeline is made of, in a Spark session of its own. Importing this does not import Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bussrv.audit.reading.sources import are_small, take_snapshot
from bussrv.audit.spark.failure import INSTALL, as_failure
from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bussrv.audit.spark.store import Store


class TimelineFailed(BussrvError):
    """There is no timeline. The message says why."""


@dataclass(frozen=True)
class Source:
    """The records of journals.

    :ivar records: with the columns :data:`bussrv.audit.timeline.query.NEEDED`.
    :ivar store: keeps tables computed from them.
    """

    records: DataFrame
    store: Store


@contextmanager
def open_source(locations: Sequence[str]) -> Iterator[Source]:
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
        spark_session(quick_start=quick_start) as spark,
        TemporaryDirectory(prefix="bussrv-timeline-") as place,
        as_failure(TimelineFailed),
    ):
        yield _load(spark, locations, Path(place))


def _load(spark: SparkSession, locations: Sequence[str], place: Path) -> Source:
    from bussrv.audit.reading.ingest import ingest
    from bussrv.audit.spark.progress import Progress
    from bussrv.audit.spark.store import Store
    from bussrv.audit.timeline.query import NEEDED

    store = Store(spark, place)
    with take_snapshot(spark, locations) as snapshot:
        records = store.keep("records", ingest(spark, snapshot, store, Progress()).records.select(*NEEDED))
    return Source(records, store)
