"""Tables in DuckDB: those that an audit makes of facts, and those that it wrote, asked for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from bussrv.audit.aliases import Aliases, literal
from bussrv.audit.output import MOMENTS, PARTITIONED, PUBLISHED, UNKNOWN
from bussrv.audit.sql.activity import IN_SQL, NAMES

MEMORY = "2GB"
"""The most memory that DuckDB takes. The rest goes to disk."""

BESIDE_WORKERS = "1250MB"
"""The most memory that it takes while there are other processes that keep theirs."""

BESIDE_CLUSTER = "256MB"
"""The most memory that it takes on the machine that only directs a cluster."""

_PARTITION = "/".join(f"{name}=([^/]*)" for name in PARTITIONED)
"""The directories of a file's partition. They are the last of its path: those before may have such names, too."""

_NAMES_OF = "coalesce(list_sort(list(DISTINCT x) FILTER (WHERE x IS NOT NULL)), []::VARCHAR[])"


class Database:
    """Tables that SQL can name. Times in them are UTC microseconds since 1970.

    :param directory: where DuckDB may put what does not fit into memory.
    :param memory: the most that it takes.
    """

    def __init__(self, directory: Path, memory: str = MEMORY) -> None:
        self._aliases = Aliases()
        self._connection = duckdb.connect(
            config={
                "temp_directory": str(self._aliases.of(directory)),
                "memory_limit": memory,
                # To keep rows in order, DuckDB would have many of them in memory.
                "preserve_insertion_order": "false",
            }
        )
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self._connection.execute(f"CREATE MACRO names_of(x) AS {_NAMES_OF}")

    def add_files(self, name: str, files: Iterable[Path]) -> None:
        """A table in Parquet files."""
        self._connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {self.files_at(files)}")

    def files_at(self, files: Iterable[Path]) -> str:
        """Parquet files, for a query to ask."""
        return f"read_parquet([{self._listed(files)}], hive_partitioning = false)"

    def _listed(self, files: Iterable[Path]) -> str:
        return ", ".join(_quoted(literal(str(self._aliases.of(each.parent) / each.name))) for each in files)

    def add_published(self, name: str, place: Path) -> None:
        """A table that an audit wrote to a directory."""
        aliased = self._aliases.of(place)
        paths = sorted(aliased.rglob("*.parquet"))
        described = self._connection.sql(f"SELECT * FROM {self.files_at(paths)}")
        columns = [_in_sql(*each) for each in zip(described.columns, map(str, described.types), strict=True)]
        files = f"read_parquet([{self._listed(paths)}], hive_partitioning = false, filename = true)"
        if any(aliased.glob(f"{PARTITIONED[0]}=*")):
            date, protocol = (f"regexp_extract(filename, '/{_PARTITION}/[^/]*$', {number})" for number in (1, 2))
            columns += [f"CAST({date} AS DATE) AS date", f"url_decode({protocol}) AS protocol"]
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
        columns = ", ".join(_published(each, each in partitioned) for each in self.columns(name))
        options = f", PARTITION_BY ({', '.join(partitioned)})" if partitioned else ""
        aliased = self._aliases.of(place.parent) / place.name
        query = f"COPY (SELECT {columns} FROM {name}) TO {_quoted(str(aliased))} (FORMAT parquet{options})"
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(query)

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, in which ``@name`` is a table. Several threads may ask."""
        with closing(self._connection.cursor()) as cursor:
            return cursor.sql(_plain(query)).to_arrow_table().to_pylist()  # type: ignore[no-any-return]

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()
        self._aliases.close()


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


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _in_sql(name: str, kind: str) -> str:
    column = f'"{name}"'
    if kind.startswith("TIMESTAMP"):
        column = f"epoch_us({column})"
    return f"{column} AS {IN_SQL.get(name, name)}"


def _published(name: str, is_partition: bool) -> str:
    known_as, value = NAMES.get(name, name), name
    if known_as in MOMENTS:
        value = f"make_timestamptz({name})"
    elif known_as == "date":
        value = f"DATE '1970-01-01' + {name}"
    elif is_partition:
        # The directory of NULL has a name that not every reader takes for text, or for nothing.
        value = f"coalesce({name}, '{UNKNOWN}')"
    return f'{value} AS "{known_as}"'


def _plain(query: str) -> str:
    """A query in which tables have their plain names."""
    return query.replace("@", "")
