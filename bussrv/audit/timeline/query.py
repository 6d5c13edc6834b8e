"""Every record that concerns one client or one service, in order, with its cause."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.fold.stripe import Period
from bussrv.audit.spark.store import Keep
from bussrv.audit.timeline.causes import (
    PROVIDES,
    REPLACED,
    WANTS,
    availability,
    boots,
    causes,
    changes,
    ends_with_session,
    explanations,
    place,
    with_neighbours,
)

CONCERNS = CLIENT, SERVICE, WANTED, CAUSE = "client", "service", "wanted", "cause"
"""Why a record is in a timeline. The first of these that applies:

1. It is about the client.
2. It is about the service.
3. It is about a service that the client wants.
4. It is the cause of an end.
"""

_SHOWN = (
    *("server", "boot", "seq", "moment", "event", "outcome", "protocol", "session", "routing_id", "actor", "peer"),
    *("claimed", "method", "service", "reason", "suppressed", "limit", "value", "action", "target", "rule", "name"),
    *("role", "persistent", "home", "version", "message", "interest", "duration", "objects_in", "objects_out"),
    *("bytes_in", "bytes_out", "sessions_closed", "until", "expiry"),
)

NEEDED = (*_SHOWN, "mono", "routing_ids", "address", "given")
"""The columns of records that a timeline is made of."""

_KNOWN_BY = ("routing_id", "actor", "claimed", "peer")
_NAMED_BY = ("session", *_KNOWN_BY, "address", "name")
_EVER = Period()


def timeline(records: DataFrame, name: str, keep: Keep, period: Period = _EVER) -> DataFrame:
    """Every record that concerns a client or a service, in order. Columns beside those of the record:

    - ``concern``: one of ``CONCERNS``,
    - ``who``, ``next_who``, ``newcomer_who``: the names of its session, and of the others that it mentions,
    - ``about``: the service of ``providers``, ``missing_since``, ``missing_until`` and ``next_session``, see
      :func:`bussrv.audit.timeline.causes.availability`,
    - ``with_session``: whether a service or a subscription ended because its session did,
    - ``crashed_after``, ``back_at``, ``link``, ``link_reason``, ``newcomer``, ``left_at``, ``absence_over`` and
      ``resumed``: see :func:`bussrv.audit.timeline.causes.explanations`.

    A record that changes the providers of several services has a row for each of them.

    :param name: a service, or a name of a client: a session, a routing id, a user, a program, an address or a peer.

    :param keep: computes a table once, such as :meth:`bussrv.audit.spark.store.Store.keep`.
    :param period: the time that is shown. Records outside of it may still explain others.
    """
    subjects = keep("subjects", _sessions_of(records, name))
    services = keep("services", _services_of(records, subjects, name))
    near = keep("near", with_neighbours(_near(records, subjects, services)))
    available = keep("available", availability(changes(near, services, PROVIDES)))
    wants = keep("wants", changes(near, services, WANTS))
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


def with_microseconds(table: DataFrame) -> DataFrame:
    """The same with timestamps as UTC microseconds: Spark would return them in the local time of this machine."""
    columns = [F.unix_micros(name).alias(name) if kind == "timestamp" else F.col(name) for name, kind in table.dtypes]
    return table.select(*columns)


def known_names(records: DataFrame) -> DataFrame:
    """Every ``name`` that has a timeline."""
    names = F.array(*_NAMED_BY, "service")
    every = F.concat(names, F.coalesce("routing_ids", F.array().cast("array<string>")))
    return records.select(F.explode(every).alias("name")).where(F.col("name") != "").distinct()


def similar_names(records: DataFrame, name: str, most: int = 5) -> list[str]:
    """The names with a timeline that are most similar to ``name``."""
    there, asked = F.lower("name"), F.lower(F.lit(name))
    distance = F.levenshtein(there, asked)
    # Nearly every name contains any single letter.
    is_part = F.contains(there, asked) | (F.contains(asked, there) & (F.length("name") > 1))
    is_like = (distance <= max(1, len(name) // 3)) | is_part
    found = known_names(records).where(is_like).orderBy(distance, "name").limit(most)
    return [row["name"] for row in found.collect()]


def _names_client(name: str) -> Column:
    tests = [F.col(each) == name for each in _NAMED_BY] + [F.array_contains("routing_ids", name)]
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
    """Every record that may be shown, or explain another one.

    These are the records of the server, of the client, of all providers and subscribers of these services, and of
    sessions that replaced another one.
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


def _closings(near: DataFrame, changed: Sequence[DataFrame], name: str) -> DataFrame:
    """The closings of sessions with which the service lost a provider or a subscriber.

    The records that unregister the service come before the closing.
    """
    ends = reduce(
        DataFrame.unionByName,
        [each.where((F.col("service") == name) & ~F.col("is_on")).select("server", "at") for each in changed],
    ).distinct()
    closing = F.when(F.col("event") == "session.closed", F.col("at")).when(ends_with_session(), F.col("following.at"))
    found = near.join(ends, on=["server", "at"], how="left_semi").select("server", closing.alias("at"))
    return found.where("at IS NOT NULL")


def _of_wanted(subjects: DataFrame, available: DataFrame, wants: DataFrame) -> DataFrame:
    """The records with which a service that the client wanted came back or went."""
    own = wants.join(F.broadcast(subjects), on=["server", "session"], how="left_semi")
    of_others = available.join(F.broadcast(subjects), on=["server", "session"], how="left_anti")
    changed = of_others.where(F.col("providers") == F.col("is_on").cast("int"))
    columns = ("server", "service", "session", "at")
    steps = own.select(*columns, F.when(F.col("is_on"), 1).otherwise(-1).alias("step"))
    both = steps.unionByName(changed.select(*columns, F.lit(0).alias("step")))
    before = Window.partitionBy("server", "service").orderBy("at", "session")
    up_to_now = before.rowsBetween(Window.unboundedPreceding, 0)
    return both.withColumn("wanting", F.sum("step").over(up_to_now)).where("step = 0 AND wanting > 0")


def _marked(near: DataFrame, concerns: list[tuple[str, DataFrame]]) -> DataFrame:
    """The records of some places, each with the first ``concern`` that applies."""
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
    """Rows with the names of their sessions, as the last records have them. A durable session may have had several
    addresses: its own rows have the one that it had then.
    """
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
    own = F.col("who").withField("peer", F.coalesce("peer", "who.peer"))
    return found.withColumn("who", F.when(F.col("who").isNotNull(), own))


def _is_in(period: Period, micros: Column) -> Column:
    begun = F.lit(True) if period.since is None else micros >= period.since
    return begun if period.until is None else begun & (micros < period.until)


def _in_order(found: DataFrame, period: Period) -> DataFrame:
    # The order of a server is that of its records, also where its clock was set back.
    so_far = Window.partitionBy("server").orderBy("at", "about").rowsBetween(Window.unboundedPreceding, 0)
    explained = ("with_session", "crashed_after", "back_at", "link", "link_reason", "newcomer", "newcomer_who")
    absent = ("left_at", "absence_over", "resumed")
    available = ("about", "providers", "missing_since", "missing_until", "next_session", "next_who")
    return (
        found.withColumn("by_then", F.max("moment").over(so_far))
        .where(_is_in(period, F.unix_micros("moment")))
        .orderBy("by_then", "server", "at", "about")
        .select(*_SHOWN, "concern", "who", *available, *explained, *absent)
    )
