"""Questions to tables that have short answers, and many of them asked at once.

Spark takes longer to plan and to begin a query than to answer it from small tables. So questions are put together:
each says which rows it wants, these travel as JSON beside those of the others, and Python makes the answer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

T = TypeVar("T")
U = TypeVar("U")

AT_ONCE = 2
"""How many queries run at the same time."""

TOGETHER = 16
"""How many tables are asked for in one query: Spark plans all of it anew behind each of its stages."""


@dataclass(frozen=True)
class Question(Generic[T]):
    """What is wanted of some tables.

    :ivar tables: the rows that are wanted, few. Only those of a table that is limited come in its order.
    :ivar answer: makes of the rows of each of these, each row as JSON, what was wanted, or asks on.
    """

    tables: Sequence[DataFrame]
    answer: Callable[..., T | Question[T]]

    def then(self, make: Callable[[T], U | Question[U]]) -> Question[U]:
        """The question for what can be made of the answer, or for what can be asked once that is known.

        :param make: is called with the answer.
        """

        def answer(*rows: Sequence[str]) -> U | Question[U]:
            found = self.answer(*rows)
            return found.then(make) if isinstance(found, Question) else make(found)

        return Question(self.tables, answer)


def known(value: T) -> Question[T]:
    """A question whose answer is known."""
    return Question((), lambda: value)


def all_rows(table: DataFrame, kind: Any = dict[str, Any]) -> Question[list[Any]]:
    """The question for all rows of a table, in any order.

    :param kind: what each is to be: a ``Struct`` whose fields are called as the columns are, or a dictionary.
    """
    decoder = msgspec.json.Decoder(kind, strict=False)
    return Question([table], lambda rows: [decoder.decode(row) for row in rows])


def only_row(table: DataFrame) -> Question[dict[str, Any]]:
    """The question for the row of a table that has one: the total of another."""
    return all_rows(table).then(_only)


def _only(rows: Sequence[T]) -> T:
    (row,) = rows
    return row


def together(*questions: Question[Any]) -> Question[tuple[Any, ...]]:
    """Several questions as one, for all of their answers."""

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
    # One task brings all of them together, partition by partition, in any order. What is limited is one partition.
    for asked, row in reduce(DataFrame.unionAll, parts).coalesce(1).collect():
        found[asked].append(row)
    return found
