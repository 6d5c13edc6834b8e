"""The tables of an audit, made of very large facts: by Spark, with the SQL by which DuckDB makes those of others."""

from __future__ import annotations

import re
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.fold.stripe import Period
from bussrv.audit.output import MOMENTS, PARTITIONED, PUBLISHED, UNKNOWN
from bussrv.audit.spark.store import literal, set_for, write_parquet
from bussrv.audit.sql.activity import IN_SQL, NAMES
from bussrv.audit.sql.tables import FROM_FACTS, RECIPES, recipe

LARGEST = 1 << 30
"""The largest facts, in bytes, that are left to DuckDB: those of about 40 million events. It needs no more memory for
larger ones, but one machine then takes minutes."""

LARGEST_ON_CLUSTER = 64 << 20
"""The same if Spark runs on a cluster. This process may then have little memory, and a disk that only it sees."""

AT_ONCE = 4
"""The most tables made at the same time. For small ones, planning takes longest."""

PARTITION = 32 << 20
"""About how many bytes of facts a task reads."""

SMALL = PARTITION
"""Facts up to this size, in bytes, are one partition, so that no query about them has an exchange."""

_READ_BACK = frozenset({"boots", "servers"})
"""The published tables of which others are made. They are read from disk then, and not made again."""

_SHARED = {
    "numbered": (),
    "counted": (),
    "extents": ("number",),
    "spans": ("number",),
    "covers": ("number",),
    "provided": (),
    "held": (),
    "up": (),
    "known": (),
}
"""The other tables of which several are made. They are kept in memory, or on disk; those with the name of a column are
partitioned by it, and so is what is made of them."""

_SMALLEST = frozenset({"numbered", "counted", "held", "up", "known"})
"""Those of them that are made at once. Spark then knows how small they are, and gives each task a copy to join with."""

_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.bool_(): "boolean"}

_TABLE = re.compile(r"@(\w+)")
_NAMES_OF = re.compile(r"names_of\((\w+)\)")


def are_large(facts: Path, largest: int) -> bool:
    """Whether Spark makes tables of these facts, and not DuckDB.

    :param largest: ``LARGEST`` or ``LARGEST_ON_CLUSTER``.
    """
    return _size_of(facts) > largest


def make_tables(spark: SparkSession, facts: Path, place: Path, period: Period) -> None:
    """Write every table that is published, as Parquet, into directories of their names.

    :param facts: the directory of :mod:`bussrv.audit.reading.stripes`.
    """
    settings = {
        # Few and known stages: planning anew after each of them takes longer than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(max(2, -(-_size_of(facts) // PARTITION))),
        "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false",
        # Not the deprecated type, which has no time zone for others that read it.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
    with set_for(spark, settings):
        _Making(spark, facts, place, period).make()


class _Making:
    def __init__(self, spark: SparkSession, facts: Path, place: Path, period: Period) -> None:
        self._spark = spark
        self._facts = facts
        self._place = place
        self._period = period
        self._prefix = f"bussrv_{uuid4().hex}_"
        self._shared: list[DataFrame] = []

    def make(self) -> None:
        ready: dict[str, Future[None]] = {}

        def make(name: str) -> None:
            query = recipe(name, self._period)
            for other in _TABLE.findall(query):
                if other in ready:
                    ready[other].result()
            self._make(name, query)

        try:
            for name in FROM_FACTS:
                self._name(name, self._fact(name.removeprefix("fact_")))
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for name in RECIPES:
                    ready[name] = pool.submit(make, name)
                ready["segments"] = pool.submit(self._publish, "segments", self._spark.table(f"{self._prefix}segments"))
            for each in ready.values():
                each.result()
        finally:
            for table in self._shared:
                table.unpersist()
            for name in (*FROM_FACTS, *RECIPES):
                self._spark.catalog.dropTempView(self._prefix + name)

    def _fact(self, name: str) -> DataFrame:
        with (self._facts / "here" / f"{name}.parquet").open("rb") as file:
            schema = pq.read_schema(file)
        columns = ", ".join(f"{field.name} {_TYPES.get(field.type, 'array<string>')}" for field in schema)
        table = self._spark.read.schema(columns).parquet(f"file://{literal(str(self._facts))}/*/{name}.parquet")
        return table.coalesce(1) if _size_of(self._facts, name) <= SMALL else table

    def _name(self, name: str, table: DataFrame) -> None:
        table.createOrReplaceTempView(self._prefix + name)

    def _make(self, name: str, query: str) -> None:
        text = _NAMES_OF.sub(r"array_sort(collect_set(\1))", _TABLE.sub(rf"{self._prefix}\1", query))
        table = self._spark.sql(text)
        if name in _SHARED:
            if _SHARED[name]:
                table = table.repartition(*_SHARED[name])
            table = table.persist()
            self._shared.append(table)
            if name in _SMALLEST:
                table.count()
        if name in PUBLISHED:
            self._publish(name, table)
        if name in _READ_BACK:
            published = self._spark.read.parquet(f"file://{literal(str(self._place / name))}").coalesce(1)
            table = published.select(*[_in_sql(column, kind) for column, kind in published.dtypes])
        self._name(name, table)

    def _publish(self, name: str, table: DataFrame) -> None:
        partitioned = PARTITIONED if "date" in table.columns else ()
        published = table.select(*[_published(column, column in partitioned) for column in table.columns])
        place = self._place / name
        write_parquet(published, place, partitioned)
        if not any(place.rglob("*.parquet")):
            write_parquet(published, place)


def _size_of(facts: Path, name: str = "*") -> int:
    return sum(each.stat().st_size for each in facts.glob(f"*/{name}.parquet"))


def _published(name: str, is_partition: bool) -> Column:
    """A column as readers know it: with its own name, and times and dates instead of numbers."""
    known_as, column = NAMES.get(name, name), F.col(name)
    if known_as in MOMENTS:
        column = F.timestamp_micros(column)
    elif known_as == "date":
        column = F.date_from_unix_date(column)
    elif is_partition:
        column = F.coalesce(column, F.lit(UNKNOWN))
    return column.alias(known_as)


def _in_sql(name: str, kind: str) -> Column:
    column = F.unix_micros(name) if kind == "timestamp" else F.col(f"`{name}`")
    return column.alias(IN_SQL.get(name, name))
