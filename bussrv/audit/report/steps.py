"""Tables of the audit, aggregated by the steps of the axis: never more rows than steps. The queries are SQL.

The numbers are exact: nothing is sampled, and intervals count in each step that they touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from bussrv.audit.report.axis import Axis

T = TypeVar("T")

Rows = Iterable[Mapping[str, Any]]
"""Rows of queries that the functions here return."""

BEFORE = -1
"""The step of moments before the axis."""

UNKNOWN = "unknown"
"""The wire format of sessions without one."""

PROTOCOL = f"coalesce(protocol, '{UNKNOWN}')"
"""The wire format, or ``UNKNOWN``."""


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
    if not is_one_server:
        levels = _added(levels)
    return f"""
        SELECT protocol, step, CAST(max(sessions) AS BIGINT) AS most, CAST(max_by(sessions, moment) AS BIGINT) AS last,
            min(moment) > {axis.origin} + step * {axis.width} AS is_carried
        FROM ({levels}) AS every
        GROUP BY protocol, step"""


def _added(levels: str) -> str:
    """The sum over several servers. Each step is a partition of its own, so that no window spans all rows."""
    return f"""
        WITH levels AS ({levels}),
        carried AS (
            SELECT server, protocol, step,
                lag(last, 1, 0) OVER (PARTITION BY server, protocol ORDER BY step) AS carried
            FROM (
                SELECT server, protocol, step, max_by(sessions, moment) AS last
                FROM levels GROUP BY server, protocol, step
            ) AS ends
        ),
        changes AS (
            SELECT protocol, step, moment, sum(change) AS change
            FROM (
                SELECT l.protocol, l.step, l.moment, l.sessions - coalesce(
                    lag(l.sessions) OVER (PARTITION BY l.server, l.protocol, l.step ORDER BY l.moment), c.carried
                ) AS change
                FROM levels AS l
                JOIN carried AS c ON l.server = c.server AND l.protocol = c.protocol AND l.step = c.step
            ) AS each_change
            GROUP BY protocol, step, moment
        ),
        bases AS (
            SELECT protocol, step, coalesce(sum(change) OVER (
                PARTITION BY protocol ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0) AS base
            FROM (SELECT protocol, step, sum(change) AS change FROM changes GROUP BY protocol, step) AS by_step
        )
        SELECT h.protocol, h.step, h.moment, b.base + sum(h.change) OVER (
            PARTITION BY h.protocol, h.step ORDER BY h.moment ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS sessions
        FROM changes AS h JOIN bases AS b ON h.protocol = b.protocol AND h.step = b.step"""


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
