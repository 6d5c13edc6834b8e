"""Records as a DataFrame, without a journal around them, and tables as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.tables.schema import CORRUPT, RECORD_SCHEMA
from bussrv.journal import record
from bussrv.journal.record import Record

Rows = list[dict[str, Any]]


@dataclass
class Answers:
    """What Spark and a plain program say of everything, of each period."""

    found: dict[Any, Rows]
    expected: dict[Any, Rows]


_NO_FIELDS_OF_RECORDS = ("v", "prev", "time", CORRUPT)


def frame(spark: SparkSession, directory: Path, records: Sequence[Record], given: Sequence[Record] = ()) -> DataFrame:
    """The DataFrame ``records`` of the audit, in several partitions.

    :param directory: where there is room for what Spark reads.
    :param given: what the registry was before the first of ``records``.
    """
    parts = []
    for is_given, some in ((False, records), (True, given)):
        path = directory / f"given-{is_given}.json"
        path.write_bytes(b"".join(map(record.encode, some)))
        parts.append(spark.read.schema(RECORD_SCHEMA).json(str(path)).withColumn("given", F.lit(is_given)))
    together = parts[0].unionByName(parts[1]).repartition(3)
    columns = [name for name in RECORD_SCHEMA.names if name not in _NO_FIELDS_OF_RECORDS]
    return together.select(*columns, F.col("time").cast("timestamp").alias("moment"), "given")


def rows(table: DataFrame) -> Rows:
    """What is in a table; timestamps as UTC microseconds, dates as text."""
    texts: dict[str, Callable[[str], Any]] = {
        "timestamp": F.unix_micros,
        "date": lambda name: F.col(name).cast("string"),
    }
    columns = [texts.get(kind, F.col)(name).alias(name) for name, kind in table.dtypes]
    return [row.asDict() for row in table.select(*columns).collect()]


def in_order(some: Iterable[dict[str, Any]]) -> Rows:
    """Rows in an order that depends on nothing but what is in them."""
    return sorted(some, key=lambda row: [(row[name] is not None, str(row[name])) for name in sorted(row)])
