"""Usual sessions: opened, then closed, all in one stripe, never away, with nothing suspicious in between.

This is the fast form of the fold of sessions: the rows of all usual sessions, which nearly all are, are made at once,
of columns of their records. :mod:`bussrv.audit.fold.session_fold` is the plain form of the same, several times as slow,
for every other session. Both make the same rows of a session, and a test holds them to that. In any doubt a session is
not a usual one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bussrv.audit.fold.absences import MOVES
from bussrv.audit.fold.facts import FactTables, as_table
from bussrv.audit.fold.holdings import ADDED, BEGINS, CODES, ENDS, LEASED, RAN_OUT
from bussrv.audit.fold.lines import Flags, FoldLine, Numbers
from bussrv.audit.fold.record_columns import KINDS, Coded, RecordColumns, among, coded
from bussrv.audit.fold.session_fold import COUNTERS, ONLY_OBJECTS, TELLING
from bussrv.audit.fold.suspicions import TOLERANCE
from bussrv.incidents.vocabulary import LEFT, address_of

_OPENED, _IDENTIFIED, _CLOSED = (KINDS[f"session.{what}"] for what in ("opened", "identified", "closed"))
_MOVES = [KINDS[event] for event in MOVES]
_CHANGES = np.array([CODES.get(event, 0) for event in KINDS])
_IS_TOLD = among(TELLING - {"session.opened", "session.closed"})
_IS_ACTION = ~among(TELLING)

Places = Numbers
"""Indexes of records."""


class UsualSessions(NamedTuple):
    """The usual sessions of a server.

    :ivar tables: their rows.
    :ivar sessions: their ids.
    :ivar others: the records of all other sessions, by their ids; by ``None`` changes without a session.
    """

    tables: FactTables
    sessions: list[str]
    others: dict[str | None, Places]


class _Whole(NamedTuple):
    """Sessions that were opened first, and closed last, once each, and never away.

    :ivar services: of each record of the columns, in the order of names.
    :ivar places: their records, one session after the other, in order.
    :ivar rows: the session of each, as a number.
    :ivar opened, closed: the first and the last record of each session.
    """

    columns: RecordColumns
    services: Coded
    protocols: Coded
    places: Places
    rows: Numbers
    opened: Places
    closed: Places

    @property
    def moments(self) -> Numbers:
        return self.columns.moments

    @property
    def kinds(self) -> Numbers:
        """Of the record at each of ``places``."""
        return self.columns.kinds[self.places]

    def at(self, places: Places) -> list[FoldLine]:
        return [self.columns.records[place] for place in places.tolist()]


class _Steps(NamedTuple):
    """The changes of holdings, one holding after the other, in order.

    :ivar places: their records.
    :ivar rows: the session of each, as a number.
    :ivar codes: those of :mod:`bussrv.audit.fold.holdings`.
    :ivar services: by their codes.
    :ivar is_first, is_last: whether it is the first, the last one of its holding.
    """

    places: Places
    rows: Numbers
    codes: Numbers
    services: Numbers
    is_first: Flags
    is_last: Flags

    @property
    def is_begin(self) -> Flags:
        return np.isin(self.codes, BEGINS)

    @property
    def is_end(self) -> Flags:
        return np.isin(self.codes, ENDS)

    def chosen(self, those: Flags | Numbers) -> _Steps:
        places, rows, codes, services = (each[those] for each in self[:4])
        return _Steps(places, rows, codes, services, self.is_first[those], self.is_last[those])


def usual_sessions(columns: RecordColumns, sessions: Coded, unusual: Sequence[str]) -> UsualSessions:
    """The usual sessions of a server.

    :param columns: all its records.
    :param sessions: the session of each.
    :param unusual: the ids of sessions that are none, whatever these records say.
    """
    codes, ids = sessions
    every = np.argsort(codes, kind="stable")
    without, places = np.split(every, [np.count_nonzero(codes < 0)])
    ends = np.cumsum(np.bincount(codes[places], minlength=len(ids)))
    begins = np.concatenate([[0], ends])[: len(ids)]
    may_be = ~pc.is_in(ids, pa.array(unusual, pa.string())).to_numpy(zero_copy_only=False)
    services, protocols = coded(columns.services).in_order(), coded(columns.protocols)
    some = _Whole(columns, services, protocols, places, codes[places], places[begins], places[ends - 1])
    found = _whole(some, may_be)
    steps = _steps(found)
    counters = {name: _numbers(found.at(found.closed), name) for name in COUNTERS}
    is_usual = _are_counted(found, counters)
    is_usual[steps.rows[_is_odd(found, steps)]] = False
    tables = _tables(found, steps.chosen(is_usual[steps.rows]), counters, is_usual)
    is_other = np.ones(len(ids), dtype=bool)
    is_other[codes[found.opened[is_usual]]] = False
    others: dict[str | None, Places] = {
        ids[each].as_py(): places[begins[each] : ends[each]] for each in np.flatnonzero(is_other).tolist()
    }
    without = without[_CHANGES[columns.kinds[without]] > 0]
    if without.size:
        others[None] = without
    return UsualSessions(tables, tables["sessions"].column("session").to_pylist(), others)


def _whole(all_sessions: _Whole, may_be: Flags) -> _Whole:
    """Those of all sessions that are whole."""
    kinds, opened, closed = all_sessions.columns.kinds, all_sessions.opened, all_sessions.closed
    is_whole = may_be & (kinds[opened] == _OPENED) & (kinds[closed] == _CLOSED)
    for kind in (_OPENED, _CLOSED):
        is_whole &= np.bincount(all_sessions.rows[all_sessions.kinds == kind], minlength=opened.size) == 1
    is_whole[all_sessions.rows[np.isin(all_sessions.kinds, _MOVES)]] = False
    rows = np.cumsum(is_whole) - 1
    is_kept = is_whole[all_sessions.rows]
    return all_sessions._replace(
        places=all_sessions.places[is_kept],
        rows=rows[all_sessions.rows[is_kept]],
        opened=opened[is_whole],
        closed=closed[is_whole],
    )


def _steps(found: _Whole) -> _Steps:
    codes = _CHANGES[found.kinds]
    those = np.flatnonzero(codes)
    codes, rows, services = codes[those], found.rows[those], found.services.codes[found.places[those]]
    # Sessions stay in their order, and the services of each are in the order of their names.
    holdings = (rows * (len(found.services.texts) + 1) + services + 1) * 2 + (codes >= ADDED)
    order = np.argsort(holdings, kind="stable")
    differs = np.diff(holdings[order], prepend=-1, append=-1) != 0
    return _Steps(found.places[those][order], rows[order], codes[order], services[order], differs[:-1], differs[1:])


def _is_odd(found: _Whole, steps: _Steps) -> Flags:
    """Whether a step is none that a usual session has."""
    protocols, ends = found.protocols.codes, steps.is_end
    has_ended = np.concatenate([[True], ends])[:-1] | steps.is_first
    is_left = steps.is_last & ~ends & (steps.codes < ADDED)
    is_other = protocols[steps.places] != protocols[found.opened[steps.rows]]
    return np.asarray((steps.is_begin != has_ended) | is_left | is_other)


def _are_counted(found: _Whole, counters: Mapping[str, Numbers]) -> Flags:
    """Whether the counters and the duration of each session fit each other."""
    duration = _numbers(found.at(found.closed), "duration")
    objects_in, objects_out, bytes_in, bytes_out = (counters[name] for name in COUNTERS)
    is_good = np.minimum.reduce([duration, *counters.values()]) >= 0
    only_objects = [found.protocols.code(each) for each in ONLY_OBJECTS]
    may_have_others = ~np.isin(found.protocols.codes[found.closed], [code for code in only_objects if code is not None])
    is_good &= ((objects_out > 0) == (bytes_out > 0)) | ((objects_out == 0) & may_have_others)
    is_good &= (objects_in == 0) | (bytes_in > 0)
    is_far = np.array([record.home is not None for record in found.at(found.opened)], dtype=bool)
    is_good &= ~is_far | ((bytes_in == 0) & (bytes_out == 0) & (objects_in == 0))
    lasted = np.maximum(found.moments[found.closed] - found.moments[found.opened], 0)
    return np.asarray(is_good & (np.abs(duration - lasted) <= TOLERANCE))


def _numbers(records: Sequence[FoldLine], name: str) -> Numbers:
    return np.fromiter([value or 0 for value in map(attrgetter(name), records)], np.int64, len(records))


def _tables(found: _Whole, steps: _Steps, counters: Mapping[str, Numbers], is_usual: Flags) -> FactTables:
    sessions = as_table("sessions", {**_sessions(found, steps), **counters})
    begins = _beginnings(steps)
    return {
        "sessions": sessions.filter(pa.array(is_usual)),
        "spans": as_table("spans", _spans(found, steps, begins)),
        "leases": as_table("leases", _leases(found, steps, begins)),
    }


def _sessions(found: _Whole, steps: _Steps) -> dict[str, Any]:
    """The columns of the rows of sessions, those of :func:`bussrv.audit.fold.facts.finish`, without the counters."""
    opened, closed = found.at(found.opened), found.at(found.closed)
    identified, acting, claiming = _telling(found)
    begins = np.flatnonzero(np.diff(found.rows, prepend=-1))
    peers = _or_least(found, "peer", _texts("peer", opened, closed))
    return {
        "session": found.columns.sessions.take(pa.array(found.opened)),
        "server": _server(found, found.opened),
        "protocol": _or_least(found, "protocol", _protocols(found)),
        "routing_id": _or_least(found, "routing_id", _texts("routing_id", closed, identified, opened)),
        "actor": _texts("actor", closed, acting, opened),
        "claimed": _texts("claimed", closed, claiming, opened),
        "name": _texts("name", identified),
        "role": _texts("role", identified),
        "peer": peers,
        "address": [*map(address_of, peers.to_pylist())],
        "state": ["closed"] * len(closed),
        "opened": found.moments[found.opened],
        "closed": found.moments[found.closed],
        "duration": [record.duration for record in closed],
        "reason": _texts("reason", closed),
        "persistent": [bool(record.persistent) for record in opened],
        "home": _texts("home", opened),
        "provided": _services(found, steps.chosen(steps.is_first & (steps.codes < ADDED))),
        "wanted": _services(found, steps.chosen(steps.is_first & (steps.codes >= ADDED))),
        "objects_wanted": _flags(found, steps.rows[(steps.codes >= ADDED) & (steps.services < 0)]),
        "first_moment": np.minimum.reduceat(found.moments[found.places], begins) if begins.size else begins,
        "away_since": [None] * len(closed),
        "kept_until": [None] * len(closed),
        "away_micros": [0] * len(closed),
    }


def _server(found: _Whole, places: Places) -> Sequence[str]:
    """The one server of some records."""
    return [found.columns.records[0].server] * places.size


def _protocols(found: _Whole) -> pa.Array:
    opened, closed = found.protocols.codes[found.opened], found.protocols.codes[found.closed]
    return found.protocols.texts_of(np.where(opened < 0, closed, opened))


def _telling(found: _Whole) -> tuple[list[FoldLine | None], list[FoldLine | None], list[FoldLine | None]]:
    """Of each session the last record that identifies it, that has an actor, and that identifies it by a claim."""
    none: list[FoldLine | None] = [None] * found.opened.size
    identified, acting, claiming = [*none], [*none], [*none]
    those = _IS_TOLD[found.kinds]
    is_identified = (found.kinds[those] == _IDENTIFIED).tolist()
    records = found.at(found.places[those])
    for row, record, identifies in zip(found.rows[those].tolist(), records, is_identified, strict=True):
        if record.actor is not None:
            acting[row] = record
        if identifies:
            identified[row] = record
            if record.claimed is not None:
                claiming[row] = record
    return identified, acting, claiming


def _texts(name: str, *choices: Sequence[FoldLine | None]) -> pa.Array:
    """A field of records, one of each session: that of the first choice that has it."""
    read = attrgetter(name)
    found = pa.nulls(len(choices[0]), pa.string())
    for records in choices:
        if found.null_count:
            found = pc.coalesce(
                found, pa.array([None if each is None else read(each) for each in records], pa.string())
            )
    return found


def _or_least(found: _Whole, name: str, known: pa.Array) -> pa.Array:
    """A field of sessions; where it is not known, the least one that actions of the session have."""
    if not known.null_count:
        return known
    is_missing = known.is_null().to_numpy(zero_copy_only=False)
    those = is_missing[found.rows] & _IS_ACTION[found.kinds]
    least: list[str | None] = [None] * len(known)
    values = map(attrgetter(name), found.at(found.places[those]))
    for row, value in zip(found.rows[those].tolist(), values, strict=True):
        if value is not None:
            before = least[row]
            least[row] = value if before is None else min(before, value)
    return pc.coalesce(known, pa.array(least, pa.string()))


def _services(found: _Whole, firsts: _Steps) -> pa.Array:
    """The names of services of each session, in order.

    :param firsts: the first step of each holding.
    """
    named = firsts.services >= 0
    counts = np.bincount(firsts.rows[named], minlength=found.opened.size)
    names = found.services.texts.take(pa.array(firsts.services[named]))
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()), names)


def _flags(found: _Whole, rows: Numbers) -> Flags:
    """Whether a session is one of some."""
    flags = np.zeros(found.opened.size, dtype=bool)
    flags[rows] = True
    return flags


def _spans(found: _Whole, steps: _Steps, begins: Numbers) -> dict[str, Any]:
    """The columns of the rows of spans. A span without an end ends when its session is closed."""
    ends = np.flatnonzero((steps.is_end | steps.is_last) & (steps.services >= 0))
    some, begun = steps.chosen(ends), steps.places[begins[ends]]
    last = np.where(some.is_end, some.places, found.closed[some.rows])
    return {
        "server": _server(found, begun),
        "session": found.columns.sessions.take(pa.array(begun)),
        "service": found.services.texts_of(some.services),
        "is_provided": some.codes < ADDED,
        "protocol": found.protocols.texts_of(found.protocols.codes[begun]),
        "routing_id": _texts("routing_id", found.at(begun)),
        "begin_at": found.moments[begun],
        "end_at": found.moments[last],
        "lost": [record.reason not in LEFT for record in found.at(last)],
    }


def _beginnings(steps: _Steps) -> Numbers:
    """The index of the beginning of each step: the last one that begins its holding."""
    return np.maximum.accumulate(np.where(steps.is_begin, np.arange(steps.codes.size), 0))


def _leases(found: _Whole, steps: _Steps, begins: Numbers) -> dict[str, Any]:
    """The columns of the rows of leases that ran out."""
    may_be = steps.is_end & (found.protocols.codes[steps.places] == found.protocols.code(LEASED))
    reasons = [record.reason in RAN_OUT for record in found.at(steps.places[may_be])]
    ends = np.flatnonzero(may_be)[np.array(reasons, dtype=bool)]
    some, begun = steps.chosen(ends), begins[ends]
    expired = found.at(some.places)
    renewals = ends - begun - 1
    renewed = found.moments[steps.places[ends - 1]]
    return {
        "server": _server(found, some.places),
        "session": found.columns.sessions.take(pa.array(some.places)),
        "kind": ["service" if code < ADDED else "subscription" for code in some.codes.tolist()],
        "routing_id": _texts("routing_id", expired),
        "address": [address_of(record.peer) for record in expired],
        "service": found.services.texts_of(some.services),
        "added": found.moments[steps.places[begun]],
        "renewed": pa.array(renewed, mask=renewals == 0),
        "expired": found.moments[some.places],
        "renewals": renewals,
        "reason": _texts("reason", expired),
    }
