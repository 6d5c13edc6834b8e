"""The context of a record, from the records near it: why something ended (crashes and stops of the server, lost links,
replaced sessions), and when services have providers.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

CRASHED, STOPPED, LINK_LOST, REPLACED = "server-crashed", "server-stopped", "link-lost", "replaced"
"""The reasons that neighbouring records explain."""

LEFT, RESUMED, CLOSED = "session.left", "session.resumed", "session.closed"

PROVIDES = ("service.registered", "service.unregistered")
WANTS = ("subscription.added", "subscription.removed")

_BOOTS = ("server.started", "server.recovered")
_NAMES = ("session.opened", "session.identified")
# These may stand between the end of a service and the end of the session that caused it.
_BETWEEN = ("service.unregistered", "subscription.removed", "link.down")


def place() -> Column:
    """The place of a record among those of its server: also with equal numbers, and after the baseline."""
    # The records of a baseline stand in another order than their times, if a clock was set back.
    return F.struct("seq", F.when(~F.col("given"), F.col("moment")).alias("moment"), "mono")


def with_neighbours(records: DataFrame) -> DataFrame:
    """Records with their place ``at`` and the neighbours that explain an end:

    - ``following``: the next record of the session that is not the end of a service (``event, at, reason, session``),
    - ``down``: the link that was lost last before, in the same boot (``at, link, reason``),
    - ``taker``: the next session with the routing id. Only closings use it,
    - ``left_at`` and ``returned``: the last time that the client left before, and its next return, or the end of the
      session (``event, moment``).
    """
    of_session = Window.partitionBy("server", "session").orderBy("at")
    of_boot = Window.partitionBy("server", "boot").orderBy("at")
    of_name = Window.partitionBy("server", "routing_id").orderBy("at")
    earlier, later = (Window.unboundedPreceding, -1), (1, Window.unboundedFollowing)
    here = F.struct("event", "at", "reason")
    down = F.struct("at", F.col("routing_id").alias("link"), "reason")
    is_lost = (F.col("event") == "link.down") & ~F.col("given")
    left = F.when(F.col("event") == LEFT, F.col("moment"))
    returned = _next(F.struct("event", "moment"), F.col("event").isin(RESUMED, CLOSED))
    return (
        records.withColumn("at", place())
        .withColumn("left_at", F.last(left, ignorenulls=True).over(of_session.rowsBetween(*earlier)))
        .withColumn("returned", returned.over(of_session.rowsBetween(*later)))
        .withColumn("following", _next(here, ~F.col("event").isin(*_BETWEEN)).over(of_session.rowsBetween(*later)))
        .withColumn("down", F.last(F.when(is_lost, down), ignorenulls=True).over(of_boot))
        .withColumn("taker", _next(F.col("session"), F.col("event").isin(*_NAMES)).over(of_name.rowsBetween(*later)))
    )


def _next(value: Column, among: Column) -> Column:
    return F.first(F.when(among, value), ignorenulls=True)


def ends_with_session() -> Column:
    """Whether a service or a subscription ended because its session did. The closing of the session follows."""
    is_end = F.col("event").isin("service.unregistered", "subscription.removed")
    same = (F.col("following.event") == "session.closed") & (F.col("following.reason") == F.col("reason"))
    return F.when(is_end, F.coalesce(same, F.lit(False)))


def boots(records: DataFrame) -> DataFrame:
    """One row a boot: its start ``begun``, and ``silent_since``, the last moment of the boot before it.

    ``silent_since`` is NULL if the boot before it was stopped, or if there was none.
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
    """The records that caused an end: stops, boots after a crash, lost links.

    :param found: the rows of ``near`` that are to be explained.
    :param near: what :func:`with_neighbours` returns.
    :returns: ``server`` and ``at`` of each cause.
    """
    reasons = found.where(F.col("reason").isin(CRASHED, STOPPED)).select("server", "boot", "reason").distinct()
    reason = F.when(F.col("event") == "server.stopped", STOPPED).when(F.col("event").isin(*_BOOTS), CRASHED)
    of_boots = near.select("server", "boot", "at", reason.alias("reason")).join(
        F.broadcast(reasons), on=["server", "boot", "reason"], how="left_semi"
    )
    lost = found.where((F.col("reason") == LINK_LOST) & F.col("down").isNotNull())
    return of_boots.select("server", "at").unionByName(lost.select("server", F.col("down.at").alias("at"))).distinct()


def explanations() -> list[Column]:
    """The columns that explain an end, made of those of :func:`with_neighbours` and :func:`boots`:

    - ``crashed_after`` and ``back_at``: a crash,
    - ``link`` and ``link_reason``: a lost link,
    - ``newcomer``: the session that replaced this one,
    - ``left_at``: when the client that is back now left,
    - ``absence_over``: when the client that leaves now was back, or its session was closed; ``resumed``: which of both.
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
        F.when(F.col("event") == RESUMED, F.col("left_at")).alias("left_at"),
        F.when(F.col("event") == LEFT, F.col("returned.moment")).alias("absence_over"),
        F.when(F.col("event") == LEFT, F.col("returned.event") == RESUMED).alias("resumed"),
    ]


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
