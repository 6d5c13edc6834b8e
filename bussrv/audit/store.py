"""Tables on the disk: those that an audit is made of, and those that it is about to publish."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

_PATTERN_CHARACTER = re.compile(r"[\\\[\]{}*?]")

# Nearly every value of these is another one. A dictionary of them is given up again, but takes a third of the time that
# it takes to write a table of lines.
_WITHOUT_DICTIONARY = ("session", "routing_id", "peer", "seq", "mono", "moment", "position", "link", "back")


SMALL = 8 << 20
"""Tables up to this size, in bytes, are one partition."""

_LARGER_AS_TEXT = 8
"""How many times as large as the table of their records journals are, about."""


class Store:
    """Keeps each table as Parquet in a directory of its name.

    Unlike a cached table it needs no memory, and what is made from it is planned as if the table had come from nowhere:
    planning is most of the work of a small audit.

    :param place: the directory for all of them.
    """

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._place = place

    def keep(self, name: str, table: DataFrame, partitioned_by: Sequence[str] = ()) -> DataFrame:
        """Compute a table once.

        :param partitioned_by: columns, a directory for each of whose values.
        :returns: the same table, read from the disk.
        """
        path = self._place / name
        write_parquet(table, path, partitioned_by)
        kept = self._spark.read.schema(table.schema).parquet(f"file://{literal(str(path))}")
        return kept.coalesce(1) if _size_of(path) <= SMALL else kept


def write_parquet(table: DataFrame, path: Path, partitioned_by: Sequence[str] = ()) -> None:
    """Write a table into a directory, replacing what is there."""
    writer = table.write.mode("overwrite").partitionBy(*partitioned_by)
    for column in _WITHOUT_DICTIONARY:
        writer = writer.option(f"parquet.enable.dictionary#{column}", False)
    writer.parquet(f"file://{path}")


def make_a_small_table(size: int) -> bool:
    """Whether journals are so small that the table of their records is, too.

    :param size: in bytes, before they were compressed.
    """
    return size <= _LARGER_AS_TEXT * SMALL


def _size_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*.parquet"))


def literal(path: str) -> str:
    """A path as Spark reads from it: it takes some characters for a pattern, though it does not when it writes."""
    return _PATTERN_CHARACTER.sub(r"\\\g<0>", path)
