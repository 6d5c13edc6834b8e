"""Tables on the disk: those that an audit is made of, and those that it is about to publish."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

_PATTERN_CHARACTER = re.compile(r"[\\\[\]{}*?]")


class Store:
    """Keeps each table as Parquet in a directory of its name.

    Unlike a cached table it needs no memory, and what is made from it is planned as if the table had come from nowhere:
    planning is most of the work of a small audit.

    :param place: the directory for all of them.
    """

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._place = place

    def keep(self, name: str, table: DataFrame) -> DataFrame:
        """Compute a table once.

        :returns: the same table, read from the disk.
        """
        path = self._place / name
        table.write.parquet(f"file://{path}")
        # Spark writes to a path, but reads from wherever it matches as a pattern.
        pattern = _PATTERN_CHARACTER.sub(r"\\\g<0>", str(path))
        return self._spark.read.schema(table.schema).parquet(f"file://{pattern}")
