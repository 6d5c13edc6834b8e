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
    gone = absences(mine)
    last = gone[-1] if gone and gone[-1]["end"] is None else None
    first = min(each.time for each in mine)
    row: dict[str, Any] = {
        "routing_id": first_of("routing_id", closed, identified, opened),
        "actor": first_of("actor", closed) or actor or first_of("actor", opened),
        "claimed": first_of("claimed", closed) or claimed or first_of("claimed", opened),
        "name": identified.name if identified else None,
        "role": identified.role if identified else None,
        "state": "closed" if closing else "away" if last else "open",
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
        "away_since": last["begin"] if last else None,
        "kept_until": last["kept_until"] if last else None,
        "away_seconds": sum(each["end"] - each["begin"] for each in gone if each["end"] is not None) / 1_000_000,
        "date": str(datetime.fromtimestamp((opening.time if opening else first) // 1_000_000, timezone.utc).date()),
    }
    others = [each.event for each in mine]
    for name in ("protocol", "peer"):
        row[name] = first_of(name, opened, closed) or least(name, others)
    row["address"] = address_of(row["peer"])
    row["routing_id"] = row["routing_id"] or least("routing_id", others)
    return row


def absences(mine: list[Record]) -> list[dict[str, Any]]:
    """When a session was away, each absence after the one before."""
    found: list[dict[str, Any]] = []
    is_away, clock = False, 0
    for each in mine:
        event = each.event
        if isinstance(event, ev.SessionClosed):
            if is_away:
                found[-1] |= {"end": max(each.time, clock), "outcome": "closed"}
            break
        if isinstance(event, ev.SessionLeft):
            if not is_away:
                clock = max(each.time, clock)
                found.append({"begin": clock, "end": None, "outcome": "away", "back_address": None, "back_actor": None})
            found[-1] |= {"kept_until": event.until, "reason": event.reason}
            is_away = True
        elif isinstance(event, ev.SessionResumed) and is_away:
            clock, is_away = max(each.time, clock), False
            back = {"back_address": address_of(event.peer), "back_actor": event.actor}
            found[-1] |= {"end": clock, "outcome": "resumed", **back}
    return found


def first_of(name: str, *events: ev.Event | None) -> Any:
    return next((getattr(each, name) for each in events if each and getattr(each, name) is not None), None)


def least(name: str, events: list[ev.Event]) -> Any:
    """What the others say, those that do not say what a session is."""
    telling = ev.SessionOpened | ev.SessionIdentified | ev.AuthSucceeded | ev.SessionClosed
    said = [getattr(each, name) for each in events if not isinstance(each, telling)]
    return min((each for each in said if each is not None), default=None)
