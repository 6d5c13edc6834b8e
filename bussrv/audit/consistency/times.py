"""Findings about time that runs backwards from one record to the next.

Each segment is checked on its own, and then the border to the next one. Records that the journal writes on its own
(``journal.*``) are left out: their time is that of writing, so earlier times may follow.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.consistency.known import by_journal, key_of, with_servers
from bussrv.audit.tables.findings import as_findings, words
from bussrv.audit.tables.period import Period

STEP_BACK = 5 * 1_000_000
"""Microseconds that a clock may be set back between two records: time synchronisation does that."""

_STAMP = ("seq", "at", "mono", "boot_key")


def findings(records: DataFrame, boots: DataFrame, period: Period) -> DataFrame:
    """Records that are earlier than the one before them, by the time of day or by the monotonic clock."""
    stamps = records.where(~F.col("given") & ~by_journal()).select(
        key_of("server").alias("server_key"),
        "segment_first",
        "seq",
        F.unix_micros("moment").alias("at"),
        "mono",
        key_of("boot").alias("boot_key"),
    )
    inside = Window.partitionBy("server_key", "segment_first").orderBy("seq", "at", "mono")
    between = Window.partitionBy("server_key").orderBy("seq", "at", "mono")
    # Only the ends of each segment and its findings are left: few rows.
    is_first, is_last = F.col("seq_before").isNull(), F.col("seq_behind").isNull()
    left = (
        _with_stamp_before(stamps, inside)
        .withColumn("seq_behind", F.lead("seq").over(inside))
        .where(is_first | is_last | _set_back() | _ran_back())
    )
    ends = left.where(is_first | is_last).withColumn("begins", is_first).drop(*[f"{name}_before" for name in _STAMP])
    found = left.select(*_columns()).unionByName(_with_stamp_before(ends, between).where("begins").select(*_columns()))
    return _as_findings(found.where(_set_back() | _ran_back()), boots, period)


def _with_stamp_before(stamps: DataFrame, in_order: WindowSpec) -> DataFrame:
    return stamps.select("*", *[F.lag(name).over(in_order).alias(f"{name}_before") for name in _STAMP])


def _columns() -> list[str]:
    return ["server_key", *_STAMP, *[f"{name}_before" for name in _STAMP]]


def _set_back() -> Column:
    return F.coalesce(F.col("at") < F.col("at_before") - STEP_BACK, F.lit(False))


def _ran_back() -> Column:
    same = F.col("boot_key") == F.col("boot_key_before")
    return F.coalesce(same & (F.col("mono") < F.col("mono_before")), F.lit(False))


def _as_findings(found: DataFrame, boots: DataFrame, period: Period) -> DataFrame:
    kinds = F.array_compact(
        F.array(F.when(_set_back(), F.lit("time-backwards")), F.when(_ran_back(), F.lit("clock-backwards")))
    )
    each = found.where(period.is_begun(F.timestamp_micros("at"))).withColumn("kind", F.explode(kinds))
    names = boots.select("boot", key_of("boot").alias("boot_key")).distinct()
    by = F.when(F.col("kind") == "time-backwards", F.col("at_before") - F.col("at")).otherwise(
        F.col("mono_before") - F.col("mono")
    )
    clock = F.when(F.col("kind") == "time-backwards", F.lit("time of day")).otherwise(F.lit("monotonic clock"))
    message = words(
        "record ", F.col("seq"), " is ", F.round(by / 1_000_000, 3), " s earlier than record ", F.col("seq_before")
    )
    return as_findings(
        with_servers(each, boots)
        .join(names, on="boot_key", how="left")
        .select(
            "kind",
            "server",
            "boot",
            F.col("seq").alias("first_seq"),
            F.col("seq").alias("last_seq"),
            F.timestamp_micros("at").alias("moment"),
            F.concat(message, F.lit(", by the "), clock).alias("message"),
        )
    )
