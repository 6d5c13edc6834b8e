"""The table of sessions, once more: told record by record."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timezone
from typing import Any

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit.oracles.address import address_of

Key = tuple[str, str]
COUNTERS = ("objects_in", "objects_out", "bytes_in", "bytes_out")


def sessions(records: list[Record], given: list[Record], since: int | None = None) -> dict[Key, dict[str, Any]]:
    told: dict[Key, list[Record]] = defaultdict(list)
    for record in sorted([*records, *given], key=lambda each: (each.seq, each.time, each.mono)):
        if record.event.session is not None:
            told[record.server, record.event.session].append(record)
    found = {key: describe(mine) for key, mine in told.items()}
    return {key: row for key, row in found.items() if row["closed"] is None or row["closed"] >= (since or 0)}


def describe(mine: list[Record]) -> dict[str, Any]:
    opening = next((each for each in mine if isinstance(each.event, ev.SessionOpened)), None)
    closing = next((each for each in mine if isinstance(each.event, ev.SessionClosed)), None)
    opened = opening.event if opening else None
    closed = closing.event if closing else None
    identified, actor, claimed = None, None, None
    services: dict[type, set[str]] = {ev.ServiceRegistered: set(), ev.SubscriptionAdded: set()}
    objects_wanted = False
    for each in mine:
        if isinstance(each.event, ev.SessionIdentified):
            identified = each.event
            claimed = each.event.claimed or claimed
        if isinstance(each.event, ev.SessionIdentified | ev.AuthSucceeded):
            actor = each.event.actor or actor
        if type(each.event) in services and each.event.service is not None:
            services[type(each.event)].add(each.event.service)
        objects_wanted |= isinstance(each.event, ev.SubscriptionAdded) and each.event.service is None
    first = min(each.time for each in mine)
    row: dict[str, Any] = {
        "routing_id": first_of("routing_id", closed, identified, opened),
        "actor": first_of("actor", closed) or actor or first_of("actor", opened),
        "claimed": first_of("claimed", closed) or claimed or first_of("claimed", opened),
        "name": identified.name if identified else None,
        "role": identified.role if identified else None,
        "state": "closed" if closing else "open",
        "opened": opening.time if opening else None,
        "closed": closing.time if closing else None,
        "duration_seconds": closed.duration / 1_000_000 if closed else None,
        "reason": closed.reason if closed else None,
        **{name: getattr(closed, name) if closed else None for name in COUNTERS},
        "persistent": opened.persistent if opened else None,
        "home": opened.home if opened else None,
        "provided": sorted(services[ev.ServiceRegistered]),
        "wanted": sorted(services[ev.SubscriptionAdded]),
        "objects_wanted": objects_wanted,
        "date": str(datetime.fromtimestamp((opening.time if opening else first) // 1_000_000, timezone.utc).date()),
    }
    others = [each.event for each in mine]
    for name in ("protocol", "peer"):
        row[name] = first_of(name, opened, closed) or least(name, others)
    row["address"] = address_of(row["peer"])
    row["routing_id"] = row["routing_id"] or least("routing_id", others)
    return row


def first_of(name: str, *events: ev.Event | None) -> Any:
    return next((getattr(each, name) for each in events if each and getattr(each, name) is not None), None)


def least(name: str, events: list[ev.Event]) -> Any:
    """What the others say, those that do not say what a session is."""
    telling = ev.SessionOpened | ev.SessionIdentified | ev.AuthSucceeded | ev.SessionClosed
    said = [getattr(each, name) for each in events if not isinstance(each, telling)]
    return min((each for each in said if each is not None), default=None)
