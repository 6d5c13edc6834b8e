"""The table of concurrency: the open sessions of each protocol, whenever their number changes."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.activity.sweep import watched
from bussrv.audit.tables.period import Period

BUCKET = 3_600_000_000
"""The length of the portions of time that are swept in parallel, in microseconds."""


def concurrency(sessions: DataFrame, servers: DataFrame, period: Period) -> DataFrame:
    """From ``moment`` on, ``sessions`` of a ``protocol`` are open; ``date`` is that of the moment.

    Remote sessions, and those without opening and closing, are left out. A session that was open before its server was
    observed counts from then on. If its opening is missing, the duration in its closing counts.

    :param sessions: the table of :func:`bussrv.audit.activity.sessions.sessions`.
    """
    bucket = ("server", "protocol", "bucket")
    steps = _steps(sessions.join(watched(servers, period), on="server", how="inner"))
    portions = steps.withColumn("bucket", F.floor(F.unix_micros("moment") / BUCKET)).repartition(*bucket)
    changes = portions.groupBy(*bucket, "moment").agg(F.sum("step").alias("step")).where("step <> 0")
    columns = (*bucket, "moment", "step")
    running = Window.partitionBy(*bucket).orderBy(F.col("moment").asc_nulls_first())
    return (
        changes.unionByName(_carried(portions).select(*columns))
        .withColumn("sessions", F.sum("step").over(running.rowsBetween(Window.unboundedPreceding, 0)))
        .where(F.col("moment").isNotNull())
        .select("server", "protocol", "moment", "sessions", F.to_date("moment").alias("date"))
    )


def _steps(sessions: DataFrame) -> DataFrame:
    """Plus one where a session begins, minus one where it ends."""
    lasted = F.round(F.col("duration_seconds") * 1_000_000).cast("bigint")
    opened = F.coalesce("opened", F.timestamp_micros(F.unix_micros("closed") - lasted))
    begin = F.greatest(opened, F.col("watch_begin"))
    # If the clock was set back before the closing, the session ends where it began.
    end = F.when(F.col("closed").isNotNull(), F.greatest("closed", begin))
    up, down = (F.struct(at.alias("moment"), F.lit(step).alias("step")) for at, step in ((begin, 1), (end, -1)))
    return (
        sessions.where(F.col("home").isNull() & opened.isNotNull())
        .select("server", "protocol", F.explode(F.array(up, down)).alias("at"))
        .select("server", "protocol", "at.moment", "at.step")
        .where(F.col("moment").isNotNull())
    )


def _carried(portions: DataFrame) -> DataFrame:
    """The number of open sessions at the begin of each portion, as a step without a moment."""
    sums = portions.groupBy("server", "protocol", "bucket").agg(F.sum("step").alias("step"))
    before = Window.partitionBy("server", "protocol").orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    return sums.select(
        "server",
        "protocol",
        "bucket",
        F.lit(None).cast("timestamp").alias("moment"),
        F.coalesce(F.sum("step").over(before), F.lit(0)).alias("step"),
    )
