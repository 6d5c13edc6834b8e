"""Small tables that were made without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by


def small_table(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
    """A table of some thousand rows at the most.

    It becomes a part of the plan, as JSON; ``createDataFrame`` would start a process of Python for it.

    :param rows: strings, numbers, booleans, lists of these, and times in UTC, in the order of the columns.
    """
    names = [column.split()[0] for column in schema.split(", ")]
    text = msgspec.json.encode([dict(zip(names, row, strict=True)) for row in rows]).decode()
    table = F.from_json(F.lit(text), f"array<struct<{', '.join(_field(column) for column in schema.split(', '))}>>")
    return spark.range(1, numPartitions=1).select(F.inline(table))


def _field(column: str) -> str:
    name, kind = column.split()
    return f"{name}: {kind}"
