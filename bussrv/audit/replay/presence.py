"""Which sessions are there behind the last of some records, and which routing id each has.

A server gives no two sessions the same routing id of their own. Whatever records say, the registry keeps to that: an
opening with a routing id that is taken opens nothing, and an identification with one leaves the session the one it
has. So what a record does may depend on all before it. That is followed up record by record only for sessions that ever
laid claim to a routing id while another one could have had it; in a sound journal there are none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

_HELD = "map<string,struct<begun:struct<seq:bigint,moment:timestamp,mono:bigint>,routing_id:string>>"


def place() -> Column:
    """Sorts the records of one server, also those that have the same number, behind what was given."""
    # What was given came about in another order than that of its times, if a clock was set back.
    return F.struct("seq", F.when(~F.col("given"), F.col("moment")).alias("moment"), "mono")


def present(records: DataFrame) -> DataFrame:
    """The sessions that are there behind the last of ``records``: ``server``, ``session``, ``begun`` (the place of the
    record that opened it) and ``routing_id``.
    """
    lives = _lives(records)
    contested = _contested(lives)
    key = ["server", "session", "life"]
    # Opening a session that is open already changes nothing.
    names = (F.col("at") == F.col("begun")) | (F.col("event") == "session.identified")
    calm = (
        lives.join(contested, on=key, how="left_anti")
        .where(F.col("at") >= F.col("begun"))
        .groupBy(*key)
        .agg(
            F.first("begun").alias("begun"),
            F.first("ended").alias("ended"),
            F.max_by("routing_id", F.when(names & F.col("routing_id").isNotNull(), F.col("at"))).alias("routing_id"),
        )
        .where(F.col("ended").isNull())
    )
    columns = ("server", "session", "begun", "routing_id")
    return calm.select(*columns).unionByName(_settled(lives.join(contested, on=key, how="left_semi")).select(*columns))


def _lives(records: DataFrame) -> DataFrame:
    """The records that open, identify and close sessions. ``life`` counts the closings of the session before each;
    ``begun`` and ``ended`` are the places of the first opening and of the closing in that life.
    """
    opens = (F.col("event") == "session.opened") & F.col("routing_id").isNotNull()
    closes = F.col("event") == "session.closed"
    before = Window.partitionBy("server", "session").orderBy("at").rowsBetween(Window.unboundedPreceding, -1)
    life = Window.partitionBy("server", "session", "life")
    return (
        records.where(opens | closes | (F.col("event") == "session.identified"))
        .select("server", "session", "event", "routing_id", place().alias("at"))
        .withColumn("life", F.count_if(closes).over(before))
        .withColumn("begun", F.min(F.when(opens, F.col("at"))).over(life))
        .withColumn("ended", F.min(F.when(closes, F.col("at"))).over(life))
    )


def _contested(lives: DataFrame) -> DataFrame:
    """The lives in which a session laid claim to a routing id that another one claimed in the same time. A claim counts
    until the session ends, since it is not known yet whether the session got anything else.
    """
    claims = (
        lives.where((F.col("event") != "session.closed") & (F.col("at") >= F.col("begun")))
        .where(F.col("routing_id").isNotNull())
        .groupBy("server", "routing_id", "session", "life")
        .agg(F.min("at").alias("since"), F.first("ended").alias("ended"))
        .withColumn("lasts", F.col("ended").isNull())
    )
    claim = Window.partitionBy("server", "routing_id").orderBy("since", "session")
    earlier = claim.rowsBetween(Window.unboundedPreceding, -1)
    follows = F.bool_or("lasts").over(earlier) | (F.max("ended").over(earlier) >= F.col("since"))
    following = F.lead("since").over(claim)
    is_followed = following.isNotNull() & (F.col("lasts") | (following <= F.col("ended")))
    return (
        claims.withColumn("is_contested", F.coalesce(follows, F.lit(False)) | is_followed)
        .where("is_contested")
        .select("server", "session", "life")
        .distinct()
    )


def _settled(lives: DataFrame) -> DataFrame:
    """What comes of contested sessions, one record of a server after the other."""
    steps = F.array_sort(F.collect_list(F.struct("at", "session", "event", "routing_id")))
    held = F.aggregate("steps", F.from_json(F.lit("{}"), _HELD), _step)
    return (
        lives.groupBy("server")
        .agg(steps.alias("steps"))
        .select("server", F.explode(held).alias("session", "held"))
        .select("server", "session", "held.begun", "held.routing_id")
    )


def _step(held: Column, step: Column) -> Column:
    session, routing_id = step["session"], step["routing_id"]
    own = F.try_element_at(held, session)
    others = F.map_filter(held, lambda each, _: each != session)
    is_taken = F.exists(F.map_values(others), lambda other: other["routing_id"] == routing_id)

    def with_own(begun: Column) -> Column:
        value = F.struct(begun.alias("begun"), routing_id.alias("routing_id"))
        return F.map_concat(others, F.create_map(session, value))

    is_free = routing_id.isNotNull() & ~is_taken
    return (
        F.when(step["event"] == "session.closed", others)
        .when((step["event"] == "session.opened") & own.isNull() & is_free, with_own(step["at"]))
        .when((step["event"] == "session.identified") & own.isNotNull() & is_free, with_own(own["begun"]))
        .otherwise(held)
    )
