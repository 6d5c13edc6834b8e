"""The tables of an audit, made by DuckDB and written as Parquet."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from bussrv.audit.database import Database, literal
from bussrv.audit.output import MOMENTS, PARTITIONED, PUBLISHED
from bussrv.audit.sql.activity import NAMES
from bussrv.audit.sql.recipes import FROM_FACTS, RECIPES, recipe

_MOMENT, _DATE = pa.timestamp("us", tz="UTC"), pa.date32()

_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FILE = "part-0.parquet"


def make_tables(facts: Path, place: Path, since: int | None, until: int | None) -> None:
    """Write every table that is published into directories of their names.

    :param facts: the directory of :mod:`bussrv.audit.reading.gather`.
    :param since, until: the period, UTC microseconds.
    """
    with closing(Database(place / "scratch")) as database:
        for name in FROM_FACTS:
            database.add_files(name, f"{literal(str(facts))}/*/{name.removeprefix('fact_')}.parquet")
        for name in RECIPES:
            database.make(name, recipe(name, since, until))
        for name in PUBLISHED:
            write_table(as_published(database.table(name)), place / name)


def as_published(table: pa.Table) -> pa.Table:
    """A table with the names and the types that readers know: times and dates instead of numbers."""
    fields = [_published(NAMES.get(each.name, each.name), each.type) for each in table.schema]
    return table.rename_columns([each.name for each in fields]).cast(pa.schema(fields))


def _published(name: str, kind: pa.DataType) -> pa.Field:
    if name in MOMENTS:
        return pa.field(name, _MOMENT)
    return pa.field(name, _DATE if name == "date" else kind)


def write_table(table: pa.Table, directory: Path) -> None:
    """Write a table to a new directory, with a directory for each value of ``PARTITIONED`` if it has these columns."""
    directory.mkdir()
    if "date" not in table.column_names or not table.num_rows:
        pq.write_table(table, directory / _FILE)
        return
    in_order = table.sort_by([(name, "ascending") for name in PARTITIONED])
    values = [in_order.column(name).to_pylist() for name in PARTITIONED]
    rest, begin = in_order.drop_columns([*PARTITIONED]), 0
    for partition, rows in groupby(zip(*values, strict=True)):
        place = directory.joinpath(*map(_partition, PARTITIONED, partition))
        place.mkdir(parents=True)
        size = sum(1 for _ in rows)
        pq.write_table(rest.slice(begin, size), place / _FILE)
        begin += size


def _partition(name: str, value: object) -> str:
    return f"{name}={_NO_PARTITION if value is None else quote(str(value), safe='')}"
