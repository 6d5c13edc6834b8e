"""Facts about sessions: concurrency, openings and closings, durations, reasons, traffic."""

from __future__ import annotations

from msgspec.structs import replace

from bussrv.audit.report import steps
from bussrv.audit.report.axis import Axis
from bussrv.audit.report.model import BANDS, Churn, Named, Protocol, Traffic
from bussrv.audit.report.questions import (
    Listing,
    Question,
    all_rows,
    count_if,
    cut,
    first,
    known,
    listing,
    most_of,
    number_of,
    only_row,
    total,
)

MOST_PROTOCOLS = 8
MOST_REASONS = 12

_LOCAL = "FROM @sessions WHERE home IS NULL"
"""Sessions without those of linked servers, which are in the journals of these."""


def protocols(axis: Axis | None, servers: int) -> Question[Listing[Protocol]]:
    """Each wire format, the one with most sessions first."""
    counts = f"""
        SELECT {cut(steps.PROTOCOL)} AS protocol, count(*) AS sessions, {count_if("state = 'closed'")} AS closed,
            {count_if("state = 'open'")} AS open, {count_if("persistent")} AS persistent,
            {", ".join(map(total, ("objects_in", "objects_out", "bytes_in", "bytes_out")))}
        {_LOCAL} GROUP BY {cut(steps.PROTOCOL)}"""
    listed = listing(counts, Protocol, f"{most_of('sessions')}, {first('protocol')}", most=MOST_PROTOCOLS)
    if axis is None:
        return listed
    of_these = f"SELECT server, {cut(steps.PROTOCOL)} AS protocol, moment, sessions FROM @concurrency"
    levels = all_rows(steps.concurrency(of_these, axis, servers == 1))
    return listed.then(lambda found: levels.then(lambda rows: _at_levels(found, rows, axis)))


def _at_levels(listed: Listing[Protocol], rows: steps.Rows, axis: Axis) -> Listing[Protocol]:
    levels, nothing = steps.filled(rows, axis), (0,) * axis.steps
    found = ((each, *levels.get(each.protocol, (nothing, nothing))) for each in listed.rows)
    return Listing(tuple(replace(each, most=most, last=last) for each, most, last in found), listed.total)


def remote_sessions() -> Question[int]:
    """The number of remote sessions."""
    return number_of("SELECT session FROM @sessions WHERE home IS NOT NULL")


def churn(axis: Axis | None) -> Question[Churn]:
    """Sessions opened and closed in each step."""
    if axis is None:
        return known(Churn())
    moments = " UNION ALL ".join(f"SELECT '{what}' AS what, {what} AS moment {_LOCAL}" for what in ("opened", "closed"))
    return all_rows(steps.counted(moments, axis)).then(lambda rows: _churn(rows, axis))


def _churn(found: steps.Rows, axis: Axis) -> Churn:
    numbers = {(row["what"], row["step"]): row["number"] for row in found}
    opened, closed = (
        tuple(numbers.get((what, step), 0) for step in range(axis.steps)) for what in ("opened", "closed")
    )
    return Churn(opened, closed)


def durations() -> Question[tuple[int, ...]]:
    """The number of closed sessions in each of ``BANDS``, and of longer ones."""
    numbers = ", ".join(f"{count_if(_is_in_band(band))} AS band_{band}" for band in range(len(BANDS) + 1))
    return only_row(f"SELECT {numbers} {_LOCAL} AND duration_seconds IS NOT NULL").then(lambda row: tuple(row.values()))


def _is_in_band(band: int) -> str:
    is_long_enough = f"duration_seconds >= {BANDS[band - 1]}" if band else "true"
    return f"{is_long_enough} AND duration_seconds < {BANDS[band]}" if band < len(BANDS) else is_long_enough


def closings() -> Question[Listing[Named]]:
    """The reasons of closings."""
    counts = f"SELECT reason AS name, count(*) AS number {_LOCAL} AND state = 'closed' GROUP BY reason"
    return listing(counts, Named, f"{most_of('number')}, {first('name')}", most=MOST_REASONS)


def traffic() -> Question[Listing[Traffic]]:
    """The clients that sent and received most."""
    who = first("server", "protocol", "routing_id", "actor", "claimed", "address")
    order = f"{most_of('(bytes_in + bytes_out)')}, {most_of('(objects_in + objects_out)')}, {who}"
    return listing("SELECT * FROM @talkers", Traffic, order)


def traffic_bytes() -> Question[int]:
    """The bytes that all clients sent and received."""
    both = f"SELECT {total('bytes_in')}, {total('bytes_out')} FROM @talkers"
    return only_row(both).then(lambda row: int(row["bytes_in"] + row["bytes_out"]))
