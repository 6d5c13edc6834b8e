"""When sessions begin and cease to provide or want services, and how many providers are left."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.timeline.causes import place

PROVIDES = ("service.registered", "service.unregistered")
WANTS = ("subscription.added", "subscription.removed")


def changes(records: DataFrame, services: DataFrame, kind: tuple[str, str]) -> DataFrame:
    """The records with which a session begins (``is_on``) or ceases to provide or want a service.

    Columns: ``server, session, service, event, at, given, is_on``. Records that change nothing are left out. The end
    of a session ends everything that it still provided or wanted.

    :param services: ``server`` and ``service``: the services to look at.
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
    """The state of a service after each change of its providers: their number ``providers``, and

    - ``missing_since``: at a first provider, the moment when the last one before it went; NULL if there was none,
    - ``missing_until`` and ``next_session``: at the end of the last provider, the moment and session of the next one.

    :param provisions: what :func:`changes` returns for ``PROVIDES``.
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
