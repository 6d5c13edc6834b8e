"""Questions to tables that have short answers. Many are asked at once.

For small tables Spark needs longer to plan and start a query than to answer it. So one query asks for the rows of many
questions. They return as JSON, and Python makes the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by
from pyspark.sql.types import ArrayType, StringType, TimestampType

from bussrv.audit.report.model import Listing

T = TypeVar("T")
U = TypeVar("U")

AT_ONCE = 2
"""The most queries at the same time."""

TOGETHER = 16
"""The most tables in one query. Spark plans the rest of a query anew after each of its stages."""

Tables = Mapping[str, DataFrame]

MOST = 20
"""The most rows of a list."""

LONGEST = 256
"""The most characters of a text that are returned. Names may have any length."""

MOST_ITEMS = 8
"""The most items of an array that are returned."""

_ABSENT: dict[Any, str] = {int: "0", float: "0.0D", bool: "false", str: "''"}


@dataclass(frozen=True)
class Question(Generic[T]):
    """A question to some tables.

    :ivar tables: the wanted rows, few. Only a table with a limit keeps its order.
    :ivar answer: makes the answer from the rows of each table (JSON), or asks another question.
    """

    tables: Sequence[DataFrame]
    answer: Callable[..., T | Question[T]]

    def then(self, make: Callable[[T], U | Question[U]]) -> Question[U]:
        """A question whose answer is made from this one's.

        :param make: takes the answer, and returns another answer or another question.
        """

        def answer(*rows: Sequence[str]) -> U | Question[U]:
            found = self.answer(*rows)
            return found.then(make) if isinstance(found, Question) else make(found)

        return Question(self.tables, answer)


def known(value: T) -> Question[T]:
    """A question whose answer is known already."""
    return Question((), lambda: value)


def all_rows(table: DataFrame, kind: Any = dict[str, Any]) -> Question[list[Any]]:
    """All rows of a table, in any order.

    :param kind: the type of a row: a ``Struct`` with the names of the columns, or a dictionary.
    """
    decoder = msgspec.json.Decoder(kind, strict=False)
    return Question([table], lambda rows: [decoder.decode(row) for row in rows])


def only_row(table: DataFrame) -> Question[dict[str, Any]]:
    """The row of a table that has exactly one."""
    return all_rows(table).then(_only)


def _only(rows: Sequence[T]) -> T:
    (row,) = rows
    return row


def together(*questions: Question[Any]) -> Question[tuple[Any, ...]]:
    """Several questions as one. Its answer is a tuple of theirs."""

    def answer(*rows: Sequence[str]) -> tuple[Any, ...] | Question[tuple[Any, ...]]:
        of_each = iter(rows)
        found = [each.answer(*[next(of_each) for _ in each.tables]) for each in questions]
        if any(isinstance(each, Question) for each in found):
            return together(*[each if isinstance(each, Question) else known(each) for each in found])
        return tuple(found)

    return Question([table for each in questions for table in each.tables], answer)


def ask(questions: Mapping[str, Question[Any]]) -> dict[str, Any]:
    """The answers, by the names of the questions."""
    found: Any = together(*questions.values())
    while isinstance(found, Question):
        found = found.answer(*_collected(found.tables))
    return dict(zip(questions, found, strict=True))


def _collected(tables: Sequence[DataFrame]) -> Iterator[list[str]]:
    """The rows of each of these, as JSON."""
    begins = range(0, len(tables), TOGETHER)
    with ThreadPoolExecutor(AT_ONCE) as asking:
        for rows in asking.map(_collected_at_once, [tables[begin : begin + TOGETHER] for begin in begins]):
            yield from rows


def _collected_at_once(tables: Sequence[DataFrame]) -> list[list[str]]:
    every = F.struct("*")
    parts = [
        table.select(F.lit(number).alias("asked"), F.to_json(every, {"ignoreNullFields": "false"}).alias("row"))
        for number, table in enumerate(tables)
    ]
    found: list[list[str]] = [[] for _ in tables]
    # One task collects all partitions, in any order. A table with a limit is one partition, so it keeps its order.
    for asked, row in reduce(DataFrame.unionAll, parts).coalesce(1).collect():
        found[asked].append(row)
    return found


def rows(table: DataFrame, kind: type[T], most: int, *order: Column) -> Question[tuple[T, ...]]:
    """The first rows of a table.

    :param kind: its fields name the columns.
    :param order: must tell all rows apart, so that the first ones are always the same.
    """
    wanted = {name: as_type for name, as_type in get_type_hints(kind).items() if name in table.columns}
    types = {field.name: field.dataType for field in table.schema}
    columns = [_column(name, types[name], _ABSENT.get(as_type)) for name, as_type in wanted.items()]
    return all_rows(table.orderBy(*order).limit(most).selectExpr(*columns), kind).then(tuple)


def listing(table: DataFrame, kind: type[T], *order: Column, most: int = MOST) -> Question[Listing[T]]:
    """The first rows of a table, and the number of all."""

    def answer(found: tuple[T, ...]) -> Listing[T] | Question[Listing[T]]:
        if len(found) <= most:
            return Listing(found, len(found))
        return number_of(table).then(lambda number: Listing(found[:most], number))

    return rows(table, kind, most + 1, *order).then(answer)


def number_of(table: DataFrame) -> Question[int]:
    """The number of rows of a table."""
    return only_row(table.agg(F.count("*").alias("number"))).then(lambda row: int(row["number"]))


def total(column: str) -> Column:
    """The sum of a column, 0 without rows."""
    return F.coalesce(F.sum(column), F.lit(0)).alias(column)


def cut(text: Column) -> Column:
    """A text, cut to ``LONGEST``, which is longer than any text that is shown."""
    return F.left(text, F.lit(LONGEST))


def first(*columns: str) -> tuple[Column, ...]:
    """Ascending order, unknown values last."""
    return tuple(F.col(each).asc_nulls_last() for each in columns)


def most_of(column: str) -> Column:
    """Descending order, unknown values last."""
    return F.col(column).desc_nulls_last()


def _column(name: str, as_type: Any, absent: str | None) -> str:
    """A column as SQL. A ``Column`` would take a call to Java for each of its parts."""
    column = quoted = f"`{name}`"
    if isinstance(as_type, TimestampType):
        column = f"unix_micros({quoted})"
    elif isinstance(as_type, StringType):
        column = f"left({quoted}, {LONGEST})"
    elif isinstance(as_type, ArrayType):
        column = f"transform(slice(coalesce({quoted}, array()), 1, {MOST_ITEMS}), each -> left(each, {LONGEST}))"
    return f"{column} AS {quoted}" if absent is None else f"coalesce({column}, {absent}) AS {quoted}"
