"""The registry at an instant, and the difference between two: of many servers at once, as the records tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.period import timestamp
from bussrv.audit.replay.presence import place, present
from bussrv.journal.moments import Moment

CAME, WENT, CHANGED = "came", "went", "changed"

Keep = Callable[[str, DataFrame], DataFrame]
"""Takes the name of a table and the table, and returns the same table, computed."""

REPLAYED = (
    "session.opened",
    "session.identified",
    "session.closed",
    "service.registered",
    "service.unregistered",
    "subscription.added",
    "subscription.removed",
    "subscription.renewed",
)
"""The events that change a registry."""

_IDENTITY = ("routing_ids", "actor", "name", "role", "vocabulary")


class Registry(NamedTuple):
    """Tables of what is there, or of what differs.

    :ivar sessions: ``server, session, protocol, routing_id, peer, opened, persistent, home, routing_ids, actor, name,
        role, vocabulary``.
    :ivar services: ``server, service, session, since``.
    :ivar subscriptions: ``server, session, service, interest, options, since``; ``interest`` and ``options`` are JSON,
        and without a ``service`` it is objects that are wanted.
    """

    sessions: DataFrame
    services: DataFrame
    subscriptions: DataFrame


def registry_at(records: DataFrame, moment: Moment, keep: Keep | None = None) -> Registry:
    """What was there at a moment, on every server.

    Where a clock was set back, a time came twice: then it is looked for where it came first.

    :param keep: computes a table once, such as :meth:`bussrv.audit.store.Store.keep`: each of the three tables is made
        from all that is still so at that moment.
    """
    past = up_to(records, moment)
    there = present(past)
    alive = (
        past.where(F.col("event").isin(*REPLAYED))
        .withColumn("at", place())
        .join(there.withColumnRenamed("routing_id", "own_routing_id"), on=["server", "session"], how="inner")
        .where(F.col("at") >= F.col("begun"))
    )
    if keep is not None:
        alive = keep(f"alive-{moment.seq}-{moment.time}", alive)
    return Registry(_sessions(alive), _services(alive), _subscriptions(alive))


def up_to(records: DataFrame, moment: Moment) -> DataFrame:
    """The records that a moment is behind."""
    if moment.seq is not None:
        return records.where(F.col("seq") <= moment.seq)
    if moment.time is None:
        return records
    # What was given has the times when it came about, whatever the clock said later.
    is_later = ~F.col("given") & (F.col("moment") > timestamp(moment.time))
    ends = records.where(is_later).groupBy("server").agg(F.min("seq").alias("end"))
    return (
        records.join(F.broadcast(ends), on="server", how="left")
        .where(F.col("end").isNull() | (F.col("seq") < F.col("end")))
        .drop("end")
    )


def difference(before: Registry, after: Registry) -> Registry:
    """What differs between two moments, in three tables: what tells a row from others, ``change`` (``CAME``, ``WENT``
    or ``CHANGED``), and the rows ``before`` and ``after``, of which one may be NULL.

    When somebody began to provide or want a service is no difference.
    """
    sessions = [name for name in after.sessions.columns if name not in {"server", "session"}]
    return Registry(
        _changes(before.sessions, after.sessions, ("server", "session"), sessions),
        _changes(before.services, after.services, ("server", "service", "session"), []),
        _changes(before.subscriptions, after.subscriptions, ("server", "session", "service"), ["interest", "options"]),
    )


def _sessions(alive: DataFrame) -> DataFrame:
    identified = F.col("event") == "session.identified"
    opening = F.struct("protocol", "peer", "moment", "persistent", "home")
    return (
        alive.groupBy("server", "session")
        .agg(
            F.min_by(opening, F.when(F.col("at") == F.col("begun"), F.col("at"))).alias("opening"),
            F.max_by(F.struct(*_IDENTITY), F.when(identified, F.col("at"))).alias("identity"),
            F.first("own_routing_id").alias("routing_id"),
        )
        .select(
            "server",
            "session",
            F.coalesce("opening.protocol", F.lit("")).alias("protocol"),
            "routing_id",
            F.coalesce("opening.peer", F.lit("")).alias("peer"),
            F.col("opening.moment").alias("opened"),
            F.coalesce("opening.persistent", F.lit(False)).alias("persistent"),
            "opening.home",
            F.coalesce("identity.routing_ids", F.array().cast("array<string>")).alias("routing_ids"),
            "identity.actor",
            "identity.name",
            "identity.role",
            "identity.vocabulary",
        )
    )


def _services(alive: DataFrame) -> DataFrame:
    registers = F.col("event") == "service.registered"
    named = alive.where(registers | (F.col("event") == "service.unregistered")).where(F.col("service").isNotNull())
    # Again while it is provided already, nothing changes.
    return (
        _since_last(named, "service.unregistered")
        .groupBy("server", "service", "session")
        .agg(F.min_by("moment", "at").alias("since"))
    )


def _subscriptions(alive: DataFrame) -> DataFrame:
    adds, renews = F.col("event") == "subscription.added", F.col("event") == "subscription.renewed"
    wanted = alive.where(adds | renews | (F.col("event") == "subscription.removed"))
    each = Window.partitionBy("server", "session", "service")
    added = F.max(F.when(adds, F.col("at"))).over(each)
    return (
        _since_last(wanted, "subscription.removed")
        .withColumn("added", added)
        .where(F.col("at") >= F.col("added"))
        .groupBy("server", "session", "service")
        .agg(
            F.min_by("interest", "at").alias("interest"),
            F.max_by("options", F.when(F.col("options").isNotNull(), F.col("at"))).alias("options"),
            F.min_by("moment", "at").alias("since"),
        )
    )


def _since_last(rows: DataFrame, end: str) -> DataFrame:
    """The rows behind the last ``end`` of the same session and service."""
    each = Window.partitionBy("server", "session", "service")
    last = F.max(F.when(F.col("event") == end, F.col("at"))).over(each)
    return rows.withColumn("last", last).where(F.col("last").isNull() | (F.col("at") > F.col("last"))).drop("last")


def _changes(before: DataFrame, after: DataFrame, key: tuple[str, ...], content: list[str]) -> DataFrame:
    row = F.struct(*after.columns)
    both = before.select(*key, row.alias("before"), F.lit(None).cast(_type_of(after)).alias("after")).unionByName(
        after.select(*key, F.lit(None).cast(_type_of(after)).alias("before"), row.alias("after"))
    )
    is_same = F.lit(True)
    for name in content:
        is_same = is_same & F.col(f"before.{name}").eqNullSafe(F.col(f"after.{name}"))
    change = (
        F.when(F.col("before").isNull(), F.lit(CAME))
        .when(F.col("after").isNull(), F.lit(WENT))
        .when(~is_same, F.lit(CHANGED))
    )
    return (
        both.groupBy(*key)
        .agg(F.max("before").alias("before"), F.max("after").alias("after"))
        .select(*key, change.alias("change"), "before", "after")
        .where(F.col("change").isNotNull())
    )


def _type_of(rows: DataFrame) -> str:
    return rows.schema.simpleString()
