"""One Spark session for all tests, and the tables that an audit left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.session import spark_session

Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", quick_start=True) as session:
        yield session


@pytest.fixture(scope="session")
def read_table(spark: SparkSession) -> Callable[[Path, str], Rows]:
    """``read_table(out, name)``: its rows, timestamps as UTC microseconds."""

    def read(out: Path, name: str) -> Rows:
        pattern = str(out / "tables" / name).replace("[", "\\[").replace("]", "\\]")
        table = spark.read.parquet(pattern)
        columns = [
            F.unix_micros(column).alias(column) if kind == "timestamp" else F.col(column)
            for column, kind in table.dtypes
        ]
        return [row.asDict() for row in table.select(*columns).collect()]

    return read
