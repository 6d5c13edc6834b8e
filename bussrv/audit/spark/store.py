"""Tables kept on disk, and options of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Keep = Callable[[str, DataFrame], DataFrame]
"""Takes the name of a table and the table. Returns the same table, computed."""

_PATTERN_CHARACTER = re.compile(r"[\\\[\]{}*?]")

# Nearly all values of these columns are distinct. Parquet gives up a dictionary of them, after a third of the time that
# writing takes.
_WITHOUT_DICTIONARY = ("session", "routing_id", "peer", "seq", "mono", "moment", "position", "link", "back")


SMALL = 8 << 20
"""Tables up to this size, in bytes, are one partition."""


class Store:
    """Keeps each table as Parquet in a directory of its name.

    Unlike a cached table it needs no memory, and queries of it are planned without its history. Planning is most of the
    work of a small audit.

    :param place: the directory of all tables.
    """

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._place = place

    def keep(self, name: str, table: DataFrame, partitioned_by: Sequence[str] = ()) -> DataFrame:
        """Compute a table once.

        :param partitioned_by: columns that get a directory for each of their values.
        :returns: the same table, read from disk.
        """
        path = self._place / name
        write_parquet(table, path, partitioned_by)
        kept = self._spark.read.schema(table.schema).parquet(f"file://{literal(str(path))}")
        return kept.coalesce(1) if _size_of(path) <= SMALL else kept


def write_parquet(table: DataFrame, path: Path, partitioned_by: Sequence[str] = ()) -> None:
    """Write a table to a directory, and replace its content."""
    writer = table.write.mode("overwrite").partitionBy(*partitioned_by)
    for column in _WITHOUT_DICTIONARY:
        writer = writer.option(f"parquet.enable.dictionary#{column}", False)
    writer.parquet(f"file://{path}")


def _size_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*.parquet"))


def literal(path: str) -> str:
    """A path for Spark to read, escaped: it reads patterns, but writes plain paths."""
    return _PATTERN_CHARACTER.sub(r"\\\g<0>", path)


@contextmanager
def set_for(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set options of a session for a while."""
    before: dict[str, Any] = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
