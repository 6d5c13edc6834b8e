"""What tables hold, brought into the steps of the axis: not more rows than there are steps, whatever the journals hold.

The tables are those of the audit. All of it is exact: no step is sampled, and what lasts over several of them counts in
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.html.axis import Axis

T = TypeVar("T")

Rows = Iterable[Mapping[str, Any]]
"""Rows of what the functions here return."""

BEFORE = -1
"""The step of what was before the axis begins."""

UNKNOWN = "unknown"
"""The protocol of what has none."""


def step_of(micros: Column, axis: Axis) -> Column:
    """The step that a moment, in microseconds, is in; ``BEFORE``, or one behind the last."""
    step = F.call_function("div", micros - F.lit(axis.origin), F.lit(axis.width))
    return F.when(micros < axis.origin, BEFORE).otherwise(F.least(F.lit(axis.steps), step))


def protocol() -> Column:
    """The wire format, also where none is known."""
    return F.coalesce("protocol", F.lit(UNKNOWN))


def counted(moments: DataFrame, axis: Axis) -> DataFrame:
    """How many of each are in each step.

    :param moments: ``what`` and ``moment``.
    :returns: ``what``, ``step``, ``number``.
    """
    micros = F.unix_micros("moment")
    within = (micros >= axis.begin) & (micros <= axis.end)
    return moments.where(within).groupBy("what", step_of(micros, axis).alias("step")).agg(F.count("*").alias("number"))


def covered(intervals: DataFrame, axis: Axis) -> DataFrame:
    """How long of each step is covered by intervals that do not overlap.

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
    """Which share of each step was covered; ``None`` where nothing was seen of it.

    :param rows: of what :func:`covered` returns.
    :param seen: from when to when each was looked at.
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
    """How many sessions of all servers were open in each step in which that changed.

    :param table: the table ``concurrency``.
    :param is_one_server: whether all of it is about one server, which takes less work.
    :returns: ``protocol``, ``step``, ``most``, ``last`` and ``is_carried``: whether at the beginning of the step there
        still were as many as at the end of the one before.
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
    """The levels of several servers added up. Each step is a partition of its own, so that no window is over all."""
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
    """The most in each step, and how many there were at its end, of each protocol.

    :param rows: of what :func:`concurrency` returns.
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
