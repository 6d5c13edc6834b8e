"""Tables on disk, and options of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_PATTERN_CHARACTER = re.compile(r"[\\\[\]{}*?]")

# Nearly all values of these columns are distinct. Parquet gives up a dictionary of them, after a third of the time that
# writing takes.
_WITHOUT_DICTIONARY = ("session", "routing_id", "peer", "seq", "mono", "moment", "position", "link", "back")


def write_parquet(table: DataFrame, path: Path, partitioned_by: Sequence[str] = ()) -> None:
    """Write a table to a directory, and replace its content."""
    writer = table.write.mode("overwrite").partitionBy(*partitioned_by)
    for column in _WITHOUT_DICTIONARY:
        writer = writer.option(f"parquet.enable.dictionary#{column}", False)
    writer.parquet(f"file://{path}")


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
