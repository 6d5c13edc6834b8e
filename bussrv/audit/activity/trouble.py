"""The tables of events, refusals and reconnect storms.

Each scans the records once, and counts before it exchanges rows, so there is little to sort.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.activity.address import address_of
from bussrv.audit.tables.period import Period

REFUSALS = ("service.refused", "subscription.refused", "auth.failed", "access.denied", "limit.reached")
"""The events of refusals, failures and limits."""

STORM = 10
"""The sessions in one minute from one address that make a reconnect storm."""

_MINUTE = 60_000_000
_DAY = 24 * 60 * _MINUTE


def events(records: DataFrame, period: Period) -> DataFrame:
    """The number of records of each event, by day.

    ``suppressed``: those left out of the journal because one address caused too many.
    """
    return (
        _within(records, period)
        .groupBy("server", "event", "outcome", "protocol", _date().alias("date"))
        .agg(*_counts())
        .select("server", "event", "outcome", "records", "suppressed", "date", "protocol")
    )


def refusals(records: DataFrame, period: Period) -> DataFrame:
    """Refusals, failed logins and limits by day, client, address and reason.

    - ``claimed``: of a failed login, the user that was tried,
    - ``limit``: the option of a limit that was reached,
    - ``suppressed``: records left out of the journal before these, of the same event and address, maybe for another
      reason.
    """
    return (
        _within(records.where(F.col("event").isin(*REFUSALS)), period)
        .withColumn("address", address_of(F.col("peer")))
        .groupBy("server", "event", "reason", "limit", "actor", "claimed", "address", "protocol", _date().alias("date"))
        .agg(
            *_counts(),
            F.min("seq").alias("first_seq"),
            F.min("moment").alias("first_moment"),
            F.max("moment").alias("last_moment"),
        )
        .select(
            "server",
            "event",
            "reason",
            "limit",
            "actor",
            "claimed",
            "address",
            "records",
            "suppressed",
            "first_seq",
            "first_moment",
            "last_moment",
            "date",
            "protocol",
        )
    )


def storms(records: DataFrame, period: Period) -> DataFrame:
    """Reconnect storms: successive minutes (UTC) in each of which one address opened at least ``STORM`` sessions.

    ``begin`` and ``end`` are the first and the last opening, ``openings`` their number, and ``peak`` the most in one
    minute. Openings that were left out of the journal count at the time of the record that counts them. Remote sessions
    do not count.
    """
    in_order = Window.partitionBy("server", "protocol", "address").orderBy("minute")
    # In successive minutes, the minute and the row number both grow by one.
    storm = F.col("minute") - F.row_number().over(in_order)
    return (
        _busy_minutes(records, period)
        .withColumn("storm", storm)
        .groupBy("server", "protocol", "address", "storm")
        .agg(
            F.min("first_seq").alias("first_seq"),
            F.min("first_moment").alias("begin"),
            F.max("last_moment").alias("end"),
            F.sum("openings").alias("openings"),
            F.max("openings").alias("peak"),
        )
        .select("server", "protocol", "address", "first_seq", "begin", "end", "openings", "peak")
    )


def _busy_minutes(records: DataFrame, period: Period) -> DataFrame:
    opened = (F.col("event") == "session.opened") & F.col("home").isNull() & F.col("peer").isNotNull()
    return (
        _within(records.where(opened), period)
        .withColumn("address", address_of(F.col("peer")))
        .groupBy("server", "protocol", "address", F.floor(F.unix_micros("moment") / _MINUTE).alias("minute"))
        .agg(
            (F.count("*") + _left_out()).alias("openings"),
            F.min("seq").alias("first_seq"),
            F.min("moment").alias("first_moment"),
            F.max("moment").alias("last_moment"),
        )
        .where(F.col("openings") >= STORM)
    )


def _within(records: DataFrame, period: Period) -> DataFrame:
    return records.where(~F.col("given") & period.holds(F.col("moment")))


def _date() -> Column:
    """The day in UTC, in any time zone of the Spark session."""
    return F.date_from_unix_date(F.floor(F.unix_micros("moment") / _DAY).cast("int"))


def _counts() -> list[Column]:
    return [F.count("*").alias("records"), _left_out().alias("suppressed")]


def _left_out() -> Column:
    return F.coalesce(F.sum("suppressed"), F.lit(0))
