"""The parts of a report about sessions, traffic and services, each with the query that finds it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from bussrv.audit.report.charts import SECOND, Axis
from bussrv.audit.report.questions import (
    PROTOCOL,
    Listing,
    Tables,
    all_rows,
    concurrency,
    count_if,
    counted,
    covered,
    cut,
    filled,
    first,
    listing,
    most_of,
    number_of,
    only_row,
    rows,
    shares,
    total,
)
from bussrv.registry.state.naming import CLAIMED, called

_LOCAL = "FROM @sessions WHERE home IS NULL"
"""Sessions without those of linked servers, which are in the journals of these."""

MOST_PROTOCOLS = 8


class Protocol(Struct, frozen=True, kw_only=True):
    """The sessions of one wire format, with the most that were open in each step, and the number at its end."""

    protocol: str
    sessions: int
    closed: int
    open: int
    away: int
    persistent: int
    objects_in: int
    objects_out: int
    bytes_in: int
    bytes_out: int
    most: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    @property
    def peak(self) -> int:
        """The most sessions that were open at once."""
        return max(self.most, default=0)


def protocols(tables: Tables, axis: Axis | None, servers: int) -> Listing[Protocol]:
    """Each wire format, the one with most sessions first."""
    counts = f"""
        SELECT {cut(PROTOCOL)} AS protocol, count(*) AS sessions, {count_if("state = 'closed'")} AS closed,
            {count_if("state = 'open'")} AS open, {count_if("state = 'away'")} AS away,
            {count_if("persistent")} AS persistent,
            {", ".join(map(total, ("objects_in", "objects_out", "bytes_in", "bytes_out")))}
        {_LOCAL} GROUP BY {cut(PROTOCOL)}"""
    listed = listing(tables, counts, Protocol, f"{most_of('sessions')}, {first('protocol')}", most=MOST_PROTOCOLS)
    if axis is None:
        return listed
    of_these = f"SELECT server, {cut(PROTOCOL)} AS protocol, moment, sessions FROM @concurrency"
    levels = filled(all_rows(tables, concurrency(of_these, axis, servers == 1)), axis)
    nothing = (0,) * axis.steps
    found = ((each, *levels.get(each.protocol, (nothing, nothing))) for each in listed.rows)
    return Listing(tuple(replace(each, most=most, last=last) for each, most, last in found), listed.total)


def remote_sessions(tables: Tables) -> int:
    """The number of remote sessions."""
    return number_of(tables, "SELECT session FROM @sessions WHERE home IS NOT NULL")


class AbsenceRow(Struct, frozen=True, kw_only=True):
    """A time in which the client of a durable session was away.

    :ivar outcome: ``resumed``, ``closed`` or ``away``.
    """

    server: str
    session: str
    begin: int
    kept_until: int
    outcome: str
    end: int | None = None
    away_seconds: float | None = None
    reason: str | None = None
    routing_id: str | None = None
    actor: str | None = None
    claimed: str | None = None
    peer: str | None = None
    back_actor: str | None = None
    taken_over: bool = False

    @property
    def client(self) -> str:
        """The name by which a person knows the client."""
        return called(self)


def absences(tables: Tables) -> Listing[AbsenceRow]:
    """Absences: first those of sessions that other users took over, then those that are not over, then the longest."""
    order = f"taken_over DESC, until IS NOT NULL, {most_of('away_seconds')}, {first('server', 'begin', 'session')}"
    return listing(tables, "SELECT *, address AS peer FROM @absences", AbsenceRow, order)


class Churn(Struct, frozen=True):
    """The sessions opened and closed in each step."""

    opened: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()


def churn(tables: Tables, axis: Axis | None) -> Churn:
    """Sessions opened and closed in each step."""
    if axis is None:
        return Churn()
    moments = " UNION ALL ".join(f"SELECT '{what}' AS what, {what} AS moment {_LOCAL}" for what in ("opened", "closed"))
    numbers = {(row["what"], row["step"]): row["number"] for row in all_rows(tables, counted(moments, axis))}
    opened, closed = (
        tuple(numbers.get((what, step), 0) for step in range(axis.steps)) for what in ("opened", "closed")
    )
    return Churn(opened, closed)


BANDS = (1, 10, 60, 600, 3600, 6 * 3600, 86400)
"""Upper bounds of the durations by which sessions are counted, in seconds. Longer ones are counted as well."""


def durations(tables: Tables) -> tuple[int, ...]:
    """The number of closed sessions in each of ``BANDS``, and of longer ones."""
    numbers = ", ".join(f"{count_if(_is_in_band(band))} AS band_{band}" for band in range(len(BANDS) + 1))
    return tuple(only_row(tables, f"SELECT {numbers} {_LOCAL} AND duration_seconds IS NOT NULL").values())


def _is_in_band(band: int) -> str:
    is_long_enough = f"duration_seconds >= {BANDS[band - 1]}" if band else "true"
    return f"{is_long_enough} AND duration_seconds < {BANDS[band]}" if band < len(BANDS) else is_long_enough


MOST_REASONS = 12


class Named(Struct, frozen=True):
    """A name with a number."""

    name: str | None
    number: int


def closings(tables: Tables) -> Listing[Named]:
    """The reasons of closings."""
    counts = f"SELECT reason AS name, count(*) AS number {_LOCAL} AND state = 'closed' GROUP BY reason"
    return listing(tables, counts, Named, f"{most_of('number')}, {first('name')}", most=MOST_REASONS)


class ClientTraffic(Struct, frozen=True, kw_only=True):
    """The traffic of one client."""

    server: str
    sessions: int
    connected_seconds: float
    objects_in: int
    objects_out: int
    bytes_in: int
    bytes_out: int
    protocol: str | None = None
    routing_id: str | None = None
    actor: str | None = None
    claimed: str | None = None
    address: str | None = None

    @property
    def known_by(self) -> list[str]:
        """Its names, the most telling first."""
        first = called(self)
        names = (self.actor, self.claimed, self.address, self.routing_id)
        return [first, *(each for each in names if each is not None and first not in (each, f"{each}{CLAIMED}"))]

    @property
    def peer(self) -> str | None:
        """Its address, without the port."""
        return self.address

    @property
    def bytes(self) -> int:
        """Bytes sent and received."""
        return self.bytes_in + self.bytes_out

    @property
    def objects(self) -> int:
        """Messages sent and received."""
        return self.objects_in + self.objects_out


def traffic(tables: Tables) -> Listing[ClientTraffic]:
    """The clients that sent and received most."""
    who = first("server", "protocol", "routing_id", "actor", "claimed", "address")
    order = f"{most_of('(bytes_in + bytes_out)')}, {most_of('(objects_in + objects_out)')}, {who}"
    return listing(tables, "SELECT * FROM @talkers", ClientTraffic, order)


def traffic_bytes(tables: Tables) -> int:
    """The bytes that all clients sent and received."""
    both = f"SELECT {total('bytes_in')}, {total('bytes_out')} FROM @talkers"
    return int(sum(only_row(tables, both).values()))


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


class ServiceUse(Struct, frozen=True, kw_only=True):
    """A service, and the share of each step in which it was provided."""

    service: str
    server: str
    providers: int
    registrations: int
    provided_seconds: float
    provided: bool
    outages: int
    subscribers: int
    unprovided_seconds: float
    availability: float | None = None
    longest_outage_seconds: float | None = None
    mtbf_seconds: float | None = None
    mttr_seconds: float | None = None
    uptime: tuple[float | None, ...] = ()


class _Picked(ServiceUse, frozen=True, kw_only=True):
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


def uptimes(tables: Tables, axis: Axis | None) -> tuple[ServiceUse, ...]:
    """The services with most outages, then those with most subscribers, and when each was provided."""
    if axis is None:
        return ()
    intervals = f"""
        SELECT p.what, u.begin, u.until
        FROM @uptimes AS u JOIN ({_PICKED}) AS p ON u.server = p.server AND u.service = p.service"""
    with_moments = f"""
        SELECT p.*, s.first_moment, s.last_moment FROM ({_PICKED}) AS p JOIN @servers AS s ON p.server = s.server"""
    found = rows(tables, with_moments, _Picked, MOST_TROUBLED + MOST_USED, "what")
    shown = shares(all_rows(tables, covered(intervals, axis)), axis, {each.what: each.seen(axis) for each in found})
    services = (ServiceUse(**{name: getattr(each, name) for name in ServiceUse.__struct_fields__}) for each in found)
    return tuple(replace(service, uptime=shown[each.what]) for service, each in zip(services, found, strict=True))


def flapping(tables: Tables) -> Listing[ServiceUse]:
    """Services with outages, those with most first."""
    order = f"{most_of('outages')}, {most_of('longest_outage_seconds')}, {_NAMES}"
    return listing(tables, "SELECT * FROM @services WHERE outages > 0", ServiceUse, order)


def unused(tables: Tables) -> Listing[ServiceUse]:
    """Services without subscribers, those that were provided longest first."""
    order = f"{most_of('provided_seconds')}, {_NAMES}"
    return listing(tables, "SELECT * FROM @services WHERE unused", ServiceUse, order, most=MOST_UNUSED)


class ServiceTotals(Struct, frozen=True):
    """All services taken together."""

    known: int = 0
    provided: int = 0
    interrupted: int = 0
    outages: int = 0
    unused: int = 0


def service_totals(tables: Tables) -> ServiceTotals:
    """All services together."""
    counts = f"""
        SELECT count(*) AS known, {count_if("provided")} AS provided, {count_if("outages > 0")} AS interrupted,
            CAST(coalesce(sum(outages), 0) AS BIGINT) AS outages, {count_if("unused")} AS unused
        FROM @services"""
    return ServiceTotals(**only_row(tables, counts))


class Orphan(Struct, frozen=True, kw_only=True):
    """A subscription to a service that no client provided while it lasted."""

    server: str
    session: str
    service: str
    begin: int
    end: int
    ended: bool
    waited_seconds: float
    protocol: str | None = None
    routing_id: str | None = None

    @property
    def client(self) -> str:
        """The name by which a person knows the client."""
        return called(self)


def orphans(tables: Tables) -> Listing[Orphan]:
    """Subscriptions in vain, longest first."""
    order = f"{most_of('waited_seconds')}, {first('server', 'session', 'service', 'begin')}"
    return listing(tables, "SELECT * FROM @orphans", Orphan, order)
