"""Facts about services: when they were provided, outages, subscriptions in vain."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from bussrv.audit.report import steps
from bussrv.audit.report.axis import SECOND, Axis
from bussrv.audit.report.model import Orphan, Service, ServiceTotals
from bussrv.audit.report.questions import (
    Listing,
    Question,
    all_rows,
    count_if,
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

_NAMES = first("server", "service")
_TROUBLE = f"{most_of('outages')}, {most_of('unprovided_seconds')}, {first('availability')}"
_USE = f"{most_of('subscribers')}, {most_of('subscriptions')}, {_NAMES}"
_SERVICES = "SELECT *, coalesce(outages, 0) + coalesce(unprovided_seconds, 0) > 0 AS is_troubled FROM @services"

_PICKED = f"""
    SELECT *, row_number() OVER (ORDER BY is_troubled DESC, {_TROUBLE}, {_USE}) AS what
    FROM (
        SELECT * FROM (
            SELECT * FROM ({_SERVICES}) AS worst WHERE is_troubled ORDER BY {_TROUBLE}, {_NAMES} LIMIT {MOST_TROUBLED}
        ) AS troubled
        UNION ALL
        SELECT * FROM (
            SELECT * FROM ({_SERVICES}) AS busiest WHERE NOT is_troubled ORDER BY {_USE} LIMIT {MOST_USED}
        ) AS used
    ) AS chosen"""
"""Some services, each with its place in the list as ``what``. The window holds only the rows that are shown."""


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


def totals() -> Question[ServiceTotals]:
    """All services together."""
    counts = f"""
        SELECT count(*) AS known, {count_if("provided")} AS provided, {count_if("outages > 0")} AS interrupted,
            CAST(coalesce(sum(outages), 0) AS BIGINT) AS outages, {count_if("unused")} AS unused
        FROM @services"""
    return only_row(counts).then(lambda row: ServiceTotals(**row))


def uptimes(axis: Axis | None) -> Question[tuple[Service, ...]]:
    """The services with most outages, then those with most subscribers, and when each was provided."""
    if axis is None:
        return known(())
    intervals = f"""
        SELECT p.what, u.begin, u.until
        FROM @uptimes AS u JOIN ({_PICKED}) AS p ON u.server = p.server AND u.service = p.service"""
    with_moments = f"""
        SELECT p.*, s.first_moment, s.last_moment FROM ({_PICKED}) AS p JOIN @servers AS s ON p.server = s.server"""
    found = rows(with_moments, _Picked, MOST_TROUBLED + MOST_USED, "what")
    covered = all_rows(steps.covered(intervals, axis))
    return together(found, covered).then(lambda answers: _with_shares(axis, *answers))


def _with_shares(axis: Axis, found: Sequence[_Picked], covered: steps.Rows) -> tuple[Service, ...]:
    shares = steps.shares(covered, axis, {each.what: each.seen(axis) for each in found})
    services = (Service(**{name: getattr(each, name) for name in Service.__struct_fields__}) for each in found)
    return tuple(replace(service, uptime=shares[each.what]) for service, each in zip(services, found, strict=True))


def flapping() -> Question[Listing[Service]]:
    """Services with outages, those with most first."""
    order = f"{most_of('outages')}, {most_of('longest_outage_seconds')}, {_NAMES}"
    return listing("SELECT * FROM @services WHERE outages > 0", Service, order)


def orphans() -> Question[Listing[Orphan]]:
    """Subscriptions in vain, longest first."""
    order = f"{most_of('waited_seconds')}, {first('server', 'session', 'service', 'begin')}"
    return listing("SELECT * FROM @orphans", Orphan, order)


def unused() -> Question[Listing[Service]]:
    """Services without subscribers, those that were provided longest first."""
    order = f"{most_of('provided_seconds')}, {_NAMES}"
    return listing("SELECT * FROM @services WHERE unused", Service, order, most=MOST_UNUSED)
