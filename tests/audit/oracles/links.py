"""Links to other servers, once more: record by record, with what stands kept in mind."""

from __future__ import annotations

from typing import Any

from bussrv import events as ev
from bussrv.journal.record import Record

Rows = list[dict[str, Any]]


def links(
    records: list[Record], given: list[Record] | None = None, since: int | None = None, until: int | None = None
) -> Rows:
    found = []
    for server in sorted({each.server for each in records}):
        mine = [each for each in records if each.server == server]
        stood = stood_before([each for each in given or [] if each.server == server])
        told = {each.event.routing_id for each in mine if isinstance(each.event, ev.LinkUp | ev.LinkDown)}
        for neighbour in {*told, *(neighbour for neighbour, _, _ in stood)}:
            before = [(boot, time) for name, boot, time in stood if name == neighbour]
            found.append({"server": server, "neighbour": neighbour, **link(mine, neighbour, before, since, until)})
    return found


def stood_before(given: list[Record]) -> list[tuple[str | None, str, int]]:
    """The neighbour, the boot and the time of each link that was there before the first record."""
    far = {each.event.session for each in given if isinstance(each.event, ev.SessionOpened) and each.event.home}
    return [
        (each.event.routing_id, str(each.event.session).partition(".")[0], each.time)
        for each in given
        if isinstance(each.event, ev.SessionIdentified)
        and each.event.role == "server"
        and each.event.session not in far
    ]


def link(
    mine: list[Record], neighbour: str | None, before: list[tuple[str, int]], since: int | None, until: int | None
) -> dict[str, Any]:
    ends: dict[str, int] = {}
    for each in mine:
        ends[each.boot] = max(each.time, ends.get(each.boot, each.time))
    begins = {boot: [(each.seq, each.time) for each in mine if each.boot == boot] for boot in ends}
    newest = max(begins, key=lambda boot: (*map(min, zip(*begins[boot], strict=True)), boot))
    is_stopped = any(isinstance(each.event, ev.ServerStopped) and each.boot == newest for each in mine)
    floor = max(min(each.time for each in mine), *([since] if since is not None else []), 0)
    ceiling = min([max(ends.values()), *([until] if until is not None else [])])
    ups = downs = up_micros = 0
    last_reason: str | None = None
    first_heard: int | None = None
    standing: tuple[str, int] | None = None

    def stood(to: int) -> int:
        assert standing is not None
        end = to if until is None else min(to, until)
        return max(0, end - max(standing[1], floor))

    for boot, time in before:
        standing = (boot, time)
        first_heard = time
    steps = [each for each in mine if isinstance(each.event, ev.LinkUp | ev.LinkDown)]
    steps.sort(key=lambda each: (each.seq, each.time, each.mono, isinstance(each.event, ev.LinkUp)))
    for each in steps:
        if each.event.routing_id != neighbour:
            continue
        is_counted = (since is None or each.time >= since) and (until is None or each.time < until)
        first_heard = each.time if first_heard is None else min(first_heard, each.time)
        if standing is not None:
            boot, time = standing
            up_micros += stood(each.time if boot == each.boot else ends.get(boot, time))
            standing = None
        if isinstance(each.event, ev.LinkUp):
            ups += is_counted
            standing = (each.boot, each.time)
        elif is_counted:
            downs += 1
            last_reason = each.event.reason
    up = False
    if standing is not None:
        boot, time = standing
        up_micros += stood(ends.get(boot, time))
        up = boot == newest and not is_stopped
    assert first_heard is not None
    observed = max(0, ceiling - max(first_heard, floor))
    return {
        "ups": ups,
        "downs": downs,
        "up_seconds": up_micros / 1_000_000,
        "observed_seconds": observed / 1_000_000,
        "availability": min(up_micros, observed) / observed if observed else None,
        "mtbf_seconds": up_micros / 1_000_000 / downs if downs else None,
        "last_reason": last_reason,
        "up": up,
    }
