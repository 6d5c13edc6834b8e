"""Facts about refusals, failed logins, reconnect storms, links, leases, and the events."""

from __future__ import annotations

from bussrv.audit.report.model import Attacked, Identity, Lease, Link, Recorded, Refusal, Refused, Storm
from bussrv.audit.report.questions import Listing, Question, first, listing, most_of, total

MOST_EVENTS = 40

_NUMBERS = (
    f"CAST(coalesce(sum(records), 0) AS BIGINT) AS number, {total('suppressed')}, min(first_moment) AS first_moment, "
    "max(last_moment) AS last_moment"
)
_BY_NUMBER = "number + suppressed DESC"


def refusals() -> Question[Listing[Refusal]]:
    """Refusals, failed logins and limits, by event and reason."""
    by_reason = f"SELECT event, reason, limit_name, {_NUMBERS} FROM @refusals GROUP BY event, reason, limit_name"
    return listing(by_reason, Refusal, f"{_BY_NUMBER}, {first('event', 'reason', 'limit_name')}")


def refused() -> Question[Listing[Refused]]:
    """The same by address."""
    names = "count(DISTINCT coalesce(actor, claimed)) AS actors"
    by_address = f"SELECT address, {_NUMBERS}, {names} FROM @refusals GROUP BY address"
    return listing(by_address, Refused, f"{_BY_NUMBER}, {first('address')}")


def attacked() -> Question[Listing[Attacked]]:
    """The users with failed logins, those with most first."""
    sources = "count(DISTINCT address) AS sources, names_of(address) AS addresses"
    tried = f"SELECT claimed, {_NUMBERS}, {sources} FROM @refusals WHERE event = 'auth.failed' GROUP BY claimed"
    return listing(tried, Attacked, f"{_BY_NUMBER}, {first('claimed')}")


def storms() -> Question[Listing[Storm]]:
    """Addresses that reconnected too often, the worst first."""
    order = f"{most_of('openings')}, {first('begin', 'server', 'protocol', 'address', 'until')}"
    return listing("SELECT * FROM @storms", Storm, order)


def identities() -> Question[Listing[Identity]]:
    """Routing ids that several sessions had at the same time."""
    order = f"{most_of('overlapping')}, {first('server', 'routing_id')}"
    return listing("SELECT * FROM @identities", Identity, order)


def links() -> Question[Listing[Link]]:
    """Links to other servers, those lost most often first."""
    order = f"{most_of('downs')}, {first('availability', 'server', 'neighbour')}"
    return listing("SELECT * FROM @links", Link, order)


def leases() -> Question[Listing[Lease]]:
    """Leases that ran out, the latest first."""
    order = f"{most_of('expired')}, {first('server', 'session', 'service', 'added')}"
    return listing("SELECT * FROM @leases", Lease, order)


def events() -> Question[Listing[Recorded]]:
    """The number of records of each event."""
    counts = f"SELECT event, outcome, {total('records')}, {total('suppressed')} FROM @events GROUP BY event, outcome"
    return listing(counts, Recorded, first("event", "outcome"), most=MOST_EVENTS)
