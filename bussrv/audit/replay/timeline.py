"""What happened to one client or one service, and why: every record that concerns it, in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.activity.address import address_of
from bussrv.audit.period import Period
from bussrv.audit.replay.causes import REPLACED, boots, causes, ends_with_session, explanations, with_neighbours
from bussrv.audit.replay.presence import place
from bussrv.audit.replay.registry import Keep
from bussrv.audit.replay.turns import PROVIDES, WANTS, availability, turns

CONCERNS = CLIENT, SERVICE, WANTED, CAUSE = "client", "service", "wanted", "cause"
"""Why a record is in a timeline: it is about the client; about the service; about a service that the client wants; or
it tells of what took something of that away. The first that is so counts."""

_SHOWN = (
    *("server", "boot", "seq", "moment", "event", "outcome", "protocol", "session", "routing_id", "actor", "peer"),
    *("service", "reason", "suppressed", "limit", "value", "name", "role", "persistent", "home", "version", "message"),
    *("interest", "duration", "objects_in", "objects_out", "bytes_in", "bytes_out", "sessions_closed"),
)

LOOKED_AT = (*_SHOWN, "mono", "routing_ids", "vocabulary", "options", "given")
"""The columns of records that a replay looks at."""

_KNOWN_BY = ("routing_id", "actor", "peer")
_EVER = Period()


def timeline(records: DataFrame, name: str, keep: Keep, period: Period = _EVER) -> DataFrame:
    """Every record that concerns a client (the id of a session, a routing id, an actor, an address or a peer) or a
    service, in order: what it says, and

    - ``concern``: one of ``CONCERNS``,
    - ``who``, ``next_who``, ``newcomer_who``: what its session and the others that it names are known by,
    - ``about``: the service that ``providers``, ``missing_since``, ``missing_until`` and ``next_session`` say something
      of, see :func:`bussrv.audit.replay.turns.availability`,
    - ``with_session``: of the end of a service or a subscription, whether its session ended with it,
    - ``crashed_after``, ``back_at``, ``link``, ``link_reason``, ``newcomer``: see
      :func:`bussrv.audit.replay.causes.explanations`.

    A record that changes who provides several services is there once for each of them.

    :param keep: computes a table once, such as :meth:`bussrv.audit.store.Store.keep`: what is near is looked at from
        several sides.
    :param period: what is shown; what explains it may be outside.
    """
    subjects = keep("subjects", _sessions_of(records, name))
    services = keep("services", _services_of(records, subjects, name))
    near = keep("near", with_neighbours(_near(records, subjects, services)))
    available = keep("available", availability(turns(near, services, PROVIDES)))
    wants = keep("wants", turns(near, services, WANTS))
    found = keep(
        "found",
        _marked(
            near,
            [
                (CLIENT, _of_client(near, subjects, name)),
                (SERVICE, near.where(F.col("service") == name)),
                (SERVICE, _closings(near, [available, wants], name)),
                (WANTED, _of_wanted(subjects, available, wants)),
            ],
        ),
    )
    causing = causes(found, near).join(found.select("server", "at"), on=["server", "at"], how="left_anti")
    explained = (
        found.unionByName(_marked(near, [(CAUSE, causing)]))
        .join(F.broadcast(keep("boots", boots(records))), on=["server", "boot"], how="left")
        .select(*_SHOWN, "at", "concern", ends_with_session().alias("with_session"), *explanations())
    )
    told = keep("told", _with_availability(explained, available))
    return _in_order(_with_names(told, near), period)


def known_names(records: DataFrame) -> DataFrame:
    """Every ``name`` of a client or a service that has a timeline."""
    names = F.array("session", *_KNOWN_BY, address_of(F.col("peer")), "service")
    every = F.concat(names, F.coalesce("routing_ids", F.array().cast("array<string>")))
    return records.select(F.explode(every).alias("name")).where(F.col("name") != "").distinct()


def similar_names(records: DataFrame, name: str, most: int = 5) -> list[str]:
    """The names that have a timeline and are most like ``name``."""
    there, asked = F.lower("name"), F.lower(F.lit(name))
    distance = F.levenshtein(there, asked)
    # A single letter is in nearly every name.
    is_part = F.contains(there, asked) | (F.contains(asked, there) & (F.length("name") > 1))
    is_like = (distance <= max(1, len(name) // 3)) | is_part
    found = known_names(records).where(is_like).orderBy(distance, "name").limit(most)
    return [row["name"] for row in found.collect()]


def _names_client(name: str) -> Column:
    columns = [F.col("session"), *[F.col(each) for each in _KNOWN_BY], address_of(F.col("peer"))]
    tests = [column == name for column in columns] + [F.array_contains("routing_ids", name)]
    return reduce(Column.__or__, [F.coalesce(test, F.lit(False)) for test in tests])


def _sessions_of(records: DataFrame, name: str) -> DataFrame:
    named = records.where(F.col("session").isNotNull() & _names_client(name))
    return named.select("server", "session").distinct()


def _services_of(records: DataFrame, subjects: DataFrame, name: str) -> DataFrame:
    """The service of that name, and those that the client provided or wanted."""
    named = records.where(F.col("event").isin(*PROVIDES, *WANTS) & F.col("service").isNotNull())
    of_client = named.join(F.broadcast(subjects), on=["server", "session"], how="left_semi")
    return of_client.unionByName(named.where(F.col("service") == name)).select("server", "service").distinct()


def _near(records: DataFrame, subjects: DataFrame, services: DataFrame) -> DataFrame:
    """Every record that may be shown or tell why: those of the server, of the client, of whoever had to do with one of
    these services, and of whoever took the place of another one.
    """
    of_services = records.join(F.broadcast(services), on=["server", "service"], how="left_semi")
    sessions = subjects.unionByName(of_services.where("session IS NOT NULL").select("server", "session")).distinct()
    replaced = records.where((F.col("event") != "subscription.removed") & (F.col("reason") == REPLACED))
    names = replaced.select("server", "routing_id").where("routing_id IS NOT NULL").distinct()
    takers = records.where(F.col("session").isNotNull()).join(names, on=["server", "routing_id"], how="left_semi")
    every = sessions.unionByName(takers.select("server", "session")).distinct()
    of_server = F.col("session").isNull() | (F.col("event") == "link.down")
    of_sessions = records.where(~of_server).join(every, on=["server", "session"], how="left_semi")
    return records.where(of_server).unionByName(of_sessions)


def _of_client(near: DataFrame, subjects: DataFrame, name: str) -> DataFrame:
    without_session = near.where(F.col("session").isNull() & _names_client(name))
    of_sessions = near.join(F.broadcast(subjects), on=["server", "session"], how="left_semi")
    return of_sessions.select("server", "at").unionByName(without_session.select("server", "at"))


def _closings(near: DataFrame, turned: Sequence[DataFrame], name: str) -> DataFrame:
    """The closings with which the service lost a provider or a subscriber. What a session provided is unregistered by
    records of its own before that.
    """
    ends = reduce(
        DataFrame.unionByName,
        [each.where((F.col("service") == name) & ~F.col("is_on")).select("server", "at") for each in turned],
    ).distinct()
    closing = F.when(F.col("event") == "session.closed", F.col("at")).when(ends_with_session(), F.col("following.at"))
    found = near.join(ends, on=["server", "at"], how="left_semi").select("server", closing.alias("at"))
    return found.where("at IS NOT NULL")


def _of_wanted(subjects: DataFrame, available: DataFrame, wants: DataFrame) -> DataFrame:
    """The records with which a service that the client wanted was there again, or gone."""
    own = wants.join(F.broadcast(subjects), on=["server", "session"], how="left_semi")
    of_others = available.join(F.broadcast(subjects), on=["server", "session"], how="left_anti")
    turned = of_others.where(F.col("providers") == F.col("is_on").cast("int"))
    columns = ("server", "service", "session", "at")
    steps = own.select(*columns, F.when(F.col("is_on"), 1).otherwise(-1).alias("step"))
    both = steps.unionByName(turned.select(*columns, F.lit(0).alias("step")))
    before = Window.partitionBy("server", "service").orderBy("at", "session")
    up_to_now = before.rowsBetween(Window.unboundedPreceding, 0)
    return both.withColumn("wanting", F.sum("step").over(up_to_now)).where("step = 0 AND wanting > 0")


def _marked(near: DataFrame, concerns: list[tuple[str, DataFrame]]) -> DataFrame:
    """The records that something is about, with the first ``concern`` that there is with each."""
    some = [places.select("server", "at", F.lit(CONCERNS.index(concern)).alias("rank")) for concern, places in concerns]
    ranks = reduce(DataFrame.unionByName, some).groupBy("server", "at").agg(F.min("rank").alias("rank"))
    concern = F.element_at(F.array(*[F.lit(each) for each in CONCERNS]), F.col("rank") + 1)
    return near.where(~F.col("given")).join(ranks, on=["server", "at"], how="inner").withColumn("concern", concern)


def _with_availability(found: DataFrame, available: DataFrame) -> DataFrame:
    said = available.where(~F.col("given")).select(
        *("server", "session", "at", F.col("service").alias("about"), "providers"),
        *("missing_since", "missing_until", "next_session"),
    )
    return found.join(said, on=["server", "session", "at"], how="left")


def _with_names(found: DataFrame, records: DataFrame) -> DataFrame:
    """What sessions are known by: the last that was said of each."""
    named = {"session": "who", "next_session": "next_who", "newcomer": "newcomer_who"}
    shown = found.select("server", F.explode(F.array(*named)).alias("session")).where("session IS NOT NULL").distinct()
    last = [F.max_by(each, F.when(F.col(each).isNotNull(), place())).alias(each) for each in _KNOWN_BY]
    who = (
        records.join(F.broadcast(shown), on=["server", "session"], how="left_semi")
        .groupBy("server", "session")
        .agg(*last)
        .select("server", "session", F.struct(*_KNOWN_BY).alias("who"))
    )
    for session, name in named.items():
        other = who.select("server", F.col("session").alias(session), F.col("who").alias(name))
        found = found.join(F.broadcast(other), on=["server", session], how="left")
    return found


def _in_order(found: DataFrame, period: Period) -> DataFrame:
    # The order of a server is that of its records, also where its clock was set back.
    so_far = Window.partitionBy("server").orderBy("at", "about").rowsBetween(Window.unboundedPreceding, 0)
    explained = ("with_session", "crashed_after", "back_at", "link", "link_reason", "newcomer", "newcomer_who")
    available = ("about", "providers", "missing_since", "missing_until", "next_session", "next_who")
    return (
        found.withColumn("by_then", F.max("moment").over(so_far))
        .where(period.holds(F.col("moment")))
        .orderBy("by_then", "server", "at", "about")
        .select(*_SHOWN, "concern", "who", *available, *explained)
    )
