"""The table of sessions."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.activity.address import address_of
from bussrv.audit.activity.sweep import key_of
from bussrv.audit.tables.period import Period

_TELLING = ("session.opened", "session.identified", "auth.succeeded", "session.closed")
"""The events that describe a session. All others are its actions."""

_COUNTERS = ("objects_in", "objects_out", "bytes_in", "bytes_out")


def sessions(records: DataFrame, period: Period) -> DataFrame:
    """Each session with a record, unless it was closed before the period: its names, times, services and traffic.

    ``date`` is that of its opening, or else of its first record.
    """
    known = _known(records)
    is_closed = F.col("closing").isNotNull()
    opened, closed = F.col("opening.moment"), F.col("closing.moment")
    peer = F.coalesce("opening.peer", "closing.peer", "other_peer")
    table = known.select(
        "session",
        "server",
        F.coalesce("opening.protocol", "closing.protocol", "other_protocol").alias("protocol"),
        F.coalesce("closing.routing_id", "identified.routing_id", "opening.routing_id", "other_routing_id").alias(
            "routing_id"
        ),
        F.coalesce("closing.actor", "acting.actor", "opening.actor").alias("actor"),
        F.coalesce("closing.claimed", "claiming.claimed", "opening.claimed").alias("claimed"),
        F.col("identified.name").alias("name"),
        F.col("identified.role").alias("role"),
        peer.alias("peer"),
        address_of(peer).alias("address"),
        F.when(is_closed, "closed").otherwise("open").alias("state"),
        opened.alias("opened"),
        closed.alias("closed"),
        (F.col("closing.duration") / 1_000_000).alias("duration_seconds"),
        F.col("closing.reason").alias("reason"),
        *[F.when(is_closed, F.coalesce(f"closing.{name}", F.lit(0))).alias(name) for name in _COUNTERS],
        F.when(opened.isNotNull(), F.coalesce("opening.persistent", F.lit(False))).alias("persistent"),
        F.col("opening.home").alias("home"),
        _names("provided"),
        _names("wanted"),
        F.coalesce("objects_wanted", F.lit(False)).alias("objects_wanted"),
        F.to_date(F.coalesce(opened, "first_moment")).alias("date"),
    )
    return table.where(F.col("closed").isNull() | period.is_begun(F.col("closed")))


def _known(records: DataFrame) -> DataFrame:
    """One row a session: first opening and closing, last identification, actor and claimed name, counted actions.

    If the opening and the closing are missing, its other records describe it. Values are compared as structs that begin
    with the order of records, which is definite even if two records have the same number.
    """
    event, service = F.col("event"), F.col("service")
    opening = ("protocol", "routing_id", "actor", "claimed", "peer", "persistent", "home")
    closing = ("protocol", "routing_id", "actor", "claimed", "peer", "duration", "reason", *_COUNTERS)
    acting = event.isin("session.identified", "auth.succeeded") & F.col("actor").isNotNull()
    claiming = (event == "session.identified") & F.col("claimed").isNotNull()
    added, telling = event == "subscription.added", event.isin(*_TELLING)
    return (
        records.where(F.col("session").isNotNull())
        .withColumn("key", key_of("server", "session"))
        .groupBy("key", "server", "session")
        .agg(
            F.min(_where(event == "session.opened", *opening)).alias("opening"),
            F.min(_where(event == "session.closed", *closing)).alias("closing"),
            F.max(_where(event == "session.identified", "routing_id", "name", "role")).alias("identified"),
            F.max(_where(acting, "actor")).alias("acting"),
            F.max(_where(claiming, "claimed")).alias("claiming"),
            F.min("moment").alias("first_moment"),
            F.collect_set(F.when(event == "service.registered", service)).alias("provided"),
            F.collect_set(F.when(added, service)).alias("wanted"),
            F.bool_or(added & service.isNull()).alias("objects_wanted"),
            *[
                F.min(F.when(~telling, F.col(name))).alias(f"other_{name}")
                for name in ("protocol", "routing_id", "peer")
            ],
        )
    )


def _where(condition: Column, *columns: str) -> Column:
    return F.when(condition, F.struct("seq", "moment", "mono", *columns))


def _names(column: str) -> Column:
    none = F.array().cast("array<string>")
    return F.coalesce(F.array_sort(column), none).alias(column)
