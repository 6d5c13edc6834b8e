"""Intervals of time that lie one over the other: when there was at least one of them.

An interval lasts from its ``begin`` on, and is over at its ``end``. What the clock of a server made end before it began
is empty, and so is what ends when it begins.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.period import Period


def in_order() -> Column:
    """Sorts the records of one server, also those that have the same number."""
    return F.struct("seq", "moment", "mono")


def key_of(*columns: str) -> Column:
    """A number made from columns that rows are grouped by. Put before them, it makes Spark compare numbers where it
    sorts the rows; ids that all begin alike take several times as long.
    """
    return F.xxhash64(*columns)


def watched(servers: DataFrame, period: Period) -> DataFrame:
    """From when to when each server was watched: its records, as far as the period goes. The table is small.

    :param servers: ``server``, ``first_moment`` and ``last_moment`` among its columns.
    :returns: ``server``, ``watch_begin``, ``watch_end``.
    """
    return F.broadcast(
        servers.select(
            "server",
            period.clip_begin(F.col("first_moment")).alias("watch_begin"),
            period.clip_end(F.col("last_moment")).alias("watch_end"),
        )
    )


def union(intervals: DataFrame, *of: str) -> DataFrame:
    """Every time that at least one interval lasts: the longest intervals that are covered without a gap.

    :param intervals: the columns ``of``, ``begin`` and ``end``; empty ones do not count.
    :returns: the same columns; no two intervals of the same ``of`` touch.
    """
    ordered = Window.partitionBy(*of).orderBy("begin", "end")
    covered_until = F.max("end").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    is_first = covered_until.isNull() | (F.col("begin") > covered_until)
    so_far = ordered.rowsBetween(Window.unboundedPreceding, 0)
    return (
        intervals.where(F.col("begin") < F.col("end"))
        .select(*of, "begin", "end", is_first.alias("is_first"))
        .select(*of, "begin", "end", F.count_if("is_first").over(so_far).alias("number"))
        .groupBy(*of, "number")
        .agg(F.min("begin").alias("begin"), F.max("end").alias("end"))
        .drop("number")
    )


def seconds(begin: Column | str, end: Column | str) -> Column:
    """How long something lasted; 0 if the clock went backwards meanwhile, NULL if one of the two is not known."""
    micros = F.unix_micros(end) - F.unix_micros(begin)
    return F.when(micros.isNotNull(), F.greatest(micros, F.lit(0)) / 1_000_000)
