"""Questions of a reader to the tables of a finished audit: SQL that DuckDB answers, and the tables as CSV.

A question can read these tables, and nothing else. DuckDB may not open files, reach the network, attach databases or
load extensions, and the question cannot allow it that again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bussrv.audit.aliases import Aliases
from bussrv.audit.output import PARTITIONED, PUBLISHED, SUMMARY, TABLES
from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

AT_ONCE = 100_000
"""Rows of an answer that are in memory at the same time."""

_LOCKED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
}
_TIME = pa.timestamp("us", tz="UTC")

# Letters that a spreadsheet takes for the beginning of a formula, also if they are of full width or after blanks.
_FORMULA = r"^\s*[=+\-@\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"
# Line ends, other controls, and characters that turn the direction of text or cannot be seen.
_UNSEEN = r"[\x00-\x1f\x7f-\x9f\x{200b}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2060}\x{2066}-\x{2069}\x{feff}]"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class QueryFailed(BussrvError):
    """There is no answer. The message says why, and names the tables that there are."""


@contextmanager
def answered(directory: Path, query: str) -> Iterator[pa.RecordBatchReader]:
    """The answer to a query of the tables of a finished audit. Nothing is written.

    :param directory: that of the audit.
    :param query: one ``SELECT``. Tables and columns have the names of the documentation.
    :raises QueryFailed: if there is no audit, or the query cannot be answered.
    """
    if not (directory / SUMMARY).exists():
        raise QueryFailed(f"{directory} holds no finished audit: run bussrv audit JOURNAL --out {directory} first")
    with _opened(directory / TABLES) as database, _as_failure(database):
        statements = database.extract_statements(query)
        kinds = [each.type.name for each in statements]
        if kinds != ["SELECT"]:
            raise QueryFailed(f"--sql takes one SELECT, not {' and '.join(kinds) or 'nothing'}")
        yield _rows(database.sql(statements[0].query))


@contextmanager
def _opened(tables: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables, in a database that can reach nothing else."""
    with TemporaryDirectory(prefix="bussrv-audit-") as scratch:
        config: dict[str, Any] = {**_LOCKED, "temp_directory": scratch}
        with closing(Aliases()) as aliases, closing(duckdb.connect(config=config)) as database:
            for path in (aliases.of(tables) / name for name in PUBLISHED):
                database.register(path.name, _table(path))
            database.execute("SET TimeZone = 'UTC'")
            database.execute("SET lock_configuration = true")
            yield database


def _rows(answer: duckdb.DuckDBPyRelation) -> pa.RecordBatchReader:
    # It had another name before DuckDB 2.
    read = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader
    return read(AT_ONCE)


def _table(path: Path) -> Dataset:
    # This imports Pandas if it is installed, which takes a while.
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    parquet = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
    partitions = ds.HivePartitioning(pa.schema(list(zip(PARTITIONED, (pa.date32(), pa.string()), strict=True))))
    parts = partitions if any(path.glob(f"{PARTITIONED[0]}=*")) else None
    files = sorted(str(each.relative_to(path)) for each in path.rglob("*.parquet"))
    # Partitions count from here, and a path is never taken for a URL.
    here = SubTreeFileSystem(str(path), LocalFileSystem())
    found = ds.dataset(files, format=parquet, filesystem=here, partitioning=parts).schema
    # The times that Spark writes name no zone.
    schema = pa.schema([each.with_type(_TIME) if pa.types.is_timestamp(each.type) else each for each in found])
    return ds.dataset(files, schema, parquet, here, parts)


@contextmanager
def _as_failure(database: duckdb.DuckDBPyConnection) -> Iterator[None]:
    try:
        yield
    except duckdb.CatalogException as error:
        views = database.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL").fetchall()
        raise QueryFailed(f"{_said(error)}; the tables are {', '.join(name for (name,) in views)}") from error
    except duckdb.Error as error:
        raise QueryFailed(_said(error)) from error


def _said(error: duckdb.Error) -> str:
    """The first line. Further lines show the place in the query, or guess at names of DuckDB's own tables."""
    return str(error).partition("\n")[0].rstrip(".!")


def write_csv(tables: Path, directory: Path) -> None:
    """Write the tables of an audit as CSV, a file for each. Rows are in the order of their values, so that equal tables
    are equal files.

    :param tables: holds a directory with the Parquet files of each table.
    :raises OSError: if it cannot be written.
    """
    directory.mkdir()
    with _opened(tables) as database:
        for name in PUBLISHED:
            with (directory / f"{name}.csv").open("wb") as file:
                print_csv(_rows(database.sql(f"SELECT * FROM {name} ORDER BY ALL")), file)


def print_csv(rows: pa.RecordBatchReader, file: BinaryIO) -> None:
    """Write rows as CSV in UTF-8: one line a row, the names of the columns first.

    A text that a spreadsheet would take for a formula has an apostrophe before it. Line ends and characters that cannot
    be seen are written as U+FFFD, a list as JSON, a time as in a journal.
    """
    schema = pa.schema([pa.field(each.name, _plain_type(each.type)) for each in rows.schema])
    with pyarrow.csv.CSVWriter(file, schema) as writer:
        for batch in rows:
            columns = [_plain(column).cast(each.type) for column, each in zip(batch.columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if is_number else pa.string()


def _plain(column: pa.Array) -> pa.Array:
    if _plain_type(column.type) == column.type != pa.string():
        return column
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column.cast(_TIME, safe=False), "%Y-%m-%dT%H:%M:%SZ")
    text = column.cast(pa.string()) if not pa.types.is_nested(column.type) else _as_json(column)
    seen = pc.replace_substring_regex(text, _UNSEEN, _REPLACEMENT)
    return pc.if_else(pc.match_substring_regex(text, _FORMULA), pc.binary_join_element_wise("'", seen, ""), seen)


def _as_json(column: pa.Array) -> pa.Array:
    values = column.to_pylist()
    return pa.array([None if each is None else json.dumps(each, ensure_ascii=False, default=str) for each in values])
