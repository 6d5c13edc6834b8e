"""The tables of services: when each was provided and wanted, outages, and subscriptions in vain.

All are made from :func:`spans`. A closed session provides and wants nothing, even if records of it follow. After a
crash, the next boot closes it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.activity.sweep import in_order, key_of, seconds, union, watched
from bussrv.audit.tables.period import Period

_BEGINS = ("service.registered", "subscription.added")
_ENDS = ("service.unregistered", "subscription.removed")
_OF = ("server", "service")
_PAIR = ("key", "server", "session", "is_provided", "service")


def spans(records: DataFrame, servers: DataFrame, period: Period) -> DataFrame:
    """Each interval in which a session provided (``is_provided``) or wanted a service.

    Columns: ``server``, ``session``, ``service``, ``protocol`` and ``routing_id`` of the record that began it,
    ``begin``, ``end``, ``ended``. If it did not end, ``end`` is the last record of its server. A second begin before
    the end has no effect. Intervals are clipped to the observed time of the server within the period.
    """
    in_pair = Window.partitionBy(*_PAIR).orderBy("seq", "moment", "mono")
    event = F.col("event")
    changes = (
        records.where(event.isin(*_BEGINS, *_ENDS) & F.col("service").isNotNull())
        .select(
            key_of("server", "session").alias("key"),
            *("server", "session", "service", "protocol", "routing_id", "seq", "moment", "mono"),
            event.startswith("service").alias("is_provided"),
            event.isin(*_BEGINS).alias("begins"),
        )
        # Partitioned by session, like the closings, so that the join needs no other exchange.
        .repartition("key", "server", "session")
        .withColumn("went_on", F.lag("begins", 1, False).over(in_pair))
        .where("begins <> went_on")
        .withColumn("next", F.lead(in_order()).over(in_pair))
        .where("begins")
    )
    over = F.least("next", "closing")
    begin, ended = F.greatest("moment", "watch_begin"), over.isNotNull()
    end = F.when(ended, F.greatest("moment", over["moment"])).otherwise(F.col("watch_end"))
    is_in_time = F.col("closing").isNull() | (in_order() <= F.col("closing"))
    # Intervals that ended before the server was observed are left out. Empty ones stay.
    is_watched = (end > F.col("watch_begin")) | (F.col("moment") >= F.col("watch_begin"))
    return (
        changes.join(_closings(records), on=["key", "server", "session"], how="left")
        .join(watched(servers, period), on="server", how="inner")
        .where(is_in_time & is_watched)
        .select(
            *("server", "session", "service", "is_provided", "protocol", "routing_id"),
            begin.alias("begin"),
            F.greatest(end, begin).alias("end"),
            ended.alias("ended"),
        )
    )


def _closings(records: DataFrame) -> DataFrame:
    closed = records.where("event = 'session.closed'").withColumn("key", key_of("server", "session"))
    return closed.groupBy("key", "server", "session").agg(F.min(in_order()).alias("closing"))


def uptimes(spans: DataFrame) -> DataFrame:
    """Every interval in which at least one session provided a service: ``server``, ``service``, ``begin``, ``end``."""
    return union(spans.where("is_provided"), *_OF)


def services(records: DataFrame, spans: DataFrame, uptimes: DataFrame, servers: DataFrame, period: Period) -> DataFrame:
    """Each service that was provided or wanted, also if only a record of the period says so."""
    merged = (
        _counted(records, period)
        .join(_held(spans), on=list(_OF), how="full")
        .join(_lengths(uptimes).withColumnRenamed("covered", "provided_seconds"), on=list(_OF), how="left")
        .join(_lengths(union(spans, *_OF)).select(*_OF, "covered"), on=list(_OF), how="left")
        .join(watched(servers, period), on="server", how="inner")
    )
    provided = F.coalesce("provided", F.lit(False))
    is_up_last = provided & (F.col("last_end") == F.col("watch_end"))
    outages = F.coalesce("intervals", F.lit(0)) - F.coalesce(is_up_last, F.lit(False)).cast("bigint")
    last_outage = F.when(~is_up_last, seconds("last_end", "watch_end"))
    observed = seconds(F.least("first_span", "first_moment"), "watch_end")
    up = F.coalesce("provided_seconds", F.lit(0.0))
    return merged.select(
        *_OF,
        _count("providers"),
        _count("registrations"),
        *("first_registered", "last_registered"),
        up.alias("provided_seconds"),
        observed.alias("observed_seconds"),
        F.try_divide(up, observed).alias("availability"),
        provided.alias("provided"),
        outages.alias("outages"),
        F.greatest("longest_gap", last_outage).alias("longest_outage_seconds"),
        F.try_divide(up, outages).alias("mtbf_seconds"),
        F.col("mean_gap").alias("mttr_seconds"),
        _count("subscribers"),
        _count("subscriptions"),
        F.greatest(F.coalesce("covered", F.lit(0.0)) - up, F.lit(0.0)).alias("unprovided_seconds"),
        ((F.coalesce("providers", F.lit(0)) > 0) & (F.coalesce("subscribers", F.lit(0)) == 0)).alias("unused"),
    )


def _count(column: str) -> Column:
    return F.coalesce(column, F.lit(0)).alias(column)


def _counted(records: DataFrame, period: Period) -> DataFrame:
    """The records of the period, counted by service."""
    moment, event = F.col("moment"), F.col("event")
    named = event.isin(*_BEGINS, *_ENDS) & F.col("service").isNotNull()
    registered = event == "service.registered"
    return (
        records.where(named & ~F.col("given") & period.is_begun(moment))
        .groupBy(*_OF)
        .agg(
            F.count_if(registered).alias("registrations"),
            F.min(F.when(registered, moment)).alias("first_registered"),
            F.max(F.when(registered, moment)).alias("last_registered"),
            F.count_if(event == "subscription.added").alias("subscriptions"),
            F.min("moment").alias("first_moment"),
        )
    )


def _held(spans: DataFrame) -> DataFrame:
    """The providers and subscribers of each service, counted."""
    by_session = spans.groupBy(*_OF, "session", "is_provided").agg(
        F.min("begin").alias("begin"), F.bool_or(~F.col("ended")).alias("lasts")
    )
    return by_session.groupBy(*_OF).agg(
        F.count_if("is_provided").alias("providers"),
        F.count_if(~F.col("is_provided")).alias("subscribers"),
        F.min("begin").alias("first_span"),
        F.bool_or(F.col("is_provided") & F.col("lasts")).alias("provided"),
    )


def _lengths(intervals: DataFrame) -> DataFrame:
    """The total length of the intervals of each service, and the gaps between them."""
    gap = seconds("end", F.lead("begin").over(Window.partitionBy(*_OF).orderBy("begin")))
    return (
        intervals.select(*_OF, "begin", "end", gap.alias("gap"))
        .groupBy(*_OF)
        .agg(
            (F.sum(F.unix_micros("end") - F.unix_micros("begin")) / 1_000_000).alias("covered"),
            F.count("*").alias("intervals"),
            F.max("end").alias("last_end"),
            F.max("gap").alias("longest_gap"),
            F.avg("gap").alias("mean_gap"),
        )
    )


def orphans(spans: DataFrame, uptimes: DataFrame) -> DataFrame:
    """Subscriptions to a service that no client provided while they lasted. ``waited_seconds`` is their length."""
    latest = Window.partitionBy(*_OF).orderBy("begin", "is_wanted").rowsBetween(Window.unboundedPreceding, 0)
    is_alone = F.col("back").isNull() | ((F.col("end") <= F.col("back")) & (F.col("begin") < F.col("back")))
    return (
        spans.where("NOT is_provided")
        .withColumn("is_wanted", F.lit(True))
        .unionByName(_without(uptimes), allowMissingColumns=True)
        .withColumn("back", F.last("back", ignorenulls=True).over(latest))
        .where(F.col("is_wanted") & is_alone)
        .select(
            *("server", "session", "service", "protocol", "routing_id", "begin", "end", "ended"),
            seconds("begin", "end").alias("waited_seconds"),
        )
    )


def _without(uptimes: DataFrame) -> DataFrame:
    """Each interval without a provider, of services that have one before or after it: ``begin`` and ``back``."""
    never_before, never_again = F.timestamp_micros(F.lit(-(2**62))), F.timestamp_micros(F.lit(2**62))
    in_order_of_time = Window.partitionBy(*_OF).orderBy("begin")
    behind = F.struct(F.col("end"), F.coalesce(F.lead("begin").over(in_order_of_time), never_again).alias("back"))
    before = F.struct(never_before.alias("end"), F.col("begin").alias("back"))
    is_first = F.row_number().over(in_order_of_time) == 1
    return (
        uptimes.select(*_OF, F.when(is_first, F.array(before, behind)).otherwise(F.array(behind)).alias("gaps"))
        .select(*_OF, F.explode("gaps").alias("gap"))
        .select(*_OF, F.col("gap.end").alias("begin"), F.col("gap.back").alias("back"))
        .withColumn("is_wanted", F.lit(False))
    )
