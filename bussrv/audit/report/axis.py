"""The time axis of all charts: equal steps of a round length; and tables of the audit aggregated by these steps.

Times are UTC microseconds since 1970. The queries are SQL, and never return more rows than steps. Their numbers are
exact: nothing is sampled, and intervals count in each step that they touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")

Rows = Iterable[Mapping[str, Any]]
"""Rows of queries that the functions here return."""

BEFORE = -1
"""The step of moments before the axis."""

PROTOCOL = "coalesce(protocol, 'unknown')"
"""The wire format."""

MOST_STEPS = 240
"""About as many steps as can be told apart on a screen or on paper."""

MOST_TICKS = 7

WIDE, NARROW = 34.0, 21.0
"""The least width of an axis on wide screens and paper, and on narrow screens. Unit: the height of its text."""

CHARACTER = 0.64
"""The most width of a digit, in the same unit."""

GAP = 0.9
"""The least distance between two labels, in the same unit."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_FRACTIONS = tuple(factor * 10**power for power in range(6) for factor in (1, 2, 5))
_WIDTHS = (
    *_FRACTIONS,
    *(factor * SECOND for factor in (1, 2, 5, 10, 15, 30)),
    *(factor * MINUTE for factor in (1, 2, 5, 10, 15, 30)),
    *(factor * HOUR for factor in (1, 2, 3, 6, 12)),
)


class Axis(Struct, frozen=True):
    """A period in steps. Steps begin at round times, so only a part of the first and the last one may be in the period.

    :ivar begin: the first moment of the period.
    :ivar end: the last one.
    :ivar width: how long a step is.
    """

    begin: int
    end: int
    width: int

    @property
    def origin(self) -> int:
        """The beginning of the first step."""
        return self.begin // self.width * self.width

    @property
    def steps(self) -> int:
        """The number of steps."""
        return (self.end - self.origin) // self.width + 1

    def starts(self, step: int) -> int:
        """The beginning of a step."""
        return self.origin + step * self.width

    def place(self, moment: int) -> float:
        """The place of a moment on the axis, 0 to 1."""
        return (moment - self.origin) / (self.steps * self.width)

    def seen(self, step: int, first: int, last: int) -> int:
        """The part of a step that is in the period and between two moments, in microseconds."""
        begin = max(self.starts(step), self.begin, first)
        return max(0, min(self.starts(step + 1), self.end, last) - begin)

    def ticks(self) -> tuple[int, int, tuple[int, ...]]:
        """Round moments for the labels below a chart.

        :returns: their distance, the end of the last step, and the moments.
        """
        until = self.origin + self.steps * self.width
        width = next(each for each in _widths() if (until - 1) // each - (self.origin - 1) // each <= _most(each))
        first = -(-self.origin // width) * width
        return width, until, tuple(range(first, until, width))


def axis_between(begin: int, end: int) -> Axis:
    """The axis with the shortest steps, at most ``MOST_STEPS``."""
    return next(axis for axis in (Axis(begin, end, width) for width in _widths()) if axis.steps <= MOST_STEPS)


def _most(width: int) -> int:
    """The number of labels that fit, for moments at that distance."""
    return min(MOST_TICKS, int(WIDE / (CHARACTER * _characters(width) + GAP)))


def _characters(width: int) -> int:
    """The number of characters of a label, for moments at that distance."""
    if width >= DAY:
        return len("21 Nov")
    if width >= MINUTE:
        return len("14:02")
    fraction = f"{width % SECOND:06}".rstrip("0")
    return len("14:02:03") + (1 + len(fraction) if fraction else 0)


def _widths() -> Iterator[int]:
    days = (factor * 10**power * DAY for power in range(9) for factor in (1, 2, 5))
    return chain(_WIDTHS, days)


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
