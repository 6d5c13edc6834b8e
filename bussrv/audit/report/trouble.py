"""The parts of a report about refusals, attacks, contested ids, links, leases and events, each with its query."""

from __future__ import annotations

from msgspec import Struct

from bussrv.audit.report.questions import Listing, Tables, first, listing, most_of, total
from bussrv.registry.state.naming import called

MOST_EVENTS = 40

_NUMBERS = (
    f"CAST(coalesce(sum(records), 0) AS BIGINT) AS number, {total('suppressed')}, min(first_moment) AS first_moment, "
    "max(last_moment) AS last_moment"
)

_BY_NUMBER = "number + suppressed DESC"


class RefusalRow(Struct, frozen=True, kw_only=True):
    """Refusals, denials of the policy, failed logins or limits with one event and reason."""

    event: str
    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    reason: str | None = None
    limit: str | None = None

    @property
    def cause(self) -> str | None:
        """The reason, or else the limit."""
        return self.reason or self.limit


def refusals(tables: Tables) -> Listing[RefusalRow]:
    """Refusals, denials of the policy, failed logins and limits, by event and reason."""
    by_reason = f"SELECT event, reason, limit_name, {_NUMBERS} FROM @refusals GROUP BY event, reason, limit_name"
    return listing(tables, by_reason, RefusalRow, f"{_BY_NUMBER}, {first('event', 'reason', 'limit_name')}")


class RefusedAddress(Struct, frozen=True, kw_only=True):
    """The same of one address."""

    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    address: str | None = None
    actors: int = 0


def refused(tables: Tables) -> Listing[RefusedAddress]:
    """The same by address."""
    names = "count(DISTINCT coalesce(actor, claimed)) AS actors"
    by_address = f"SELECT address, {_NUMBERS}, {names} FROM @refusals GROUP BY address"
    return listing(tables, by_address, RefusedAddress, f"{_BY_NUMBER}, {first('address')}")


class Attacked(Struct, frozen=True, kw_only=True):
    """A user with failed logins.

    :ivar sources: the number of addresses; ``addresses`` are some of them.
    """

    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    claimed: str | None = None
    sources: int = 0
    addresses: tuple[str, ...] = ()


def attacked(tables: Tables) -> Listing[Attacked]:
    """The users with failed logins, those with most first."""
    sources = "count(DISTINCT address) AS sources, names_of(address) AS addresses"
    tried = f"SELECT claimed, {_NUMBERS}, {sources} FROM @refusals WHERE event = 'auth.failed' GROUP BY claimed"
    return listing(tables, tried, Attacked, f"{_BY_NUMBER}, {first('claimed')}")


class Storm(Struct, frozen=True, kw_only=True):
    """An address that reconnected too often."""

    server: str
    begin: int
    end: int
    openings: int
    peak: int
    protocol: str | None = None
    address: str | None = None


def storms(tables: Tables) -> Listing[Storm]:
    """Addresses that reconnected too often, the worst first."""
    order = f"{most_of('openings')}, {first('begin', 'server', 'protocol', 'address', 'until')}"
    return listing(tables, "SELECT * FROM @storms", Storm, order)


class ContestedId(Struct, frozen=True, kw_only=True):
    """A routing id that several sessions had at the same time."""

    server: str
    routing_id: str
    sessions: int
    overlaps: int
    first_moment: int
    last_moment: int
    addresses: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()


def identities(tables: Tables) -> Listing[ContestedId]:
    """Routing ids that several sessions had at the same time."""
    order = f"{most_of('overlapping')}, {first('server', 'routing_id')}"
    return listing(tables, "SELECT * FROM @identities", ContestedId, order)


class LinkUse(Struct, frozen=True, kw_only=True):
    """A link between two servers."""

    server: str
    neighbour: str | None
    ups: int
    downs: int
    up_seconds: float
    up: bool
    availability: float | None = None
    mtbf_seconds: float | None = None
    last_reason: str | None = None


def links(tables: Tables) -> Listing[LinkUse]:
    """Links to other servers, those lost most often first."""
    order = f"{most_of('downs')}, {first('availability', 'server', 'neighbour')}"
    return listing(tables, "SELECT * FROM @links", LinkUse, order)


class Lease(Struct, frozen=True, kw_only=True):
    """A lease that ran out.

    :ivar kind: ``subscription`` or ``service``.
    """

    server: str
    session: str
    added: int | None
    expired: int
    renewals: int
    kind: str | None = None
    renewed: int | None = None
    routing_id: str | None = None
    address: str | None = None
    service: str | None = None

    @property
    def holder(self) -> str:
        """The name by which a person knows the client."""
        return called({"routing_id": self.routing_id, "session": self.session, "peer": self.address})


def leases(tables: Tables) -> Listing[Lease]:
    """Leases that ran out, the latest first."""
    order = f"{most_of('expired')}, {first('server', 'session', 'service', 'added')}"
    return listing(tables, "SELECT * FROM @leases", Lease, order)


class Recorded(Struct, frozen=True):
    """The number of records of an event, and of those left out because one address caused too many."""

    event: str
    outcome: str
    records: int
    suppressed: int


def events(tables: Tables) -> Listing[Recorded]:
    """The number of records of each event."""
    counts = f"SELECT event, outcome, {total('records')}, {total('suppressed')} FROM @events GROUP BY event, outcome"
    return listing(tables, counts, Recorded, first("event", "outcome"), most=MOST_EVENTS)
