"""The rows of usual sessions are those that the state machine of sessions makes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.audit.fold.facts import Rows, finish, no_rows
from bussrv.audit.fold.record_columns import coded, columns_of
from bussrv.audit.fold.session_fold import SessionFold
from bussrv.audit.fold.vectorised import usual_sessions
from bussrv.journal.record import Record
from tests.audit.frames import line_of
from tests.size import sized

SECOND = 1_000_000
START = 1_795_270_923 * SECOND

_OF_SERVICES = (ev.ServiceRegistered, ev.ServiceUnregistered)
_OF_SUBSCRIPTIONS = (ev.SubscriptionAdded, ev.SubscriptionRemoved, ev.SubscriptionRenewed)
_REASONS = (None, "client", "replaced", "lease-expired", "inbus-unreachable")

About = dict[str, Any]


def _about(random: Random, protocol: str | None) -> About:
    """What an event says of its session, which may be another thing each time."""
    return {
        "protocol": protocol,
        "session": "",
        "routing_id": random.choice((None, "x", "y")),
        "actor": random.choice((None, "ann", "bob")),
        "claimed": random.choice((None, "eve", "joe")),
        "peer": random.choice((None, "192.0.2.1:5", "[::1]:7")),
    }


def _changes(random: Random, protocol: str | None) -> list[ev.Event]:
    """The changes of services and subscriptions that a server makes. Subscriptions may be left."""
    held: set[tuple[int, str | None]] = set()
    events: list[ev.Event] = []
    for _ in range(random.randrange(12)):
        key = random.choice(((0, "tv"), (0, "fm"), (1, "tv"), (1, "tv"), (1, None)))
        begin, *others = (_OF_SERVICES, _OF_SUBSCRIPTIONS)[key[0]]
        kind = random.choice(others) if key in held else begin
        reason = None if kind is begin else random.choice(_REASONS)
        events.append(kind(**_about(random, protocol), service=key[1], reason=reason))
        if kind is not ev.SubscriptionRenewed:
            held ^= {key}
    left = sorted(str(service) for kind, service in held if kind == 0)
    return [*events, *(ev.ServiceUnregistered(**_about(random, protocol), service=each) for each in left)]


def _other(random: Random, protocol: str | None) -> ev.Event:
    """Anything else between opening and closing; it may be wrong."""
    about = _about(random, protocol)
    match random.randrange(12):
        case 0 | 1 | 2:
            return ev.SessionIdentified(**about, name=random.choice((None, "panel")), role="role")
        case 3 | 4:
            return ev.AuthSucceeded(**about, method="password")
        case 5:
            return ev.SubscriptionRefused(**about, service="tv")
        case 6 | 7:
            protocol = random.choice((protocol, "spp"))
            kind = random.choice((*_OF_SERVICES, *_OF_SUBSCRIPTIONS))
            about |= {"protocol": protocol, "service": "tv", "reason": random.choice(_REASONS)}
            return kind(**about)
        case 8:
            return ev.SessionOpened(**about)
        case 9:
            return ev.SessionLeft(**about, until=START, reason="client-closed")
        case 10:
            return ev.SessionResumed(**about, expiry=SECOND)
    return ev.SessionClosed(**about, duration=0)


def _opened(random: Random, protocol: str | None) -> ev.Event:
    home = random.choice((*(None,) * 9, "attic"))
    expiry = random.choice((None, SECOND))
    about = _about(random, protocol)
    return ev.SessionOpened(**about, persistent=random.random() < 0.5, expiry=expiry, home=home)


def _closed(random: Random, protocol: str | None, lasted: int) -> ev.Event:
    objects_in, objects_out = (random.choice((0, 0, *(3,) * 9, -1)) for _ in "io")
    bytes_in, bytes_out = (random.choice((*(count * 9,) * 9, 7, 0)) for count in (objects_in, objects_out))
    duration = random.choice((*(lasted,) * 9, lasted + 59 * SECOND, lasted + 80 * SECOND, lasted - 80 * SECOND, -1))
    return ev.SessionClosed(
        **_about(random, protocol), duration=duration, reason="client-closed", objects_in=objects_in,
        objects_out=objects_out, bytes_in=bytes_in, bytes_out=bytes_out,
    )  # fmt: skip


def session(random: Random, name: str) -> list[Record]:
    """A session. Most are as a server has them."""
    protocol = random.choice(("objects", "inbus", "inbus", None))
    events = _changes(random, protocol)
    for _ in range(random.choice((0, 0, 1, 2))):
        events.insert(random.randrange(len(events) + 1), _other(random, protocol))
    if random.random() < 0.9:
        events.insert(0, _opened(random, protocol))
    if random.random() < 0.9:
        events.append(_closed(random, protocol, len(events) * 100 * SECOND))
    if random.random() < 0.1 and len(events) > 2:
        del events[-2]
    moments = [START + (100 * at + random.choice((0, 0, 0, -150))) * SECOND for at in range(len(events))]
    events = [replace(each, session=name) for each in events]
    return [Record(7 + at, moments[at], moments[at] - START, "hall", "b1", each) for at, each in enumerate(events)]


def by_state(session: str, records: list[Record]) -> Rows:
    """The rows that the state machine makes."""
    fold = SessionFold("hall", session)
    for record in records:
        fold.take(line_of(record), record.time, False)
    rows = no_rows()
    finish([fold], rows)
    return rows


def by_columns(found: dict[str, list[Record]], unusual: list[str]) -> tuple[dict[str, Rows], dict[str, list[int]]]:
    """The rows of usual sessions, and the numbers of the records of all others."""
    each_of = [record for records in found.values() for record in records]
    # Those of all sessions between each other: no session has two records of one number.
    records = sorted(each_of, key=lambda each: (each.seq, str(each.event)[::-1]))
    lines = [line_of(each) for each in records]
    moments, seqs = (np.array([getattr(each, name) for each in records]) for name in ("time", "seq"))
    columns = columns_of(lines, moments, seqs, 1)
    usual = usual_sessions(columns, coded(columns.sessions), unusual)
    rows = {session: no_rows() for session in usual.sessions}
    for name, table in usual.tables.items():
        for row in table.to_pylist():
            rows[row["session"]][name].append((*row.values(),))
    others = {str(session): [lines[place].seq for place in places] for session, places in usual.others.items()}
    return rows, others


def test_usual_sessions() -> None:
    found = {f"b1.{seed}": session(Random(seed), f"b1.{seed}") for seed in range(sized(3000))}
    found = {session: records for session, records in found.items() if records}
    unusual = [*found][::50]
    usual, others = by_columns(found, unusual)
    assert len(usual) > len(found) / 8
    for name, records in found.items():
        expected = by_state(name, records)
        if name in usual:
            assert name not in unusual
            assert (name, _sorted(usual[name])) == (name, _sorted(expected))
        else:
            assert (name, others[name]) == (name, [each.seq for each in records])
            assert name in unusual or not _should_be_usual(expected, records), name


def test_changes_without_a_session_are_left() -> None:
    changes = [ev.SubscriptionAdded(service="tv"), ev.LimitReached(limit="max-sessions", value=1)]
    records = [Record(7 + at, START, 0, "hall", "b1", each) for at, each in enumerate(changes)]
    assert by_columns({"": records}, []) == ({}, {"None": [7]})


def _sorted(rows: Rows) -> Rows:
    return {name: sorted(some, key=repr) for name, some in rows.items()}


def _should_be_usual(rows: Rows, records: list[Record]) -> bool:
    """Whether a session is one of those that the fast way is for."""
    events = [each.event for each in records]
    is_whole = isinstance(events[0], ev.SessionOpened) and isinstance(events[-1], ev.SessionClosed)
    # The clock of the server was not set, and no loss ended what had ended already: neither is suspicious, but rare.
    is_simple = records[-1].time - records[0].time == records[-1].mono - records[0].mono
    is_single = len({each.protocol for each in events}) == 1 and all(each.reason is None for each in events[:-1])
    is_present = not any(isinstance(each, ev.SessionLeft | ev.SessionResumed) for each in events)
    return is_whole and is_simple and is_single and is_present and not rows["suspicions"]
