"""What a replay looks at: the records of journals, in a Spark session of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bussrv.audit.sources import size_of, take_snapshot
from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bussrv.audit.store import Store

SMALL = 256 << 20
"""Journals up to this size, in bytes, are replayed in less time by a Spark that starts quickly."""


class ReplayFailed(BussrvError):
    """There is no answer. The message says why."""


@dataclass(frozen=True)
class Past:
    """Records of journals.

    :ivar records: with the columns of :data:`bussrv.audit.timeline.LOOKED_AT`.
    :ivar store: keeps what is computed from them, as long as this is there.
    """

    records: DataFrame
    store: Store


@contextmanager
def open_past(locations: Sequence[str], until: int | None = None) -> Iterator[Past]:
    """The records of journals; gone afterwards.

    :param locations: directories of one or more journals, of running servers too, or URLs of what Spark can read.
    :param until: UTC microseconds since 1970: segments that were begun later are not looked at.
    :raises ReplayFailed: if Spark is not there, or fails.
    :raises bussrv.errors.JournalError: if one of ``locations`` is no journal, or cannot be read.
    """
    size = size_of(locations)
    try:
        from bussrv.audit.session import spark_session
    except ImportError as error:
        raise ReplayFailed(f"a replay needs PySpark ({error}): pip install 'bussrv[audit]'") from error
    with (
        spark_session(quick_start=size is not None and size <= SMALL) as spark,
        TemporaryDirectory(prefix="bussrv-replay-") as place,
    ):
        try:
            yield _load(spark, locations, until, Path(place))
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in {"pyspark", "py4j"}:
                raise
            first_line = str(error).strip().partition("\n")[0]
            raise ReplayFailed(f"Spark failed: {first_line}") from error


def _load(spark: SparkSession, locations: Sequence[str], until: int | None, place: Path) -> Past:
    """Read records into a table.

    All segments up to ``until`` are read: what a registry was before a segment is no part of the records yet.
    """
    from bussrv.audit.load import lines_of, records_of
    from bussrv.audit.segments import read_text
    from bussrv.audit.store import Store
    from bussrv.audit.timeline import LOOKED_AT

    store = Store(spark, place)
    with take_snapshot(spark, locations, until=None if until is None else until + 1) as snapshot:
        try:
            records = store.keep("records", records_of(lines_of(read_text(spark, snapshot))).select(*LOOKED_AT))
        finally:
            snapshot.check()
    return Past(records, store)
