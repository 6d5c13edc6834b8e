"""Asking tables for a few rows, as the values of ``model``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by
from pyspark.sql.types import ArrayType, StringType, TimestampType

from bussrv.audit.html.model import Listing
from bussrv.audit.questions import Question, all_rows, only_row

T = TypeVar("T")

Tables = Mapping[str, DataFrame]

MOST = 20
"""Rows of most lists."""

LONGEST = 256
"""How many characters of a text come back: a name may be as long as somebody likes."""

MOST_ITEMS = 8
"""How many items of an array come back."""

_ABSENT: dict[Any, str] = {int: "0", float: "0.0D", bool: "false", str: "''"}


def rows(table: DataFrame, kind: type[T], most: int, *order: Column) -> Question[tuple[T, ...]]:
    """The first rows of a table.

    :param kind: takes those columns that are called as its fields are.
    :param order: has to tell all rows apart, so that they are always the same ones.
    """
    wanted = {name: as_type for name, as_type in get_type_hints(kind).items() if name in table.columns}
    types = {field.name: field.dataType for field in table.schema}
    columns = [_column(name, types[name], _ABSENT.get(as_type)) for name, as_type in wanted.items()]
    return all_rows(table.orderBy(*order).limit(most).selectExpr(*columns), kind).then(tuple)


def listing(table: DataFrame, kind: type[T], *order: Column, most: int = MOST) -> Question[Listing[T]]:
    """The first rows of a table, and how many it has."""

    def answer(found: tuple[T, ...]) -> Listing[T] | Question[Listing[T]]:
        if len(found) <= most:
            return Listing(found, len(found))
        return number_of(table).then(lambda number: Listing(found[:most], number))

    return rows(table, kind, most + 1, *order).then(answer)


def number_of(table: DataFrame) -> Question[int]:
    """How many rows a table has."""
    return only_row(table.agg(F.count("*").alias("number"))).then(lambda row: int(row["number"]))


def total(column: str) -> Column:
    """The sum of a column, 0 if there is nothing."""
    return F.coalesce(F.sum(column), F.lit(0)).alias(column)


def cut(text: Column) -> Column:
    """A text that is not too long; one character more than shown says that there was more."""
    return F.left(text, F.lit(LONGEST))


def first(*columns: str) -> tuple[Column, ...]:
    """Sorts by what is least, names last that are not known."""
    return tuple(F.col(each).asc_nulls_last() for each in columns)


def most_of(column: str) -> Column:
    """Sorts by what is most."""
    return F.col(column).desc_nulls_last()


def _column(name: str, as_type: Any, absent: str | None) -> str:
    """A column as SQL, which Spark is told at once; a ``Column`` is put together by a call of Java for each part."""
    column = quoted = f"`{name}`"
    if isinstance(as_type, TimestampType):
        column = f"unix_micros({quoted})"
    elif isinstance(as_type, StringType):
        column = f"left({quoted}, {LONGEST})"
    elif isinstance(as_type, ArrayType):
        column = f"transform(slice(coalesce({quoted}, array()), 1, {MOST_ITEMS}), each -> left(each, {LONGEST}))"
    return f"{column} AS {quoted}" if absent is None else f"coalesce({column}, {absent}) AS {quoted}"
