"""Why something ended: crashes and stops of the server, lost links, newcomers; found in the records around it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.replay.presence import place

CRASHED, STOPPED, LINK_LOST, REPLACED = "server-crashed", "server-stopped", "link-lost", "replaced"
"""The reasons of which there is more to be found."""

_BOOTS = ("server.started", "server.recovered")
_NAMES = ("session.opened", "session.identified")
# What comes between the end of a service and that of its session, if the one is because of the other.
_BETWEEN = ("service.unregistered", "subscription.removed", "link.down")


def with_neighbours(records: DataFrame) -> DataFrame:
    """Records with ``at``, their place, and what of those around them tells why something ended:

    - ``following``: the next record of the session that is not the end of a service (``event, at, reason, session``),
    - ``down``: the link that was lost last before, in the same boot (``at, link, reason``),
    - ``taker``: the next session that has the routing id; asked of closings only.
    """
    of_session = Window.partitionBy("server", "session").orderBy("at")
    of_boot = Window.partitionBy("server", "boot").orderBy("at")
    of_name = Window.partitionBy("server", "routing_id").orderBy("at")
    behind = (1, Window.unboundedFollowing)
    here = F.struct("event", "at", "reason")
    down = F.struct("at", F.col("routing_id").alias("link"), "reason")
    is_lost = (F.col("event") == "link.down") & ~F.col("given")
    return (
        records.withColumn("at", place())
        .withColumn("following", _next(here, ~F.col("event").isin(*_BETWEEN)).over(of_session.rowsBetween(*behind)))
        .withColumn("down", F.last(F.when(is_lost, down), ignorenulls=True).over(of_boot))
        .withColumn("taker", _next(F.col("session"), F.col("event").isin(*_NAMES)).over(of_name.rowsBetween(*behind)))
    )


def _next(value: Column, among: Column) -> Column:
    return F.first(F.when(among, value), ignorenulls=True)


def ends_with_session() -> Column:
    """Whether the end of a service or a subscription is due to that of its session, which follows."""
    is_end = F.col("event").isin("service.unregistered", "subscription.removed")
    same = (F.col("following.event") == "session.closed") & (F.col("following.reason") == F.col("reason"))
    return F.when(is_end, F.coalesce(same, F.lit(False)))


def boots(records: DataFrame) -> DataFrame:
    """Each boot: ``begun``, its beginning, and ``silent_since``: when the last was heard of the boot before it, unless
    that stopped in an orderly way.
    """
    each = (
        records.where(~F.col("given"))
        .groupBy("server", "boot")
        .agg(
            F.min(place()).alias("first"),
            F.max_by("moment", place()).alias("last_moment"),
            F.bool_or(F.col("event") == "server.stopped").alias("is_stopped"),
        )
    )
    before = F.lag(F.struct("last_moment", "is_stopped")).over(Window.partitionBy("server").orderBy("first"))
    return each.withColumn("before", before).select(
        "server",
        "boot",
        F.when(~F.col("before.is_stopped"), F.col("before.last_moment")).alias("silent_since"),
        F.col("first.moment").alias("begun"),
    )


def causes(found: DataFrame, near: DataFrame) -> DataFrame:
    """The records that tell of what took something away: stops, boots behind a crash, links that went down.

    :param found: the rows of ``near`` that it was taken away in.
    :param near: what :func:`with_neighbours` returns.
    :returns: ``server`` and ``at`` of each.
    """
    reasons = found.where(F.col("reason").isin(CRASHED, STOPPED)).select("server", "boot", "reason").distinct()
    reason = F.when(F.col("event") == "server.stopped", STOPPED).when(F.col("event").isin(*_BOOTS), CRASHED)
    of_boots = near.select("server", "boot", "at", reason.alias("reason")).join(
        F.broadcast(reasons), on=["server", "boot", "reason"], how="left_semi"
    )
    lost = found.where((F.col("reason") == LINK_LOST) & F.col("down").isNotNull())
    return of_boots.select("server", "at").unionByName(lost.select("server", F.col("down.at").alias("at"))).distinct()


def explanations() -> list[Column]:
    """What is said of causes, from the columns of :func:`with_neighbours` and :func:`boots`: ``crashed_after`` and
    ``back_at`` of a crash, ``link`` and ``link_reason`` of a lost link, ``newcomer`` when another session came instead.
    """
    by_crash = (F.col("reason") == CRASHED) | F.col("event").isin(*_BOOTS)
    is_crash = by_crash & F.col("silent_since").isNotNull()
    by_link, by_other = F.col("reason") == LINK_LOST, F.col("reason") == REPLACED
    is_named = F.col("routing_id").isNotNull() & (F.col("event") != "subscription.removed")
    is_other = by_other & is_named & (F.col("taker") != F.col("session"))
    return [
        F.when(is_crash, F.col("silent_since")).alias("crashed_after"),
        F.when(is_crash, F.col("begun")).alias("back_at"),
        F.when(by_link, F.col("down.link")).alias("link"),
        F.when(by_link, F.col("down.reason")).alias("link_reason"),
        F.when(is_other, F.col("taker")).alias("newcomer"),
    ]
