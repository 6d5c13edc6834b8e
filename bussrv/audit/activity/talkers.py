"""The tables of traffic and of routing ids used twice, made from the table of sessions."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

_COUNTERS = ("objects_in", "objects_out", "bytes_in", "bytes_out")
_WHO = ("server", "protocol", "routing_id", "actor", "claimed", "address")


def talkers(sessions: DataFrame) -> DataFrame:
    """The traffic, sessions and connected time of each client: each routing id, actor, claimed name and address.

    ``connected_seconds`` and the counters include only sessions that have them. Remote sessions are left out: their own
    servers count them.

    :param sessions: the table of sessions.
    """
    # Whole microseconds: their sum does not depend on the order.
    micros = F.round(F.col("duration_seconds") * 1_000_000).cast("bigint")
    return (
        sessions.where(F.col("home").isNull())
        .groupBy(*_WHO)
        .agg(
            F.count("*").alias("sessions"),
            (F.coalesce(F.sum(micros), F.lit(0)) / 1_000_000).alias("connected_seconds"),
            *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _COUNTERS],
        )
        .select(
            "server",
            "protocol",
            "routing_id",
            "actor",
            "claimed",
            "address",
            "sessions",
            "connected_seconds",
            *_COUNTERS,
        )
    )


def identities(sessions: DataFrame) -> DataFrame:
    """Routing ids of several sessions at the same time.

    Two clients use one name, or a client came back before the server noticed that its old connection was dead. A server
    never gives one id to two sessions at once; the id of a session here is the last one that it had.

    - ``overlaps``: the sessions that were still open when the next one was opened,
    - ``sessions``, ``addresses``, ``actors``, ``claimed``: those of all sessions that ever had the id,
    - ``last_moment``: the last opening or closing of one of them.

    Remote sessions are left out.

    :param sessions: the table of sessions.
    """
    own = sessions.where(F.col("home").isNull() & F.col("routing_id").isNotNull())
    # Most ids belong to only one session.
    several = own.groupBy("server", "routing_id").agg(F.count("*").alias("number")).where(F.col("number") > 1)
    of_several = own.join(several.select("server", "routing_id"), on=["server", "routing_id"], how="left_semi")
    in_order = Window.partitionBy("server", "routing_id").orderBy("opened", "session")
    # A session without an end is still open.
    is_open = F.lag("state").over(in_order) == "open"
    overlaps = F.when(is_open, F.col("opened").isNotNull()).otherwise(F.lag("closed").over(in_order) > F.col("opened"))
    return (
        of_several.withColumn("overlaps", F.coalesce(overlaps, F.lit(False)))
        .groupBy("server", "routing_id")
        .agg(
            F.count("*").alias("sessions"),
            F.array_sort(F.collect_set("address")).alias("addresses"),
            F.array_sort(F.collect_set("actor")).alias("actors"),
            F.array_sort(F.collect_set("claimed")).alias("claimed"),
            F.min("opened").alias("first_moment"),
            F.max(F.greatest("opened", "closed")).alias("last_moment"),
            F.count_if("overlaps").alias("overlaps"),
        )
        .where(F.col("overlaps") > 0)
        .select(
            "server",
            "routing_id",
            "sessions",
            "addresses",
            "actors",
            "first_moment",
            "last_moment",
            "overlaps",
            "claimed",
        )
    )
