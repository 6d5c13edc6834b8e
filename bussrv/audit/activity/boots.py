"""The tables of servers and their boots: when they ran, and how they ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by


def boots(records: DataFrame) -> DataFrame:
    """Each boot of each server.

    - ``started``, ``stopped``: its records of the start and the stop are there.
    - ``ended``: it was stopped, or the server has a later boot.
    - ``crashed``: it ended without a stop.
    - ``down_seconds``: from the last record of the boot before to its first record, at least 0; NULL for a first boot.

    :param records: those of the baseline do not count.
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
    # The greatest text is found by sorting, which is slow: so only among the few rows of this stage.
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
    """The number of records of several rows, and the first and the last of them."""
    return [
        F.sum("records").alias("records"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
        F.min("first_moment").alias("first_moment"),
        F.max("last_moment").alias("last_moment"),
    ]


def servers(boots: DataFrame) -> DataFrame:
    """Each server: its records, the first and the last of them, its boots and crashes.

    :param boots: the table of :func:`boots`.
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
