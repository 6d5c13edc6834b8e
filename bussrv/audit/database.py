"""Tables in DuckDB: those that an audit makes of facts, and those that it wrote, asked for the report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from bussrv.audit.output import MOMENTS, PUBLISHED
from bussrv.audit.sql.activity import NAMES

MEMORY = "2GB"
"""The most memory that DuckDB takes. The rest goes to disk."""

BESIDE_WORKERS = "1250MB"
"""The most memory that it takes while there are other processes that keep theirs."""

_IN_SQL = {name: in_sql for in_sql, name in NAMES.items()}

_PATTERN_CHARACTER = re.compile(r"[\[*?]")

_MACROS = (
    "CREATE MACRO names_of(x) AS coalesce(list_sort(list(DISTINCT x) FILTER (WHERE x IS NOT NULL)), []::VARCHAR[])",
)


class Database:
    """Tables that SQL can name. Times in them are UTC microseconds since 1970.

    :param directory: where DuckDB may put what does not fit into memory.
    :param memory: the most that it takes.
    """

    def __init__(self, directory: Path, memory: str = MEMORY) -> None:
        self._connection = duckdb.connect(
            config={
                "temp_directory": str(directory),
                "memory_limit": memory,
                # To keep rows in order, DuckDB would have many of them in memory.
                "preserve_insertion_order": "false",
            }
        )
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        for macro in _MACROS:
            self._connection.execute(macro)

    def add_files(self, name: str, pattern: str) -> None:
        """A table in Parquet files.

        :param pattern: of their paths.
        """
        self._connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {files_at(pattern)}")

    def add_published(self, name: str, place: Path) -> None:
        """A table that an audit wrote to a directory."""
        has_partitions = any(place.glob("date=*"))
        options = "true, hive_types = {'date': DATE, 'protocol': VARCHAR}" if has_partitions else "false"
        files = f"read_parquet({_quoted(literal(str(place)) + '/**/*.parquet')}, hive_partitioning = {options})"
        described = self._connection.sql(f"SELECT * FROM {files}")
        columns = [_in_sql(*each) for each in zip(described.columns, map(str, described.types), strict=True)]
        self._connection.execute(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {files}")

    def make(self, name: str, query: str) -> None:
        """Make a table of others."""
        self._connection.execute(f"CREATE TABLE {name} AS {_plain(query)}")

    def define(self, name: str, query: str) -> None:
        """Name a query. It is made whenever it is asked."""
        self._connection.execute(f"CREATE VIEW {name} AS {_plain(query)}")

    def columns(self, name: str) -> list[str]:
        """The columns of a table. Several threads may ask.

        :param name: its name, or a query in brackets.
        """
        with closing(self._connection.cursor()) as cursor:
            return cursor.sql(f"SELECT * FROM {name} LIMIT 0").columns

    def write(self, name: str, place: Path, partitioned: Sequence[str] = ()) -> None:
        """Write a table as Parquet, as readers know it: times and dates instead of numbers. Several threads may.

        :param name: its name, or a query in brackets.
        :param place: a file, or the directory of the partitions.
        :param partitioned: columns that get a directory for each of their values.
        """
        columns = ", ".join(map(_published, self.columns(name)))
        options = f", PARTITION_BY ({', '.join(partitioned)})" if partitioned else ""
        query = f"COPY (SELECT {columns} FROM {name}) TO {_quoted(str(place))} (FORMAT parquet{options})"
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(query)

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, in which ``@name`` is a table. Several threads may ask."""
        with closing(self._connection.cursor()) as cursor:
            return cursor.sql(_plain(query)).to_arrow_table().to_pylist()  # type: ignore[no-any-return]

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()


@contextmanager
def published(tables: Path, scratch: Path, memory: str = MEMORY) -> Iterator[Database]:
    """The tables that an audit wrote.

    :param tables: holds a directory for each, by its name.
    :param scratch: where DuckDB may put what does not fit into memory.
    :param memory: the most that it takes.
    """
    with closing(Database(scratch, memory)) as database:
        for name in PUBLISHED:
            database.add_published(name, tables / name)
        yield database


def files_at(*patterns: str) -> str:
    """Parquet files, for a query to ask.

    :param patterns: of their paths.
    """
    return f"read_parquet([{', '.join(map(_quoted, patterns))}])"


def literal(path: str) -> str:
    """A path for DuckDB to read, escaped: it reads patterns."""
    return _PATTERN_CHARACTER.sub(r"[\g<0>]", path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _in_sql(name: str, kind: str) -> str:
    column = f'"{name}"'
    if kind.startswith("TIMESTAMP"):
        column = f"epoch_us({column})"
    return f"{column} AS {_IN_SQL.get(name, name)}"


def _published(name: str) -> str:
    known_as, value = NAMES.get(name, name), name
    if known_as in MOMENTS:
        value = f"make_timestamptz({name})"
    elif known_as == "date":
        value = f"DATE '1970-01-01' + {name}"
    return f'{value} AS "{known_as}"'


def _plain(query: str) -> str:
    """A query in which tables have their plain names."""
    return query.replace("@", "")
