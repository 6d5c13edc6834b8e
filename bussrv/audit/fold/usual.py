"""Usual sessions: opened, then closed, all in one stripe, with nothing suspicious in between.

Nearly all sessions are usual. Their rows are made from their records directly, which is several times as fast as the
state of a :class:`bussrv.audit.fold.life.Life`. In any doubt a session is not a usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bussrv.audit.fold.facts import Rows
from bussrv.audit.fold.holdings import ADDED, BEGINS, CODES, LEASED, RAN_OUT, RENEWED
from bussrv.audit.fold.life import TELLING, address_of
from bussrv.audit.fold.lines import Line
from bussrv.audit.fold.suspicions import TOLERANCE

_OPENED, _IDENTIFIED, _CLOSED = "session.opened", "session.identified", "session.closed"

_Row = tuple[Any, ...]

_Held = dict["str | None", "list[Any] | None"]
"""By service: the first record of a holding with its time, how often it was renewed, and when last; ``None`` if it has
ended."""


def finish_usual(records: Sequence[Line], moments: Sequence[int], rows: Rows) -> bool:
    """Add the rows of a session, if it is usual.

    :param records: all of the session, in order. Nothing was known of the session before.
    :param moments: the time of each, UTC microseconds.
    :returns: whether it is usual. If not, no row is added.
    """
    opened, closed = records[0], records[-1]
    if opened.event != _OPENED or closed.event != _CLOSED or not _is_counted(opened, closed, moments):
        return False
    services: _Held = {}
    subscriptions: _Held = {}
    spans: list[_Row] = []
    leases: list[_Row] = []
    told = _follow(records, moments, (services, subscriptions), spans, leases)
    if told is None or any(services.values()):
        return False
    for service, begun in subscriptions.items():
        if begun is not None and service is not None:
            first, begin = begun[:2]
            about = first.protocol, first.routing_id, begin, moments[-1]
            spans.append((first.server, first.session, service, False, *about))
    rows["sessions"].append(_session(records, moments, told, services, subscriptions))
    rows["spans"] += spans
    rows["leases"] += leases
    return True


def _is_counted(opened: Line, closed: Line, moments: Sequence[int]) -> bool:
    """Whether the counters and the duration of a session fit each other."""
    duration = closed.duration or 0
    objects_in, objects_out = closed.objects_in or 0, closed.objects_out or 0
    bytes_in, bytes_out = closed.bytes_in or 0, closed.bytes_out or 0
    if min(duration, objects_in, objects_out, bytes_in, bytes_out) < 0:
        return False
    if (objects_out > 0) is not (bytes_out > 0) or objects_in > 0 >= bytes_in:
        return False
    if opened.home is not None and (bytes_in or bytes_out or objects_in):
        return False
    return -TOLERANCE <= duration - max(0, moments[-1] - moments[0]) <= TOLERANCE


def _follow(
    records: Sequence[Line],
    moments: Sequence[int],
    held_by_kind: tuple[_Held, _Held],
    spans: list[_Row],
    leases: list[_Row],
) -> list[Line] | None:
    """Take in the records between the opening and the closing of a session.

    :param held_by_kind: the services and the subscriptions, which are filled.
    :returns: those that describe the session; ``None`` if it is not usual.
    """
    told = []
    opened = records[0]
    server, session, protocol = opened.server, opened.session, opened.protocol
    for place in range(1, len(records) - 1):
        record = records[place]
        code = CODES.get(record.event)
        if code is None:
            if record.event in TELLING:
                told.append(record)
            continue
        held, service = held_by_kind[code >= ADDED], record.service
        begun = held.get(service)
        if record.protocol != protocol or (begun is None) is not (code in BEGINS):
            return None
        if begun is None:
            held[service] = [record, moments[place], 0, None]
        elif code == RENEWED:
            begun[2:] = begun[2] + 1, moments[place]
        else:
            held[service] = None
            if service is not None:
                about = protocol, begun[0].routing_id, begun[1], moments[place]
                spans.append((server, session, service, code < ADDED, *about))
            if protocol == LEASED and record.reason in RAN_OUT:
                leases.append(_lease(record, moments[place], begun, is_subscription=code >= ADDED))
    return None if told and any(record.event in (_OPENED, _CLOSED) for record in told) else told


def _lease(record: Line, moment: int, begun: Sequence[Any], *, is_subscription: bool) -> _Row:
    _, added, renewals, renewed = begun
    return (
        record.server, record.session, "subscription" if is_subscription else "service", record.routing_id,
        address_of(record.peer), record.service, added, renewed, moment, renewals, record.reason,
    )  # fmt: skip


def _session(
    records: Sequence[Line], moments: Sequence[int], told: Sequence[Line], services: _Held, subscriptions: _Held
) -> _Row:
    """The row of :func:`bussrv.audit.fold.facts.finish`."""
    opened, closed = records[0], records[-1]
    identified, actor, claimed = None, closed.actor, closed.claimed
    for record in reversed(told):
        actor = record.actor if actor is None else actor
        if record.event == _IDENTIFIED:
            identified = identified or record
            claimed = record.claimed if claimed is None else claimed
    routing_id = closed.routing_id
    if routing_id is None and identified is not None:
        routing_id = identified.routing_id
    peer = opened.peer if opened.peer is not None else _or_least(closed.peer, records, "peer")
    return (
        opened.session,
        opened.server,
        opened.protocol if opened.protocol is not None else _or_least(closed.protocol, records, "protocol"),
        routing_id if routing_id is not None else _or_least(opened.routing_id, records, "routing_id"),
        opened.actor if actor is None else actor,
        opened.claimed if claimed is None else claimed,
        None if identified is None else identified.name,
        None if identified is None else identified.role,
        peer,
        address_of(peer),
        "closed",
        moments[0],
        moments[-1],
        closed.duration,
        closed.reason,
        closed.objects_in or 0,
        closed.objects_out or 0,
        closed.bytes_in or 0,
        closed.bytes_out or 0,
        bool(opened.persistent),
        opened.home,
        _names(services),
        _names(subscriptions),
        None in subscriptions,
        min(moments),
    )


def _names(held: _Held) -> list[str]:
    return sorted([service for service in held if service is not None]) if held else []


def _or_least(known: str | None, records: Sequence[Line], name: str) -> str | None:
    """The known value, or else the least one that actions of the session have."""
    if known is not None:
        return known
    return min(
        (value for each in records if each.event not in TELLING if (value := getattr(each, name)) is not None),
        default=None,
    )
