"""What was written, what was refused, and reconnect storms, once more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit.oracles.address import address_of

Rows = list[dict[str, Any]]


def is_within(time: int, since: int | None, until: int | None) -> bool:
    return (since is None or time >= since) and (until is None or time < until)


def day_of(time: int) -> str:
    return datetime.fromtimestamp(time // 1_000_000, timezone.utc).date().isoformat()


def grouped(
    some: Iterable[Record], key: Callable[[Record], dict[str, Any]]
) -> list[tuple[dict[str, Any], list[Record]]]:
    groups: dict[str, tuple[dict[str, Any], list[Record]]] = {}
    for each in some:
        groups.setdefault(repr(key(each)), (key(each), []))[1].append(each)
    return list(groups.values())


def counts(some: list[Record]) -> dict[str, Any]:
    return {"records": len(some), "suppressed": sum(each.event.suppressed or 0 for each in some)}


def events(records: list[Record], since: int | None = None, until: int | None = None) -> Rows:
    def key(each: Record) -> dict[str, Any]:
        return {
            "server": each.server,
            "event": str(each.event.__struct_config__.tag),
            "outcome": each.event.OUTCOME,
            "date": day_of(each.time),
            "protocol": each.event.protocol,
        }

    within = [each for each in records if is_within(each.time, since, until)]
    return [{**about, **counts(some)} for about, some in grouped(within, key)]


def refusals(records: list[Record], since: int | None = None, until: int | None = None) -> Rows:
    kinds = (ev.ServiceRefused, ev.SubscriptionRefused, ev.AuthFailed, ev.LimitReached)

    def key(each: Record) -> dict[str, Any]:
        event = each.event
        return {
            "server": each.server,
            "event": str(event.__struct_config__.tag),
            "reason": event.reason,
            "limit": event.limit if isinstance(event, ev.LimitReached) else None,
            "actor": event.actor,
            "claimed": event.claimed,
            "address": address_of(event.peer),
            "date": day_of(each.time),
            "protocol": event.protocol,
        }

    refused = [each for each in records if isinstance(each.event, kinds) and is_within(each.time, since, until)]
    return [
        {
            **about,
            **counts(some),
            "first_seq": min(each.seq for each in some),
            "first_moment": min(each.time for each in some),
            "last_moment": max(each.time for each in some),
        }
        for about, some in grouped(refused, key)
    ]


def storms(records: list[Record], since: int | None = None, until: int | None = None) -> Rows:
    by_minute: dict[Any, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for each in records:
        event = each.event
        is_own = isinstance(event, ev.SessionOpened) and event.home is None and event.peer is not None
        if is_own and is_within(each.time, since, until):
            where = (each.server, event.protocol, address_of(event.peer))
            by_minute[where][each.time // 60_000_000] += [(each.time, each.seq)] * (1 + (event.suppressed or 0))
    found = []
    for (server, protocol, address), minutes in by_minute.items():
        busy = {minute for minute, times in minutes.items() if len(times) >= 10}
        for first in sorted(minute for minute in busy if minute - 1 not in busy):
            last = first
            while last + 1 in busy:
                last += 1
            storm = [minutes[minute] for minute in range(first, last + 1)]
            found.append(
                {
                    "server": server,
                    "protocol": protocol,
                    "address": address,
                    "first_seq": min(seq for minute in storm for _, seq in minute),
                    "begin": min(map(min, storm))[0],
                    "end": max(map(max, storm))[0],
                    "openings": sum(map(len, storm)),
                    "peak": max(map(len, storm)),
                }
            )
    return found
