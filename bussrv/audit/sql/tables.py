"""The tables of an audit, made of facts and written as Parquet.

DuckDB makes them in this process, whatever engine folded the journals: facts are a few megabytes of a million events,
and to plan the queries takes Spark longer than to run them takes DuckDB. Facts that are larger than ``LARGEST`` are
left to Spark, if there is one.
"""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from bussrv.audit.database import Database, literal
from bussrv.audit.output import PARTITIONED, PUBLISHED
from bussrv.audit.sql.recipes import FROM_FACTS, RECIPES, recipe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGEST = 1 << 30
"""The largest facts, in bytes, of which tables are made in this process although there is a Spark: those of about 40
million events. DuckDB needs no more memory for larger ones, but one machine then takes minutes."""

AT_ONCE = 2
"""The most tables written at the same time. DuckDB uses all processors for a large one."""

FILE = "part-0.parquet"

_NAMED = Counter(name for query in RECIPES.values() for name in re.findall(r"@(\w+)", query))


def make_tables(
    facts: Path, place: Path, since: int | None, until: int | None, spark: SparkSession | None = None
) -> None:
    """Write every table that is published, as Parquet, into directories of their names.

    :param facts: the directory of :mod:`bussrv.audit.reading.gather`.
    :param since, until: the period, UTC microseconds.
    :param spark: makes tables of large facts. ``None``: there is no Spark.
    """
    if spark is not None and size_of(facts) > LARGEST:
        from bussrv.audit.spark import tables

        tables.make_tables(spark, facts, place, since, until)
        return
    with closing(Database(place / "scratch")) as database:
        define(database, facts, since, until)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda name: _write(database, name, place / name), PUBLISHED):
                pass


def size_of(facts: Path) -> int:
    """The size of facts, in bytes."""
    return sum(each.stat().st_size for each in facts.glob("*/*.parquet"))


def define(database: Database, facts: Path, since: int | None, until: int | None) -> None:
    """Make every table known to a database. Those that several others are made of are computed now."""
    for name in FROM_FACTS:
        database.add_files(name, f"{literal(str(facts))}/*/{name.removeprefix('fact_')}.parquet")
    for name in RECIPES:
        make = database.make if _NAMED[name] > 1 else database.define
        make(name, recipe(name, since, until))


def _write(database: Database, name: str, place: Path) -> None:
    place.mkdir()
    partitioned = PARTITIONED if "date" in database.columns(name) else ()
    if partitioned:
        database.write(name, place, partitioned)
    if not any(place.iterdir()):
        database.write(name, place / FILE)
