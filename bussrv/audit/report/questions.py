"""Questions to the tables of an audit that have short answers, as SQL that DuckDB runs. Some are about each step of the
time axis: their numbers are exact, nothing is sampled, and intervals count in each step that they touch.

``@name`` is a table of the audit; times in it are UTC microseconds, and columns have the names of
:data:`bussrv.audit.sql.activity.NAMES`. ``names_of(x)`` is the sorted list of the distinct values of ``x``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar, get_origin, get_type_hints

import msgspec

from bussrv.audit.report.charts import Axis
from bussrv.audit.sql.activity import NAMES

T = TypeVar("T")

MOST = 200
"""The most rows of a list. The page shows some at a time."""

LONGEST = 256
"""The most characters of a text in an answer. No text that is shown is longer. Names may have any length."""

MOST_ITEMS = 8
"""The most items of an array in an answer."""

Row = dict[str, Any]

Rows = Iterable[Mapping[str, Any]]
"""Rows of queries that the functions here return."""

BEFORE = -1
"""The step of moments before the axis."""

PROTOCOL = "coalesce(protocol, 'unknown')"
"""The wire format."""

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


def step_of(micros: str, axis: Axis) -> str:
    """The step of a moment in microseconds. ``BEFORE`` before the axis, the number of steps after it."""
    step = f"CAST(floor(({micros} - {axis.origin}) / {axis.width}) AS BIGINT)"
    return f"CASE WHEN {micros} < {axis.origin} THEN {BEFORE} ELSE least({axis.steps}, {step}) END"


def counted(moments: str, axis: Axis) -> str:
    """The number of moments in each step.

    :param moments: a query for ``what`` and ``moment``.
    :returns: a query for ``what``, ``step``, ``number``.
    """
    return f"""
        SELECT what, step, count(*) AS number
        FROM (
            SELECT what, {step_of("moment", axis)} AS step
            FROM ({moments}) AS moments WHERE moment >= {axis.begin} AND moment <= {axis.end}
        ) AS placed
        GROUP BY what, step"""


def covered(intervals: str, axis: Axis) -> str:
    """The part of each step that is covered by intervals, which do not overlap.

    :param intervals: a query for ``what``, ``begin`` and ``until``.
    :returns: a query for ``what``, ``step``, ``micros``.
    """
    step_begins = f"({axis.origin} + step * {axis.width})"
    return f"""
        SELECT what, step, CAST(sum(
            least(until, {step_begins} + {axis.width}) - greatest(begin, {step_begins})
        ) AS BIGINT) AS micros
        FROM (
            SELECT c.what, c.begin, c.until, s.step
            FROM (
                SELECT what, greatest(begin, {axis.begin}) AS begin, least(until, {axis.end}) AS until
                FROM ({intervals}) AS intervals
            ) AS c
            JOIN range(0, {axis.steps + 1}) AS s(step)
                ON s.step >= {step_of("c.begin", axis)} AND s.step <= {step_of("c.until", axis)}
            WHERE c.begin < c.until
        ) AS parts
        GROUP BY what, step"""


def shares(rows: Rows, axis: Axis, seen: Mapping[T, tuple[int, int]]) -> dict[T, tuple[float | None, ...]]:
    """The share of each step that was covered; ``None`` if none of the step was seen.

    :param rows: those of :func:`covered`.
    :param seen: the first and the last moment at which each was observed.
    """
    micros = {(row["what"], row["step"]): row["micros"] for row in rows}
    return {
        what: tuple(
            min(1.0, micros.get((what, step), 0) / length) if (length := axis.seen(step, first, last)) else None
            for step in range(axis.steps)
        )
        for what, (first, last) in seen.items()
    }


def concurrency(table: str, axis: Axis, is_one_server: bool) -> str:
    """The open sessions of all servers, in each step in which their number changed.

    :param table: a query for the table ``concurrency``.
    :param is_one_server: whether the table is about one server only, which needs less work.
    :returns: a query for ``protocol``, ``step``, ``most``, ``last`` and ``is_carried``: whether the step began with the
        number of the step before.
    """
    levels = f"""
        SELECT server, protocol, moment, sessions, step
        FROM (
            SELECT server, {PROTOCOL} AS protocol, moment, sessions, {step_of("moment", axis)} AS step
            FROM ({table}) AS levels
        ) AS placed
        WHERE step < {axis.steps}"""
    if is_one_server:
        return _by_step(levels, "protocol", axis)
    numbers = f"""
        SELECT server, protocol, row_number() OVER () AS number, dense_rank() OVER (ORDER BY protocol) AS format
        FROM (SELECT DISTINCT server, protocol FROM ({levels}) AS levels) AS every"""
    return f"""
        WITH numbers AS MATERIALIZED ({numbers})
        SELECT f.protocol, s.step, s.most, s.last, s.is_carried
        FROM ({_by_step(_added(levels), "format", axis)}) AS s
        JOIN (SELECT DISTINCT format, protocol FROM numbers) AS f ON s.format = f.format"""


def _by_step(levels: str, which: str, axis: Axis) -> str:
    return f"""
        SELECT {which}, step, CAST(max(sessions) AS BIGINT) AS most, CAST(max_by(sessions, moment) AS BIGINT) AS last,
            min(moment) > {axis.origin} + step * {axis.width} AS is_carried
        FROM ({levels}) AS every
        GROUP BY {which}, step"""


def _added(levels: str) -> str:
    """The sum over several servers. By default, a window adds up all changes of one moment at once.

    The sums are doubles, because DuckDB adds up integers with 128 bits, which takes half as long again. A window over
    numbers takes half the time of one over texts.
    """
    return f"""
        SELECT format, step, moment, sum(change) OVER (PARTITION BY format ORDER BY moment) AS sessions
        FROM (
            SELECT format, step, moment, CAST(
                sessions - lag(sessions, 1, 0) OVER (PARTITION BY number ORDER BY moment) AS DOUBLE
            ) AS change
            FROM (
                SELECT n.format, n.number, l.step, l.moment, l.sessions
                FROM ({levels}) AS l JOIN numbers AS n ON l.server = n.server AND l.protocol = n.protocol
            ) AS numbered
        ) AS changes"""


def filled(rows: Rows, axis: Axis) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """The most open sessions of each step, and the number at its end, by wire format.

    :param rows: those of :func:`concurrency`.
    """
    known: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        known.setdefault(row["protocol"], {})[row["step"]] = row
    return {each: _carried_on(steps, axis) for each, steps in known.items()}


def _carried_on(steps: Mapping[int, Mapping[str, Any]], axis: Axis) -> tuple[tuple[int, ...], tuple[int, ...]]:
    level = steps[BEFORE]["last"] if BEFORE in steps else 0
    most, last = [], []
    for step in range(axis.steps):
        highest = level
        if row := steps.get(step):
            highest = max(row["most"], level) if row["is_carried"] else row["most"]
            level = row["last"]
        most.append(highest)
        last.append(level)
    return tuple(most), tuple(last)
