"""Asking tables for a few rows, as the values of ``model``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by
from pyspark.sql.types import ArrayType, StringType, TimestampType

from bussrv.audit.html.model import Listing

T = TypeVar("T")

Tables = Mapping[str, DataFrame]

MOST = 20
"""Rows of most lists."""

LONGEST = 256
"""How many characters of a text come back: a name may be as long as somebody likes."""

MOST_ITEMS = 8
"""How many items of an array come back."""

_ABSENT: dict[Any, Any] = {int: 0, float: 0.0, bool: False, str: ""}


def rows(table: DataFrame, kind: type[T], most: int, *order: Column) -> tuple[T, ...]:
    """The first rows of a table.

    :param kind: takes those columns that are called as its fields are.
    :param order: has to tell all rows apart, so that they are always the same ones.
    """
    wanted = {name: as_type for name, as_type in get_type_hints(kind).items() if name in table.columns}
    types = {field.name: field.dataType for field in table.schema}
    columns = [_column(name, types[name], _ABSENT.get(as_type)).alias(name) for name, as_type in wanted.items()]
    found = table.orderBy(*order).limit(most).select(*columns).collect()
    return tuple(msgspec.convert(row.asDict(), kind, strict=False) for row in found)


def listing(table: DataFrame, kind: type[T], *order: Column, most: int = MOST) -> Listing[T]:
    """The first rows of a table, and how many it has."""
    found = rows(table, kind, most + 1, *order)
    return Listing(found[:most], len(found) if len(found) <= most else table.count())


def only_row(table: DataFrame) -> dict[str, Any]:
    """The row of a table that has one: the total of another."""
    (row,) = table.collect()
    return {name: 0 if value is None else value for name, value in row.asDict().items()}


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


def _column(name: str, as_type: Any, absent: Any) -> Column:
    column = F.col(name)
    if isinstance(as_type, TimestampType):
        column = F.unix_micros(column)
    elif isinstance(as_type, StringType):
        column = cut(column)
    elif isinstance(as_type, ArrayType):
        return F.transform(F.slice(F.coalesce(column, F.array()), 1, MOST_ITEMS), cut)
    return column if absent is None else F.coalesce(column, F.lit(absent))
