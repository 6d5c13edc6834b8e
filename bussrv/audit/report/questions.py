"""Questions to the tables of an audit that have short answers, as SQL that DuckDB runs.

``@name`` is a table of the audit; times in it are UTC microseconds, and columns have the names of
:data:`bussrv.audit.sql.activity.NAMES`. ``names_of(x)`` is the sorted list of the distinct values of ``x``.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, get_origin, get_type_hints

import msgspec

from bussrv.audit.sql.activity import NAMES

T = TypeVar("T")
U = TypeVar("U")

MOST = 200
"""The most rows of a list. The page shows some at a time."""

LONGEST = 256
"""The most characters of a text in an answer. No text that is shown is longer. Names may have any length."""

MOST_ITEMS = 8
"""The most items of an array in an answer."""

Row = dict[str, Any]

_ABSENT: dict[Any, Any] = {int: 0, float: 0.0, bool: False, str: ""}


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """The first rows of a table, and how many it has."""

    rows: tuple[T, ...] = ()
    total: int = 0


class Tables(Protocol):
    """The tables of an audit, which answer queries."""

    def ask(self, query: str) -> list[Row]:
        """The rows of a query. They are few. Only a query with a limit keeps its order."""


def all_rows(tables: Tables, query: str) -> list[Row]:
    """All rows of a query, in any order."""
    return [{NAMES.get(name, name): value for name, value in row.items()} for row in tables.ask(query)]


def only_row(tables: Tables, query: str) -> Row:
    """The row of a query that has exactly one."""
    (row,) = all_rows(tables, query)
    return row


def rows(tables: Tables, query: str, kind: type[T], most: int, order: str) -> tuple[T, ...]:
    """The first rows of a query.

    :param kind: its fields name the columns.
    :param order: must tell all rows apart, so that the first ones are always the same.
    """
    hints = get_type_hints(kind).items()
    absent = {name: () if get_origin(each) is tuple else _ABSENT.get(each) for name, each in hints}

    def made(row: Row) -> T:
        values = {name: _cut(absent.get(name) if value is None else value) for name, value in row.items()}
        return msgspec.convert(values, kind, strict=False)

    limited = f"SELECT * FROM ({query}) AS wanted ORDER BY {order} LIMIT {most}"
    return tuple(map(made, all_rows(tables, limited)))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:LONGEST]
    return [each[:LONGEST] for each in value[:MOST_ITEMS]] if isinstance(value, list) else value


def listing(
    tables: Tables, query: str, kind: type[T], order: str, *, most: int = MOST, all_of: str | None = None
) -> Listing[T]:
    """The first rows of a query, and the number of all.

    :param all_of: a query that has as many rows, if ``query`` has no more than the first ones.
    """
    found = rows(tables, query, kind, most + 1, order)
    return Listing(found[:most], len(found) if len(found) <= most else number_of(tables, all_of or query))


def number_of(tables: Tables, query: str) -> int:
    """The number of rows of a query."""
    return int(only_row(tables, f"SELECT count(*) AS number FROM ({query}) AS counted")["number"])


def total(column: str) -> str:
    """The sum of a column, 0 without rows."""
    return f"CAST(coalesce(sum({column}), 0) AS BIGINT) AS {column}"


def count_if(condition: str) -> str:
    """The number of rows for which a condition holds."""
    return f"count(*) FILTER (WHERE {condition})"


def cut(text: str) -> str:
    """A text, cut to ``LONGEST``."""
    return f"left({text}, {LONGEST})"


def first(*columns: str) -> str:
    """Ascending order, unknown values last."""
    return ", ".join(f"{each} ASC NULLS LAST" for each in columns)


def most_of(column: str) -> str:
    """Descending order, unknown values last."""
    return f"{column} DESC NULLS LAST"
