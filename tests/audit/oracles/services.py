"""What was provided and wanted, once more: replayed record by record, and looked at between any two moments."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bussrv import events as ev
from bussrv.journal.record import Record

Of = tuple[str, str]
ON = (ev.ServiceRegistered, ev.SubscriptionAdded)
OFF = (ev.ServiceUnregistered, ev.SubscriptionRemoved)
PROVIDES = (ev.ServiceRegistered, ev.ServiceUnregistered)
LEFT = (None, "client-closed", "unreachable")


@dataclass
class Span:
    server: str
    service: str
    session: str
    is_provided: bool
    protocol: str | None
    routing_id: str | None
    begin: int
    end: int
    ended: bool
    lost: bool


@dataclass
class Answer:
    spans: list[Span]
    uptimes: dict[Of, list[tuple[int, int, bool]]]
    services: dict[Of, dict[str, Any]]
    orphans: list[Span]


def answer(records: list[Record], given: list[Record], since: int | None = None) -> Answer:
    found = Answer([], {}, {}, [])
    for server in {each.server for each in records}:
        mine = [each for each in records if each.server == server]
        look(mine, [each for each in given if each.server == server], since or 0, found)
    return found


def look(records: list[Record], given: list[Record], since: int, found: Answer) -> None:
    server, last = records[0].server, max(each.time for each in records)
    first = max(since, min(each.time for each in records))
    spans = clipped(replayed(records, given, last), first)
    counted = [each for each in records if isinstance(each.event, ON + OFF) and each.event.service]
    counted = [each for each in counted if each.time >= since]
    for service in {each.service for each in spans} | {str(each.event.service) for each in counted}:
        mine = [each for each in spans if each.service == service]
        up = merged([each for each in mine if each.is_provided])
        about = [each for each in counted if each.event.service == service]
        found.services[server, service] = describe(mine, about, up, last)
        if up:
            found.uptimes[server, service] = [(*each, is_lost(mine, each[1])) for each in up]
        found.orphans += [each for each in mine if not each.is_provided and not is_served(each, up)]
    found.spans += spans


def replayed(records: list[Record], given: list[Record], last: int) -> list[Span]:
    held: dict[tuple[str, bool, str], Record] = {}
    closed: set[str] = set()
    spans: list[Span] = []

    def end(key: tuple[str, bool, str], moment: int, ended: bool = True, reason: str | None = None) -> None:
        begin = held.pop(key, None)
        if begin is not None:
            about = (begin.event.protocol, begin.event.routing_id, begin.time, max(begin.time, moment), ended)
            spans.append(Span(begin.server, key[2], key[0], key[1], *about, reason not in LEFT))

    for record in sorted([*records, *given], key=lambda each: (each.seq, each.time, each.mono)):
        event, session = record.event, str(record.event.session)
        key = (session, isinstance(event, PROVIDES), str(event.service))
        if isinstance(event, ev.SessionClosed):
            closed.add(session)
            for each in [each for each in held if each[0] == session]:
                end(each, record.time, reason=event.reason)
        elif isinstance(event, ON) and event.service is not None and session not in closed:
            held.setdefault(key, record)
        elif isinstance(event, OFF):
            end(key, record.time, reason=event.reason)
    for key in [*held]:
        end(key, last, ended=False)
    return spans


def clipped(spans: list[Span], first: int) -> list[Span]:
    kept = [each for each in spans if each.end > first or each.begin >= first]
    for each in kept:
        each.begin = max(each.begin, first)
    return kept


def merged(spans: list[Span]) -> list[tuple[int, int]]:
    """The times between any two moments that something lasts."""
    points = sorted({point for each in spans for point in (each.begin, each.end)})
    found: list[tuple[int, int]] = []
    for begin, end in pairwise(points):
        if any(each.begin <= begin and end <= each.end for each in spans):
            if found and found[-1][1] == begin:
                begin = found.pop()[0]
            found.append((begin, end))
    return found


def is_lost(spans: list[Span], moment: int) -> bool:
    return any(each.lost for each in spans if each.is_provided and each.end == moment)


def is_served(want: Span, up: list[tuple[int, int]]) -> bool:
    if want.begin == want.end:
        return any(begin <= want.begin < end for begin, end in up)
    return any(begin < want.end and want.begin < end for begin, end in up)


def length(intervals: list[tuple[int, int]]) -> float:
    return sum(end - begin for begin, end in intervals) / 1_000_000


def describe(spans: list[Span], records: list[Record], up: list[tuple[int, int]], last: int) -> dict[str, Any]:
    registered = [each.time for each in records if isinstance(each.event, ev.ServiceRegistered)]
    providing = [each for each in spans if each.is_provided]
    provided = any(not each.ended for each in providing)
    observed = (last - min([each.begin for each in spans] + [each.time for each in records])) / 1_000_000
    gaps = [(begin - end) / 1_000_000 for (_, end), (begin, _) in pairwise(up)]
    outages = list(gaps)
    if up and not (provided and up[-1][1] == last):
        outages.append((last - up[-1][1]) / 1_000_000)
    subscribers = len({each.session for each in spans if not each.is_provided})
    return {
        "providers": len({each.session for each in providing}),
        "registrations": len(registered),
        "first_registered": min(registered, default=None),
        "last_registered": max(registered, default=None),
        "provided_seconds": length(up),
        "observed_seconds": observed,
        "availability": length(up) / observed if observed else None,
        "provided": provided,
        "outages": len(outages),
        "longest_outage_seconds": max(outages, default=None),
        "mtbf_seconds": length(up) / len(outages) if outages else None,
        "mttr_seconds": sum(gaps) / len(gaps) if gaps else None,
        "subscribers": subscribers,
        "subscriptions": sum(isinstance(each.event, ev.SubscriptionAdded) for each in records),
        "unprovided_seconds": length(merged(spans)) - length(up),
        "unused": bool(providing) and not subscribers,
    }
