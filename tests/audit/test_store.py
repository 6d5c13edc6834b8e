"""Tables on the disk are what they were, in one piece if they are small."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.spark import store as store_module
from bussrv.audit.spark.store import Store


def pieces(table: DataFrame) -> int:
    return table.select(F.spark_partition_id()).distinct().count()


@pytest.mark.parametrize(("small", "expected"), [(8 << 20, 1), (-1, 2)])
def test_a_small_table_is_one_partition(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, expected: int
) -> None:
    monkeypatch.setattr(store_module, "SMALL", small)
    kept = Store(spark, tmp_path).keep(
        "numbers", spark.range(0, 10, 1, 2).withColumn("half", F.col("id") % 2), ["half"]
    )
    assert pieces(kept) == expected
    assert sorted((row["id"], row["half"]) for row in kept.collect()) == [(each, each % 2) for each in range(10)]
