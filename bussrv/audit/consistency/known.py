"""What more than one of the consistency checks has to know."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.identity import boot_of_session

SUSPICION = ("kind", "server_key", "session", "service", "first_seq", "last_seq", "what", "at", "if_known")
"""What a check of sessions says of one: what is wrong, from which record to which, and when. ``if_known``: it is wrong
only if the journal must have what the session did before.
"""

LAG_OF_NEWS = 10 * 1_000_000
"""For so many microseconds after the disk works again, the registry may not have heard yet what was refused."""


def key_of(name: str) -> Column:
    """A number that stands for a text, because numbers are aggregated much faster."""
    return F.xxhash64(name)


def happened(*events: str) -> Column:
    """Whether a record says that one of these happened."""
    return F.col("event").isin(*events)


def by_journal() -> Column:
    """Whether it is a record that the journal writes on its own: also before the server started and after it stopped,
    and stamped by the clock when it is written, so that earlier stamps may follow.
    """
    return F.col("event").startswith("journal.")


def has_settled() -> Column:
    """Whether it is a record of what a server does not do before it has started and closed what the boot before it left
    open.
    """
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
    """The rows with ``is_known``: whether the journal must have the opening of their session and all that it did later.

    That is so if the boot of the session begins in the journal, or the server does.

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
    """When changes were refused because the disk failed: behind record ``after`` and before record ``before``, if there
    is one. Where ``until_mono`` is not NULL, the disk works again, and only losses up to then are meant.

    A change that was refused may be one that the registry counted on when it wrote how a session ended.
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

    :param rows: with ``server_key``, and of the record in question ``seq``, ``mono`` and ``is_loss``: whether nobody
        asked for what it says.
    :param failures: what :func:`disk_failures` returns.
    """
    is_behind = (F.col("seq") > F.col("after")) & (F.col("before").isNull() | (F.col("seq") < F.col("before")))
    is_late = F.col("is_loss") & (F.col("mono") <= F.col("until_mono"))
    explained = (F.col("server_key") == F.col("failing")) & is_behind & (F.col("until_mono").isNull() | is_late)
    return rows.join(failures, on=explained, how="left_anti")
