"""The boots of the servers: tables of what ran, from when until when, and how it ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by


def boots(records: DataFrame) -> DataFrame:
    """Each boot of each server that there are records of.

    ``started`` and ``stopped``: its first and last record, as an orderly server writes them, are there. ``ended``: it
    stopped, or there is a later boot of that server; ``crashed``: it ended and did not stop. ``down_seconds``: from the
    last record of the boot before to the first one of this, and not less than 0, wherever the clock was set meanwhile;
    NULL of the first boot.

    :param records: what was given does not count.
    """
    in_order = Window.partitionBy("server").orderBy("first_seq", "first_moment", "boot")
    down_micros = F.unix_micros("first_moment") - F.unix_micros(F.lag("last_moment").over(in_order))
    ended = F.col("stopped") | F.lead("boot").over(in_order).isNotNull()
    return _each_boot(records).select(
        "server",
        "boot",
        "records",
        "first_seq",
        "last_seq",
        "first_moment",
        "last_moment",
        "started",
        "stopped",
        ended.alias("ended"),
        (ended & ~F.col("stopped")).alias("crashed"),
        (F.when(down_micros < 0, 0).otherwise(down_micros) / 1_000_000).alias("down_seconds"),
        "version",
    )


def _each_boot(records: DataFrame) -> DataFrame:
    # Greatest texts are found by sorting, which takes long: so of the few rows that are left by then.
    by_version = (
        records.where(~F.col("given"))
        .groupBy("server", "boot", "version")
        .agg(
            F.count("*").alias("records"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            F.min("moment").alias("first_moment"),
            F.max("moment").alias("last_moment"),
            F.bool_or(F.col("event") == "server.started").alias("started"),
            F.bool_or(F.col("event") == "server.stopped").alias("stopped"),
        )
    )
    return by_version.groupBy("server", "boot").agg(
        *_together(),
        F.bool_or("started").alias("started"),
        F.bool_or("stopped").alias("stopped"),
        F.max("version").alias("version"),
    )


def _together() -> list[Column]:
    """How many records there are in several rows, and the first and last of them."""
    return [
        F.sum("records").alias("records"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
        F.min("first_moment").alias("first_moment"),
        F.max("last_moment").alias("last_moment"),
    ]


def servers(boots: DataFrame) -> DataFrame:
    """Each server: its records, the first and last of them, its boots, and how many of these crashed.

    :param boots: what :func:`boots` returns.
    """
    return (
        boots.groupBy("server")
        .agg(
            *_together(),
            F.count("*").alias("boots"),
            F.count_if("crashed").alias("crashes"),
        )
        .select("server", "records", "first_seq", "last_seq", "first_moment", "last_moment", "boots", "crashes")
    )
