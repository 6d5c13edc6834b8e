"""When sessions begin and cease to provide or want services, and how many providers that leaves."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.replay.presence import place

PROVIDES = ("service.registered", "service.unregistered")
WANTS = ("subscription.added", "subscription.removed")


def turns(records: DataFrame, services: DataFrame, kind: tuple[str, str]) -> DataFrame:
    """The records with which a session begins (``is_on``) or ceases to provide or want a service: ``server, session,
    service, event, at, given``. One that changes nothing is left out; the end of a session ends what is left.

    :param services: ``server`` and ``service``: those in question.
    :param kind: ``PROVIDES`` or ``WANTS``.
    """
    begins, ends = kind
    columns = ("server", "session", "service", "event", "at", "given")
    said = (
        records.where(F.col("event").isin(begins, ends))
        .join(F.broadcast(services), on=["server", "service"], how="left_semi")
        .withColumn("at", place())
        .select(*columns)
    )
    held = said.select("server", "session", "service").distinct()
    closings = (
        records.where(F.col("event") == "session.closed")
        .select("server", "session", "event", place().alias("at"), "given")
        .join(held, on=["server", "session"], how="inner")
        .select(*columns)
    )
    of_session = Window.partitionBy("server", "session", "service").orderBy("at")
    was_on = F.coalesce(F.lag("is_on").over(of_session), F.lit(False))
    return (
        said.unionByName(closings)
        .withColumn("is_on", F.col("event") == begins)
        .withColumn("was_on", was_on)
        .where(F.col("is_on") != F.col("was_on"))
        .drop("was_on")
    )


def availability(provisions: DataFrame) -> DataFrame:
    """What each change of who provides a service leaves: ``providers``, how many there are then, and

    - ``missing_since``: at the first provider, when the one before was gone; NULL if there was none before,
    - ``missing_until`` and ``next_session``: at the end of the last provider, when there was one again, and which.

    :param provisions: what :func:`turns` returns for ``PROVIDES``.
    """
    of_service = Window.partitionBy("server", "service").orderBy("at", "session")
    up_to_now = of_service.rowsBetween(Window.unboundedPreceding, 0)
    later = of_service.rowsBetween(1, Window.unboundedFollowing)
    step = F.when(F.col("is_on"), 1).otherwise(-1)
    is_first = F.col("is_on") & (F.col("providers") == 1)
    is_last = ~F.col("is_on") & (F.col("providers") == 0)
    following = F.first(F.when(F.col("is_on"), F.struct("at", "session")), ignorenulls=True).over(later)
    return (
        provisions.withColumn("providers", F.sum(step).over(up_to_now))
        .withColumn("before", F.lag("at").over(of_service))
        .withColumn("following", following)
        .select(
            "server",
            "session",
            "service",
            "event",
            "at",
            "given",
            "is_on",
            "providers",
            F.when(is_first, F.col("before.moment")).alias("missing_since"),
            F.when(is_last, F.col("following.at.moment")).alias("missing_until"),
            F.when(is_last, F.col("following.session")).alias("next_session"),
        )
    )
