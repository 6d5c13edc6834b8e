"""Facts about services: when they were provided, outages, subscriptions in vain."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.report import steps
from bussrv.audit.report.axis import SECOND, Axis
from bussrv.audit.report.model import Listing, Orphan, Service, ServiceTotals
from bussrv.audit.report.questions import (
    Question,
    Tables,
    all_rows,
    first,
    known,
    listing,
    most_of,
    only_row,
    rows,
    together,
)

MOST_TROUBLED = 20
MOST_USED = 10
MOST_UNUSED = 30


class _Picked(Service, frozen=True, kw_only=True):
    """A service whose times are shown. Its name may be cut, so a number identifies it."""

    what: int
    first_moment: int
    last_moment: int
    observed_seconds: float | None = None

    def seen(self, axis: Axis) -> tuple[int, int]:
        """From the first time that it is known to the last record of its server."""
        until = min(self.last_moment, axis.end)
        observed = axis.end - axis.begin if self.observed_seconds is None else round(self.observed_seconds * SECOND)
        return max(self.first_moment, until - observed), until


def totals(tables: Tables) -> Question[ServiceTotals]:
    """All services together."""
    counts = tables["services"].agg(
        F.count("*").alias("known"),
        F.count_if("provided").alias("provided"),
        F.count_if(F.col("outages") > 0).alias("interrupted"),
        F.coalesce(F.sum("outages"), F.lit(0)).alias("outages"),
        F.count_if("unused").alias("unused"),
    )
    return only_row(counts).then(lambda row: ServiceTotals(**row))


def uptimes(tables: Tables, axis: Axis | None) -> Question[tuple[Service, ...]]:
    """The services with most outages, then those with most subscribers, and when each was provided."""
    if axis is None:
        return known(())
    picked = _picked(tables)
    of_these = tables["uptimes"].join(F.broadcast(picked.select("server", "service", "what")), on=["server", "service"])
    covered = all_rows(steps.covered(of_these.select("what", "begin", "end"), axis))
    moments = tables["servers"].select("server", "first_moment", "last_moment")
    found = rows(picked.join(moments, on="server"), _Picked, MOST_TROUBLED + MOST_USED, F.col("what").asc())
    return together(found, covered).then(lambda answers: _with_shares(axis, *answers))


def _with_shares(axis: Axis, found: Sequence[_Picked], covered: steps.Rows) -> tuple[Service, ...]:
    shares = steps.shares(covered, axis, {each.what: each.seen(axis) for each in found})
    services = (Service(**{name: getattr(each, name) for name in Service.__struct_fields__}) for each in found)
    return tuple(replace(service, uptime=shares[each.what]) for service, each in zip(services, found, strict=True))


def _picked(tables: Tables) -> DataFrame:
    """Some services, each with its place in the list as ``what``."""
    names = first("server", "service")
    troubled = (most_of("outages"), most_of("unprovided_seconds"), F.col("availability").asc_nulls_last(), *names)
    used = (most_of("subscribers"), most_of("subscriptions"), *names)
    services = tables["services"]
    is_troubled = F.coalesce("outages", F.lit(0)) + F.coalesce("unprovided_seconds", F.lit(0)) > 0
    worst = services.where(is_troubled).orderBy(*troubled).limit(MOST_TROUBLED)
    busiest = services.where(~is_troubled).orderBy(*used).limit(MOST_USED)
    # A window over one partition: it holds only the rows that are shown.
    in_order = Window.partitionBy(F.lit(0)).orderBy(is_troubled.desc(), *troubled[:-2], *used)
    return worst.unionByName(busiest).withColumn("what", F.row_number().over(in_order))


def flapping(tables: Tables) -> Question[Listing[Service]]:
    """Services with outages, those with most first."""
    interrupted = tables["services"].where(F.col("outages") > 0)
    return listing(
        interrupted, Service, most_of("outages"), most_of("longest_outage_seconds"), *first("server", "service")
    )


def orphans(tables: Tables) -> Question[Listing[Orphan]]:
    """Subscriptions in vain, longest first."""
    return listing(
        tables["orphans"], Orphan, most_of("waited_seconds"), *first("server", "session", "service", "begin")
    )


def unused(tables: Tables) -> Question[Listing[Service]]:
    """Services without subscribers, those that were provided longest first."""
    unwanted = tables["services"].where("unused")
    return listing(unwanted, Service, most_of("provided_seconds"), *first("server", "service"), most=MOST_UNUSED)
