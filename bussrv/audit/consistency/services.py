"""Findings about services and subscriptions that began twice, or ended without a begin."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.consistency.known import SUSPICION, disk_failures, happened, key_of, without_disk_failures
from bussrv.audit.tables.findings import words

_REGISTERED, _UNREGISTERED, _ADDED, _REMOVED, _RENEWED = range(1, 6)
_CODES = {
    "service.registered": _REGISTERED,
    "service.unregistered": _UNREGISTERED,
    "subscription.added": _ADDED,
    "subscription.removed": _REMOVED,
    "subscription.renewed": _RENEWED,
}

_LEFT = "service-never-unregistered"


def suspicions(records: DataFrame) -> DataFrame:
    """Suspicions about services and subscriptions, of sessions whose opening must be in the journal.

    The columns are those of ``SUSPICION``. ``at`` is the time of the record.
    """
    is_left = F.col("kind") == _LEFT
    is_in_time = F.col("first_closing").isNull() | (F.col("seq") <= F.col("first_closing"))
    # Records after the closing of a session are another finding.
    in_time = (
        _suspects(records)
        .join(_ends(records), on="session", how="left")
        .where(F.when(is_left, F.col("first_closing") > F.col("seq")).otherwise(is_in_time))
    )
    placed = (
        in_time.withColumn("first_seq", F.col("seq"))
        .withColumn("seq", F.when(is_left, F.col("first_closing")).otherwise(F.col("seq")))
        .withColumn("mono", F.when(is_left, F.col("closed_mono")).otherwise(F.col("mono")))
        .withColumn("moment", F.when(is_left, F.col("closed")).otherwise(F.col("moment")))
        .withColumn("is_loss", is_left | F.col("is_loss"))
    )
    found = without_disk_failures(placed, disk_failures(records))
    was_opened = F.coalesce(F.col("openings") > 0, F.lit(False))
    return found.withColumns(
        {
            "last_seq": F.col("seq"),
            "at": F.col("moment"),
            "what": _what(is_left),
            "if_known": F.col("is_first") & ~was_opened,
        }
    ).select(*SUSPICION)


def _ends(records: DataFrame) -> DataFrame:
    """One row a session: the number of openings, and the time of the closing."""
    opened, closed = happened("session.opened"), happened("session.closed")
    return (
        records.where(opened | closed)
        .select("session", opened.alias("is_opening"), closed.alias("is_closing"), "seq", "mono", "moment")
        .groupBy("session")
        .agg(
            F.count_if("is_opening").alias("openings"),
            F.min(F.when(F.col("is_closing"), F.col("seq"))).alias("first_closing"),
            F.max(F.when(F.col("is_closing"), F.col("moment"))).alias("closed"),
            F.max(F.when(F.col("is_closing"), F.col("mono"))).alias("closed_mono"),
        )
    )


def _what(is_left: Column) -> Column:
    name = F.coalesce("service", F.lit("objects"))
    return (
        F.when(F.col("kind") == "service-not-registered", words("unregistered ", name, ", which it did not provide"))
        .when(F.col("kind") == "service-registered-twice", words("registered ", name, ", which it provided already"))
        .when(is_left, words("was closed, but never unregistered ", name))
        .when(F.col("kind") == "subscription-added-twice", words("subscribed to ", name, ", which it did already"))
        .otherwise(words("ended or renewed a subscription to ", name, ", which it did not have"))
    )


def _suspects(records: DataFrame) -> DataFrame:
    """The records that begin what has begun, or end or renew what has not.

    Also the last registration of a service that was not unregistered later (``_LEFT``). It is correct while the session
    is open.
    """
    # Numbers come first: they sort faster than texts. Services and subscriptions of a session are separate.
    same = ("session_key", "session", "is_subscription", "service")
    in_order = Window.partitionBy(*same).orderBy("seq", "moment", "mono")
    code = F.coalesce(*[F.when(happened(event), number) for event, number in _CODES.items()])
    steps = records.where(happened(*_CODES) & F.col("session").isNotNull()).select(
        key_of("session").alias("session_key"),
        "session",
        (code >= _ADDED).alias("is_subscription"),
        "service",
        "seq",
        "moment",
        "mono",
        code.alias("code"),
        # A loss may be written while the end that the client asked for is on its way to the disk.
        (F.col("reason").isNotNull() & (F.col("reason") != "replaced")).alias("is_loss"),
        "given",
        key_of("server").alias("server_key"),
    )
    before, code = F.col("before"), F.col("code")
    is_first, ended = before.isNull(), before.isin(_UNREGISTERED, _REMOVED)
    ends = code.isin(_UNREGISTERED, _REMOVED)
    unfounded = (is_first | (ended & ~(ends & F.col("is_loss")))) & ~F.col("given")
    again = ~is_first & ~ended & ~F.col("given")
    kind = (
        F.when((code == _UNREGISTERED) & unfounded, "service-not-registered")
        .when(code.isin(_REMOVED, _RENEWED) & unfounded, "subscription-not-added")
        .when((code == _ADDED) & again, "subscription-added-twice")
        .when((code == _REGISTERED) & again, "service-registered-twice")
    )
    left = F.when((code == _REGISTERED) & F.col("behind").isNull(), _LEFT)
    return (
        steps.withColumn("before", F.lag("code").over(in_order))
        .withColumn("behind", F.lead("code").over(in_order))
        .where(kind.isNotNull() | left.isNotNull())
        .select(
            "session",
            "service",
            "seq",
            "moment",
            "mono",
            "is_loss",
            "server_key",
            (is_first & kind.isNotNull()).alias("is_first"),
            F.explode(F.array_compact(F.array(kind, left))).alias("kind"),
        )
    )
