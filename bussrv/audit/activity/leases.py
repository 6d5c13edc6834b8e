"""The table of leases that ran out: Inbus subscribers and publishers that did not renew them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by
from pyspark.sql.window import WindowSpec

from bussrv.audit.activity.address import address_of
from bussrv.audit.tables.period import Period

RAN_OUT = ("lease-expired", "inbus-unreachable")
"""The reasons: no renewal in time, or a closed port, which shortens the lease."""

_BEGINS = ("subscription.added", "service.registered")
_ENDS = ("subscription.removed", "service.unregistered")
_RENEWS = ("subscription.renewed",)
_SERVICES = ("service.registered", "service.unregistered")


def leases(records: DataFrame, period: Period) -> DataFrame:
    """Each Inbus subscription, and each service of an Inbus publisher, that ended because its lease ran out.

    ``kind`` is ``subscription`` or ``service``. ``added`` is its begin, if that is known, ``renewals`` the number of
    renewals since then, and ``renewed`` the last one. Only renewals in the journal count: a server writes at most four
    in a lease, and does not write what a publisher publishes.
    """
    kept = records.where((F.col("protocol") == "inbus") | F.col("given")).where(
        F.col("event").isin(*_BEGINS, *_ENDS, *_RENEWS)
    )
    kind = F.when(F.col("event").isin(*_SERVICES), F.lit("service")).otherwise(F.lit("subscription"))
    each = kept.select(
        "server",
        "session",
        kind.alias("kind"),
        "service",
        "routing_id",
        "peer",
        "event",
        "reason",
        "seq",
        "moment",
        "mono",
        "given",
    )
    before = each.withColumn("renewals_until_then", F.count_if(_is(_RENEWS)).over(_in_order())).select(
        "*",
        _last_before(
            F.when(_is(_BEGINS + _ENDS), F.struct(_is(_BEGINS).alias("begins"), "moment", "renewals_until_then"))
        ).alias("bound"),
        _last_before(F.when(_is(_RENEWS), F.col("moment"))).alias("last_renewed"),
    )
    renewals = F.col("renewals_until_then") - F.coalesce("bound.renewals_until_then", F.lit(0))
    ended = _is(_ENDS) & F.col("reason").isin(*RAN_OUT) & ~F.col("given") & period.holds(F.col("moment"))
    return before.where(ended).select(
        "server",
        "session",
        "kind",
        "routing_id",
        address_of(F.col("peer")).alias("address"),
        "service",
        F.when(F.col("bound.begins"), F.col("bound.moment")).alias("added"),
        F.when(renewals > 0, F.col("last_renewed")).alias("renewed"),
        F.col("moment").alias("expired"),
        renewals.alias("renewals"),
        "reason",
    )


def _is(events: tuple[str, ...]) -> Column:
    return F.col("event").isin(*events)


def _in_order() -> WindowSpec:
    # The number comes first because it differs between sessions; all ids of a boot begin with the same text.
    key = F.xxhash64("session", "service")
    return Window.partitionBy(key, "server", "session", "kind", "service").orderBy("seq", "moment", "mono", "event")


def _last_before(value: Column) -> Column:
    return F.last(value, ignorenulls=True).over(_in_order().rowsBetween(Window.unboundedPreceding, -1))
