"""Queries of a report, answered by Spark.

For small tables Spark needs longer to plan and start a query than to answer it. So one query asks for the rows of many.
They return as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from typing import Any
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.sql.activity import NAMES

AT_ONCE = 2
"""The most queries at the same time."""

TOGETHER = 16
"""The most rows of questions in one query. Spark plans the rest of a query anew after each of its stages."""

_TABLE = re.compile(r"@(\w+)")
_NAMES_OF = re.compile(r"names_of\((\w+)\)")
_IN_SQL = {name: in_sql for in_sql, name in NAMES.items()}


class Queries:
    """Tables that SQL can name, made by :func:`queries`."""

    def __init__(self, spark: SparkSession, prefix: str) -> None:
        self._spark = spark
        self._prefix = prefix

    def table(self, query: str) -> DataFrame:
        """The rows of a query, not computed yet."""
        text = _NAMES_OF.sub(r"array_sort(collect_set(\1))", _TABLE.sub(rf"{self._prefix}\1", query))
        return self._spark.sql(text)

    def collect(self, queries: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """The rows of each query."""
        tables = [self.table(query) for query in queries]
        begins = range(0, len(tables), TOGETHER)
        with ThreadPoolExecutor(AT_ONCE) as asking:
            for rows in asking.map(_collected, [tables[begin : begin + TOGETHER] for begin in begins]):
                yield from rows


def _collected(tables: Sequence[DataFrame]) -> list[list[dict[str, Any]]]:
    every = F.struct("*")
    parts = [
        table.select(F.lit(number).alias("asked"), F.to_json(every, {"ignoreNullFields": "false"}).alias("row"))
        for number, table in enumerate(tables)
    ]
    found: list[list[dict[str, Any]]] = [[] for _ in tables]
    # One task collects all partitions, in any order. A table with a limit is one partition, so it keeps its order.
    for asked, row in reduce(DataFrame.unionAll, parts).coalesce(1).collect():
        found[asked].append(msgspec.json.decode(row))
    return found


@contextmanager
def queries(spark: SparkSession, tables: Mapping[str, DataFrame]) -> Iterator[Queries]:
    """Let SQL name the tables of an audit. Other tables of the session stay as they are.

    :param tables: by name. Their times become numbers, and their columns have the names of SQL.
    """
    prefix = f"bussrv_{uuid4().hex}_"
    try:
        for name, table in tables.items():
            table.select(*[_column(column, kind) for column, kind in table.dtypes]).createOrReplaceTempView(
                prefix + name
            )
        yield Queries(spark, prefix)
    finally:
        for name in tables:
            spark.catalog.dropTempView(prefix + name)


def _column(name: str, kind: str) -> Any:
    column = F.unix_micros(name) if kind == "timestamp" else F.col(f"`{name}`")
    return column.alias(_IN_SQL.get(name, name))
