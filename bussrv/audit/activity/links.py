"""The table of links to other servers: how often and how long each was up, and why it was lost."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.activity.boots import servers
from bussrv.audit.tables.period import Period

SERVER_ROLE = "server"
"""Columns of a link session."""


def links(records: DataFrame, boots: DataFrame, period: Period) -> DataFrame:
    """Each server that one was linked with. ``neighbour`` is its routing id.

    A link is up from ``link.up`` to ``link.down``, and at most until the end of the boot: after a crash, ``link.down``
    is among the first records of the next boot.

    - ``observed_seconds``: from the first record of the link to the end of the journal,
    - ``availability``: the part of that in which it was up, 0 to 1,
    - ``mtbf_seconds``: the time that it was up, divided by the number of losses; NULL without a loss,
    - ``last_reason``: that of the last ``link.down``,
    - ``up``: whether it is up at the end.

    :param boots: the table of :func:`bussrv.audit.activity.boots.boots`.
    """
    extents = servers(boots).select("server", F.col("first_moment").alias("begins"), F.col("last_moment").alias("ends"))
    is_counted = ~F.col("given") & period.holds(F.col("moment"))
    lost = is_counted & ~F.col("is_up")
    each = (
        _stretches(_steps(records), boots)
        .join(F.broadcast(extents), on="server", how="inner")
        .withColumn("begin", period.clip_begin(F.greatest("moment", "begins")))
        .withColumn("end", period.clip_end(F.col("end")))
        .groupBy("server", "neighbour")
        .agg(
            F.count_if(is_counted & F.col("is_up")).alias("ups"),
            F.count_if(lost).alias("downs"),
            F.sum(F.when(F.col("is_up"), _micros(F.col("begin"), F.col("end"))).otherwise(0)).alias("up_micros"),
            _micros(F.min("begin"), period.clip_end(F.max("ends"))).alias("observed_micros"),
            F.max_by("reason", F.when(lost, _order())).alias("last_reason"),
            F.max_by("stands", _order()).alias("up"),
        )
    )
    availability = F.try_divide(F.least("up_micros", "observed_micros"), "observed_micros")
    return each.select(
        "server",
        "neighbour",
        "ups",
        "downs",
        (F.col("up_micros") / 1_000_000).alias("up_seconds"),
        (F.col("observed_micros") / 1_000_000).alias("observed_seconds"),
        availability.alias("availability"),
        F.try_divide(F.col("up_micros") / 1_000_000, "downs").alias("mtbf_seconds"),
        "last_reason",
        "up",
    )


def _order() -> Column:
    return F.struct("seq", "moment", "mono", "is_up")


def _micros(begin: Column, end: Column) -> Column:
    return F.greatest(F.lit(0), F.unix_micros(end) - F.unix_micros(begin))


def _steps(records: DataFrame) -> DataFrame:
    """Every ``link.up`` and ``link.down``. A link that was up before the first record counts as one that came up."""
    told = records.where(~F.col("given") & F.col("event").isin("link.up", "link.down"))
    # The snapshot has links as sessions of servers that are not remote sessions.
    known = records.where(F.col("given") & F.col("event").isin("session.opened", "session.identified"))
    linked = (
        known.groupBy("server", "session")
        .agg(
            F.max(F.when(F.col("role") == SERVER_ROLE, F.col("routing_id"))).alias("neighbour"),
            F.max("home").alias("home"),
            F.min("seq").alias("seq"),
            F.min("moment").alias("moment"),
            F.min("mono").alias("mono"),
        )
        .where(F.col("neighbour").isNotNull() & F.col("home").isNull())
    )
    columns = ("server", "neighbour", "seq", "moment", "mono")
    return (
        told.withColumnRenamed("routing_id", "neighbour")
        .select(*columns, "boot", "reason", (F.col("event") == "link.up").alias("is_up"), "given")
        .unionByName(
            linked.select(
                *columns,
                # The boot in which the link came up. The records may begin in a later one.
                F.substring_index("session", ".", 1).alias("boot"),
                F.lit(None).cast("string").alias("reason"),
                F.lit(True).alias("is_up"),
                F.lit(True).alias("given"),
            )
        )
    )


def _stretches(steps: DataFrame, boots: DataFrame) -> DataFrame:
    """Each step with its ``end``, the next step of that link in that boot, or else the end of the boot.

    ``stands``: the link is up, and the boot is still running.
    """
    in_order = Window.partitionBy("server", "neighbour").orderBy("seq", "moment", "mono", "is_up")
    each_boot = boots.select("server", "boot", F.col("last_moment").alias("boot_ends"), "ended")
    following = F.when(F.lead("boot").over(in_order) == F.col("boot"), F.lead("moment").over(in_order))
    return steps.join(F.broadcast(each_boot), on=["server", "boot"], how="left").select(
        *steps.columns,
        # Nothing was observed of a boot without records.
        F.coalesce(following, "boot_ends", "moment").alias("end"),
        (F.col("is_up") & F.coalesce(~F.col("ended"), F.lit(False))).alias("stands"),
    )
