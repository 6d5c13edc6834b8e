"""Unions of intervals of time.

An interval includes its ``begin``, and excludes its ``end``. It is empty if it ends when it begins, or before that,
because the clock of a server was set back.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.tables.period import Period


def in_order() -> Column:
    """The order of the records of one server, also of those with the same number."""
    return F.struct("seq", "moment", "mono")


def key_of(*columns: str) -> Column:
    """A number made from the columns of a group. As the first sort column it makes Spark compare numbers.

    Comparing ids, which all begin with the same text, takes several times as long.
    """
    return F.xxhash64(*columns)


def watched(servers: DataFrame, period: Period) -> DataFrame:
    """The time in which each server was observed: that of its records, within the period. A small table.

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
    """The union of intervals: the longest ones without a gap.

    :param intervals: ``of``, ``begin`` and ``end``. Empty ones do not count.
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
    """The time between two moments: 0 if the clock ran backwards, NULL if one of them is not known."""
    micros = F.unix_micros(end) - F.unix_micros(begin)
    return F.when(micros.isNotNull(), F.greatest(micros, F.lit(0)) / 1_000_000)
