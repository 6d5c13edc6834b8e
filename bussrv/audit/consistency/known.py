"""Conditions and tables that several consistency checks share."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.tables.schema import boot_of_session

SUSPICION = ("kind", "server_key", "session", "service", "first_seq", "last_seq", "what", "at", "if_known")
"""The columns of a suspicion: a kind and a message (``what``), the first and last record, and a time.

``if_known``: it is a finding only if the journal must have the earlier records of the session.
"""

LAG_OF_NEWS = 10 * 1_000_000
"""Microseconds after the disk works again in which the registry may not know yet which changes were refused."""


def key_of(name: str) -> Column:
    """A number for a text. Numbers are aggregated much faster."""
    return F.xxhash64(name)


def happened(*events: str) -> Column:
    """Whether a record is of one of these events."""
    return F.col("event").isin(*events)


def by_journal() -> Column:
    """Whether the journal wrote a record on its own, maybe before the start of the server or after its stop.

    Its time is that of writing, so records with earlier times may follow.
    """
    return F.col("event").startswith("journal.")


def has_settled() -> Column:
    """Whether a server writes such a record only after it closed the sessions that the boot before it left open."""
    of_start = happened(
        "server.started",
        "server.recovered",
        "session.closed",
        "service.unregistered",
        "subscription.removed",
        "link.down",
    )
    return ~by_journal() & ~of_start


def with_servers(found: DataFrame, boots: DataFrame) -> DataFrame:
    """The rows with ``server``, by their ``server_key``."""
    servers = boots.select("server", key_of("server").alias("server_key")).distinct()
    return found.join(servers, on="server_key", how="left")


def with_is_known(rows: DataFrame, boots: DataFrame) -> DataFrame:
    """The rows with ``is_known``: whether the journal must have all records of their session.

    It must if it has the begin of the session's boot, or of the server.

    :param rows: ``session`` and ``server_key`` among their columns.
    """
    begun = boots.where("started").select(F.col("boot").alias("begun")).distinct()
    complete = boots.where("first_seq = 1").select(key_of("server").alias("complete")).distinct()
    return (
        rows.join(begun, on=boot_of_session() == F.col("begun"), how="left")
        .join(complete, on=F.col("server_key") == F.col("complete"), how="left")
        .withColumn("is_known", F.col("begun").isNotNull() | F.col("complete").isNotNull())
        .drop("begun", "complete")
    )


def disk_failures(records: DataFrame) -> DataFrame:
    """The times in which changes were refused because the disk failed.

    They were refused after record ``after`` and before record ``before``, if there is one. If ``until_mono`` is not
    NULL, the disk works again, and only losses up to then count. When the registry wrote the end of a session, it may
    have relied on a change that was refused later.
    """
    in_order = Window.partitionBy("server_key").orderBy("seq", "moment", "mono")
    begins, ends = happened("journal.degraded"), happened("journal.restored")
    return (
        records.where(happened("journal.degraded", "journal.restored", "server.started") & ~F.col("given"))
        .select(key_of("server").alias("server_key"), "event", "seq", "moment", "mono")
        .withColumn("before", F.lead("seq").over(in_order))
        .where(begins | ends)
        .select(
            F.col("server_key").alias("failing"),
            F.col("seq").alias("after"),
            "before",
            F.when(ends, F.col("mono") + LAG_OF_NEWS).alias("until_mono"),
        )
    )


def without_disk_failures(rows: DataFrame, failures: DataFrame) -> DataFrame:
    """The rows that no failure of the disk explains.

    :param rows: ``server_key``, and ``seq``, ``mono`` and ``is_loss`` of a record: whether no client asked for it.
    :param failures: the table of :func:`disk_failures`.
    """
    is_behind = (F.col("seq") > F.col("after")) & (F.col("before").isNull() | (F.col("seq") < F.col("before")))
    is_late = F.col("is_loss") & (F.col("mono") <= F.col("until_mono"))
    explained = (F.col("server_key") == F.col("failing")) & is_behind & (F.col("until_mono").isNull() | is_late)
    return rows.join(failures, on=explained, how="left_anti")
