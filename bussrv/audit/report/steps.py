"""Tables of the audit, aggregated by the steps of the axis: never more rows than steps.

The numbers are exact: nothing is sampled, and intervals count in each step that they touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.report.axis import Axis

T = TypeVar("T")

Rows = Iterable[Mapping[str, Any]]
"""Rows of tables that the functions here return."""

BEFORE = -1
"""The step of moments before the axis."""

UNKNOWN = "unknown"
"""The wire format of sessions without one."""


def step_of(micros: Column, axis: Axis) -> Column:
    """The step of a moment in microseconds. ``BEFORE`` before the axis, the number of steps after it."""
    step = F.call_function("div", micros - F.lit(axis.origin), F.lit(axis.width))
    return F.when(micros < axis.origin, BEFORE).otherwise(F.least(F.lit(axis.steps), step))


def protocol() -> Column:
    """The wire format, or ``UNKNOWN``."""
    return F.coalesce("protocol", F.lit(UNKNOWN))


def counted(moments: DataFrame, axis: Axis) -> DataFrame:
    """The number of moments in each step.

    :param moments: ``what`` and ``moment``.
    :returns: ``what``, ``step``, ``number``.
    """
    micros = F.unix_micros("moment")
    within = (micros >= axis.begin) & (micros <= axis.end)
    return moments.where(within).groupBy("what", step_of(micros, axis).alias("step")).agg(F.count("*").alias("number"))


def covered(intervals: DataFrame, axis: Axis) -> DataFrame:
    """The part of each step that is covered by intervals, which do not overlap.

    :param intervals: ``what``, ``begin`` and ``end``.
    :returns: ``what``, ``step``, ``micros``.
    """
    begin = F.greatest(F.unix_micros("begin"), F.lit(axis.begin))
    end = F.least(F.unix_micros("end"), F.lit(axis.end))
    step_begins = F.lit(axis.origin) + F.col("step") * F.lit(axis.width)
    part = F.least(F.col("until"), step_begins + axis.width) - F.greatest(F.col("since"), step_begins)
    return (
        intervals.select("what", begin.alias("since"), end.alias("until"))
        .where(F.col("since") < F.col("until"))
        .select(
            *("what", "since", "until"),
            F.explode(F.sequence(step_of(F.col("since"), axis), step_of(F.col("until"), axis))).alias("step"),
        )
        .groupBy("what", "step")
        .agg(F.sum(part).alias("micros"))
    )


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


def concurrency(table: DataFrame, axis: Axis, is_one_server: bool) -> DataFrame:
    """The open sessions of all servers, in each step in which their number changed.

    :param table: the table ``concurrency``.
    :param is_one_server: whether the table is about one server only, which needs less work.
    :returns: ``protocol``, ``step``, ``most``, ``last`` and ``is_carried``: whether the step
        began with the number of the step before.
    """
    levels = table.select(
        "server",
        protocol().alias("protocol"),
        F.unix_micros("moment").alias("moment"),
        "sessions",
        step_of(F.unix_micros("moment"), axis).alias("step"),
    ).where(F.col("step") < axis.steps)
    if not is_one_server:
        levels = _added(levels)
    step_begins = F.lit(axis.origin) + F.col("step") * F.lit(axis.width)
    return levels.groupBy("protocol", "step").agg(
        F.max("sessions").alias("most"),
        F.max_by("sessions", "moment").alias("last"),
        (F.min("moment") > step_begins).alias("is_carried"),
    )


def _added(levels: DataFrame) -> DataFrame:
    """The sum over several servers. Each step is a partition of its own, so that no window spans all rows."""
    by_server = ("server", "protocol", "step")
    earlier = Window.partitionBy("server", "protocol").orderBy("step")
    carried = (
        levels.groupBy(*by_server)
        .agg(F.max_by("sessions", "moment").alias("last"))
        .select(*by_server, F.lag("last", 1, 0).over(earlier).alias("carried"))
    )
    before = F.coalesce(F.lag("sessions").over(Window.partitionBy(*by_server).orderBy("moment")), F.col("carried"))
    changes = (
        levels.join(carried, on=list(by_server), how="inner")
        .withColumn("change", F.col("sessions") - before)
        .groupBy("protocol", "step", "moment")
        .agg(F.sum("change").alias("change"))
    )
    so_far = Window.partitionBy("protocol").orderBy("step").rowsBetween(Window.unboundedPreceding, -1)
    bases = (
        changes.groupBy("protocol", "step")
        .agg(F.sum("change").alias("change"))
        .select("protocol", "step", F.coalesce(F.sum("change").over(so_far), F.lit(0)).alias("base"))
    )
    within = Window.partitionBy("protocol", "step").orderBy("moment").rowsBetween(Window.unboundedPreceding, 0)
    return changes.join(bases, on=["protocol", "step"], how="inner").select(
        "protocol", "step", "moment", (F.col("base") + F.sum("change").over(within)).alias("sessions")
    )


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
