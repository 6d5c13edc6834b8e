"""Who it was: what is known of all sessions of one client together. Made from the table of sessions."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

_COUNTERS = ("objects_in", "objects_out", "bytes_in", "bytes_out")


def talkers(sessions: DataFrame) -> DataFrame:
    """How much each client sent and received, in how many sessions and how long, by who it was: routing id, actor and
    address. ``connected_seconds`` and the counters are of those sessions of which they are known. Sessions of other
    servers are left out, since they are counted there.

    :param sessions: the table of sessions.
    """
    # Whole microseconds: sums of them do not depend on the order.
    micros = F.round(F.col("duration_seconds") * 1_000_000).cast("bigint")
    return (
        sessions.where(F.col("home").isNull())
        .groupBy("server", "protocol", "routing_id", "actor", "address")
        .agg(
            F.count("*").alias("sessions"),
            (F.coalesce(F.sum(micros), F.lit(0)) / 1_000_000).alias("connected_seconds"),
            *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _COUNTERS],
        )
        .select("server", "protocol", "routing_id", "actor", "address", "sessions", "connected_seconds", *_COUNTERS)
    )


def identities(sessions: DataFrame) -> DataFrame:
    """Routing ids with which several sessions were there at the same time: two clients that go by one name, or one that
    came back before its old connection was found to be dead. ``overlaps`` is how many sessions were still there when
    the next one was opened; ``sessions``, ``addresses`` and ``actors`` are all that ever had that id; ``last_moment``
    is the last opening or closing of one. Sessions of other servers are left out.

    The id of a session is the last one that it had. A server never lets two hold one at once.

    :param sessions: the table of sessions.
    """
    own = sessions.where(F.col("home").isNull() & F.col("routing_id").isNotNull())
    # Most ids were made up for one session.
    several = own.groupBy("server", "routing_id").agg(F.count("*").alias("number")).where(F.col("number") > 1)
    of_several = own.join(several.select("server", "routing_id"), on=["server", "routing_id"], how="left_semi")
    in_order = Window.partitionBy("server", "routing_id").orderBy("opened", "session")
    # One without an end is still there.
    is_open = F.lag("state").over(in_order) == "open"
    overlaps = F.when(is_open, F.col("opened").isNotNull()).otherwise(F.lag("closed").over(in_order) > F.col("opened"))
    return (
        of_several.withColumn("overlaps", F.coalesce(overlaps, F.lit(False)))
        .groupBy("server", "routing_id")
        .agg(
            F.count("*").alias("sessions"),
            F.array_sort(F.collect_set("address")).alias("addresses"),
            F.array_sort(F.collect_set("actor")).alias("actors"),
            F.min("opened").alias("first_moment"),
            F.max(F.greatest("opened", "closed")).alias("last_moment"),
            F.count_if("overlaps").alias("overlaps"),
        )
        .where(F.col("overlaps") > 0)
        .select("server", "routing_id", "sessions", "addresses", "actors", "first_moment", "last_moment", "overlaps")
    )
