"""The tables of an audit in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bussrv.audit.sql.activity import NAMES
from bussrv.audit.sql.recipes import RECIPES, recipe
from bussrv.audit.tables.kinds import PARTITIONED

_MOMENTS = frozenset(
    {"first_moment", "last_moment", "opened", "closed", "moment", "first_registered", "last_registered", "begin",
     "end", "added", "renewed", "expired"}
)  # fmt: skip
_MOMENT, _DATE = pa.timestamp("us", tz="UTC"), pa.date32()

_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FILE = "part-0.parquet"

_MACROS = (
    "CREATE MACRO names_of(x) AS coalesce(list_sort(list(DISTINCT x) FILTER (WHERE x IS NOT NULL)), []::VARCHAR[])",
)


class Database:
    """Tables in memory. Times in them are UTC microseconds since 1970.

    :param directory: where DuckDB may put what does not fit into memory.
    """

    def __init__(self, directory: Path) -> None:
        self._connection = duckdb.connect(config={"temp_directory": str(directory)})
        for macro in _MACROS:
            self._connection.execute(macro)

    def add(self, name: str, table: pa.Table) -> None:
        """A table that was made elsewhere."""
        self._connection.register(name, table)

    def make(self, since: int | None, until: int | None) -> None:
        """Make every table from facts.

        :param since, until: the period, UTC microseconds.
        """
        for name in RECIPES:
            self._connection.execute(f"CREATE TABLE {name} AS {_plain(recipe(name, since, until))}")

    def collect(self, queries: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """The rows of each query, in which ``@name`` is a table."""
        for query in queries:
            yield self._connection.sql(_plain(query)).to_arrow_table().to_pylist()

    def write(self, name: str, place: Path) -> None:
        """Write a table as Parquet, into a directory of its name."""
        write_table(as_published(self._connection.sql(f"SELECT * FROM {name}").to_arrow_table()), place / name)

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()


def _plain(query: str) -> str:
    """A query in which tables have their plain names."""
    return query.replace("@", "")


def as_published(table: pa.Table) -> pa.Table:
    """A table with the names and the types that readers know: times and dates instead of numbers."""
    fields = [_published(NAMES.get(each.name, each.name), each.type) for each in table.schema]
    return table.rename_columns([each.name for each in fields]).cast(pa.schema(fields))


def _published(name: str, kind: pa.DataType) -> pa.Field:
    if name in _MOMENTS:
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
