"""Questions to the tables of an audit that have short answers, as SQL. Many are asked at once.

DuckDB answers them. ``@name`` is a table of the audit; times in it are UTC microseconds, and columns have the names of
:data:`bussrv.audit.sql.activity.NAMES`. ``names_of(x)`` is the sorted list of the distinct values of ``x``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """The tables of an audit, and what answers questions about them."""

    def collect(self, queries: Sequence[str]) -> Iterable[list[Row]]:
        """The rows of each query. They are few."""


@dataclass(frozen=True)
class Question(Generic[T]):
    """A question to some tables.

    :ivar queries: for the wanted rows, few. Only a query with a limit keeps its order.
    :ivar answer: makes the answer from the rows of each query, or asks another question.
    """

    queries: Sequence[str]
    answer: Callable[..., T | Question[T]]

    def then(self, make: Callable[[T], U | Question[U]]) -> Question[U]:
        """A question whose answer is made from this one's.

        :param make: takes the answer, and returns another answer or another question.
        """

        def answer(*rows: Sequence[Row]) -> U | Question[U]:
            found = self.answer(*rows)
            return found.then(make) if isinstance(found, Question) else make(found)

        return Question(self.queries, answer)


def known(value: T) -> Question[T]:
    """A question whose answer is known already."""
    return Question((), lambda: value)


def all_rows(query: str) -> Question[list[Row]]:
    """All rows of a query, in any order."""
    return Question(
        [query], lambda rows: [{NAMES.get(name, name): value for name, value in row.items()} for row in rows]
    )


def only_row(query: str) -> Question[Row]:
    """The row of a query that has exactly one."""
    return all_rows(query).then(_only)


def _only(rows: Sequence[T]) -> T:
    (row,) = rows
    return row


def together(*questions: Question[Any]) -> Question[tuple[Any, ...]]:
    """Several questions as one. Its answer is a tuple of theirs."""

    def answer(*rows: Sequence[Row]) -> tuple[Any, ...] | Question[tuple[Any, ...]]:
        of_each = iter(rows)
        found = [each.answer(*[next(of_each) for _ in each.queries]) for each in questions]
        if any(isinstance(each, Question) for each in found):
            return together(*[each if isinstance(each, Question) else known(each) for each in found])
        return tuple(found)

    return Question([query for each in questions for query in each.queries], answer)


def ask(tables: Tables, questions: Mapping[str, Question[Any]]) -> dict[str, Any]:
    """The answers, by the names of the questions."""
    found: Any = together(*questions.values())
    while isinstance(found, Question):
        found = found.answer(*(tables.collect(found.queries) if found.queries else ()))
    return dict(zip(questions, found, strict=True))


def rows(query: str, kind: type[T], most: int, order: str) -> Question[tuple[T, ...]]:
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
    return all_rows(limited).then(lambda found: tuple(map(made, found)))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:LONGEST]
    return [each[:LONGEST] for each in value[:MOST_ITEMS]] if isinstance(value, list) else value


def listing(
    query: str, kind: type[T], order: str, *, most: int = MOST, all_of: str | None = None
) -> Question[Listing[T]]:
    """The first rows of a query, and the number of all.

    :param all_of: a query that has as many rows, if ``query`` has no more than the first ones.
    """

    def answer(found: tuple[T, ...]) -> Listing[T] | Question[Listing[T]]:
        if len(found) <= most:
            return Listing(found, len(found))
        return number_of(all_of or query).then(lambda number: Listing(found[:most], number))

    return rows(query, kind, most + 1, order).then(answer)


def number_of(query: str) -> Question[int]:
    """The number of rows of a query."""
    return only_row(f"SELECT count(*) AS number FROM ({query}) AS counted").then(lambda row: int(row["number"]))


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
