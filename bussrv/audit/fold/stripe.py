"""The fold of one stripe: a state machine that takes in records in the order of their server."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from msgspec import Struct

from bussrv.audit.fold.baseline import baseline
from bussrv.audit.fold.boots import COLUMNS, Boot, Stamp, add, backwards, by_journal, new_boot, run_of, tell
from bussrv.audit.fold.facts import Tables, as_tables, finish, no_rows
from bussrv.audit.fold.holdings import CODES, Place
from bussrv.audit.fold.life import Life, address_of
from bussrv.audit.fold.lines import LINES, Line, Numbers, Read, boots_of
from bussrv.audit.fold.usual import finish_usual

REFUSALS = frozenset({"service.refused", "subscription.refused", "auth.failed", "access.denied", "limit.reached"})
"""The events of refusals, failures and limits."""

_OF_SERVICES = frozenset({"service.registered", "service.unregistered", "subscription.added", "subscription.removed"})

_REGISTERED, _ADDED = "service.registered", "subscription.added"

_ABOUT = attrgetter("event", "outcome", "protocol", "suppressed")

_BY_JOURNAL = frozenset(kind for kind in LINES.values() if by_journal(kind.event))

_SERVER_ROLE = "server"

_MINUTE = 60_000_000
_DAY = 24 * 60 * _MINUTE


class Period(Struct, frozen=True):
    """The period of an audit: from ``since`` on, and before ``until``. UTC microseconds; ``None``: no bound."""

    since: int | None = None
    until: int | None = None

    def holds(self, at: int) -> bool:
        """Whether a moment is not before it. Later records are left out of the fold."""
        return self.since is None or at >= self.since

    def is_over(self, at: int) -> bool:
        """Whether a moment is after it."""
        return self.until is not None and at >= self.until


Ends = list[tuple[Stamp, bool]]
"""The stamps of the first and the last record of each segment, and whether it is the first."""


_Sessions = tuple[str, dict[str | None, list[int]], Sequence[Line], Sequence[int]]
"""Records of a server: the places of those of each session, and all with their times."""


class Folded:
    """The facts of a stripe.

    :ivar tables: of what needs no other stripe, and sums that those of other stripes are added to.
    :ivar border: the sessions that may go on in another stripe, by server and id.
    :ivar whole: the ids of all other sessions.
    :ivar extents: the first and the last place of the records of each server.
    :ivar ends: by server.
    """

    def __init__(self) -> None:
        self.tables: Tables = {}
        self.border: dict[tuple[str, str | None], Life] = {}
        self.whole: list[str] = []
        self.extents: dict[str, tuple[Place, Place]] = {}
        self.ends: dict[str, Ends] = {}


class Stretch(Struct):
    """Records of one server, in order.

    :ivar moments, seqs, monos, boots: those of :class:`bussrv.audit.fold.lines.Read`.
    :ivar segments: the number of the segment of each.
    """

    records: list[Line]
    moments: Numbers
    seqs: Numbers
    monos: Numbers
    boots: list[tuple[str, int]]
    segments: Numbers

    def chosen(self, places: Numbers) -> Stretch:
        """Some of the records, in another order maybe."""
        records = [self.records[place] for place in places.tolist()]
        moments, seqs, monos, segments = (each[places] for each in (self.moments, self.seqs, self.monos, self.segments))
        return Stretch(records, moments, seqs, monos, boots_of(records), segments)


def fold_stripe(segments: Sequence[tuple[int, Read]], first: Mapping[int, str], period: Period) -> Folded:
    """The facts of successive segments.

    :param segments: the number of each, and what was read of it.
    :param first: the servers whose first segment is among these, by the place in ``segments``.
    :param period: later records are left out. Sessions, services and links need the earlier ones.
    """
    folding = Folding(period)
    for place, server in first.items():
        number, read = segments[place]
        folding.take_baseline(server, baseline(read.parts, server, number))
    for server, stretch in _stretches(segments, period):
        folding.take(server, stretch)
    return folding.end()


def _stretches(segments: Sequence[tuple[int, Read]], period: Period) -> Iterator[tuple[str, Stretch]]:
    """The records of each server, in the order of their places."""
    found: dict[str, list[Stretch]] = {}
    for number, read in segments:
        for server, stretch in _by_server(number, read):
            if period.until is not None and stretch.records and stretch.moments.max() >= period.until:
                stretch = stretch.chosen(np.flatnonzero(stretch.moments < period.until))
            if stretch.records:
                found.setdefault(server, []).append(stretch)
    for server, some in found.items():
        yield server, in_order_of_places(some)


def _by_server(number: int, read: Read) -> Iterator[tuple[str, Stretch]]:
    segments = np.full(len(read.records), number, dtype=np.int64)
    stretch = Stretch(read.records, read.moments, read.seqs, read.monos, read.boots, segments)
    if read.is_sound:
        if read.header is not None:
            yield read.header.server, stretch
        return
    places: dict[str, list[int]] = {}
    for place, record in enumerate(read.records):
        places.setdefault(record.server, []).append(place)
    for server, some in places.items():
        yield server, stretch.chosen(np.array(some))


def in_order_of_places(some: Sequence[Stretch]) -> Stretch:
    """The records of a server, in order, however they stood in segments."""
    joined = Stretch(
        [record for stretch in some for record in stretch.records],
        np.concatenate([stretch.moments for stretch in some]),
        np.concatenate([stretch.seqs for stretch in some]),
        np.concatenate([stretch.monos for stretch in some]),
        [each for stretch in some for each in stretch.boots],
        np.concatenate([stretch.segments for stretch in some]),
    )
    if (np.diff(joined.seqs) > 0).all():
        return joined
    return joined.chosen(np.lexsort((joined.monos, joined.moments, joined.seqs)))


class Folding:
    """The state machine of a stripe."""

    def __init__(self, period: Period) -> None:
        self._period = period
        self._found = Folded()
        self._rows = no_rows()
        self._lives: dict[tuple[str, str | None], Life] = {}
        self._boots: dict[tuple[str, str], Boot] = {}
        self._events: Counter[tuple[Any, ...]] = Counter()
        self._suppressed: Counter[tuple[Any, ...]] = Counter()
        self._refusals: dict[tuple[Any, ...], list[int]] = {}
        self._openings: dict[tuple[Any, ...], list[int]] = {}
        self._sessions: list[_Sessions] = []

    def take_baseline(self, server: str, records: Sequence[tuple[Line, int]]) -> None:
        """Take in the registry before the first record of a server."""
        links: dict[str, Line] = {}
        opened: dict[str, tuple[Line, int]] = {}
        for record, at in records:
            if self._period.is_over(at):
                continue
            self._live(server, record.session).take(record, at, True)
            session = record.session or ""
            if record.event == "session.opened":
                opened[session] = record, at
            elif record.event == "session.identified" and record.role == _SERVER_ROLE and record.routing_id is not None:
                links[session] = record
        for session, record in links.items():
            opening, at = opened[session]
            if opening.home is None:
                # The boot in which the link came up. The records may begin in a later one.
                boot = session.partition(".")[0]
                row = (server, record.routing_id, record.seq, at, 0, boot, None, True, True)
                self._rows["links"].append(row)

    def take(self, server: str, stretch: Stretch) -> None:
        """Take in all records of a server."""
        records, moments = stretch.records, stretch.moments
        first, last = records[0], records[-1]
        self._found.extents[server] = (
            (first.seq, int(moments[0]), first.mono),
            (last.seq, int(moments[-1]), last.mono),
        )
        self._take_boots(server, stretch)
        self._take_clocks(server, stretch)
        self._count(server, records, moments)
        times: list[int] = moments.tolist()
        self._take_sessions(server, records, times)
        self._take_mentions(server, records, times)
        self._take_others(server, records, times)

    def _take_boots(self, server: str, stretch: Stretch) -> None:
        begin = 0
        for boot, runs in groupby(stretch.boots, key=itemgetter(0)):
            end = begin + sum(length for _, length in runs)
            moments = stretch.moments[begin:end]
            run = run_of(stretch.records[begin:end], int(moments.min()), int(moments.max()))
            add(self._boots.setdefault((server, boot), new_boot()), run)
            begin = end

    def _take_clocks(self, server: str, stretch: Stretch) -> None:
        """Records whose time runs backwards: inside each segment. Its ends are held against other segments later."""
        records = stretch.records
        order = np.argsort(stretch.segments, kind="stable")
        if not _BY_JOURNAL.isdisjoint(map(type, records)):
            is_own = np.array([type(record) not in _BY_JOURNAL for record in records])
            order = order[is_own[order]]
        if not order.size:
            return
        segments, moments, monos = (each[order] for each in (stretch.segments, stretch.moments, stretch.monos))
        begins = np.flatnonzero(np.diff(segments, prepend=-1))
        ends = np.append(begins[1:], order.size) - 1

        def stamp(at: int) -> Stamp:
            record = records[order[at]]
            return record.seq, int(moments[at]), record.mono, record.boot

        odd = np.flatnonzero((np.diff(moments) < 0) | (np.diff(monos) < 0)) + 1
        for at in np.setdiff1d(odd, begins).tolist():
            self._rows["clocks"] += backwards(server, stamp(at - 1), stamp(at))
        known = self._found.ends.setdefault(server, [])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            known.append((stamp(begin), True))
            if end != begin:
                known.append((stamp(end), False))

    def _count(self, server: str, records: Sequence[Line], moments: Numbers) -> None:
        since = self._period.since
        if since is not None:
            kept = np.flatnonzero(moments >= since)
            records, moments = [records[each] for each in kept.tolist()], moments[kept]
        days = moments // _DAY
        begins = np.flatnonzero(np.diff(days, prepend=-1)).tolist()
        for begin, end in pairwise([*begins, len(records)]):
            day = int(days[begin])
            counts = Counter(map(_ABOUT, records if end - begin == len(records) else records[begin:end]))
            for (event, outcome, protocol, suppressed), number in counts.items():
                about = server, event, outcome, protocol, day
                self._events[about] += number
                if suppressed is not None:
                    self._suppressed[about] += suppressed * number

    def _take_sessions(self, server: str, records: Sequence[Line], moments: Sequence[int]) -> None:
        """Take in the records of each session."""
        places: defaultdict[str | None, list[int]] = defaultdict(list)
        for place, record in enumerate(records):
            places[record.session].append(place)
        places[None] = [place for place in places[None] if records[place].event in CODES]
        if not places[None]:
            del places[None]
        self._sessions.append((server, places, records, moments))

    def _take_mentions(self, server: str, records: Sequence[Line], moments: Sequence[int]) -> None:
        """When services are first named, and how often they are registered and subscribed to."""
        mentions: dict[str, list[Any]] = {}
        of_services, since = _OF_SERVICES, self._period.since
        for record, at in zip(records, moments, strict=True):
            event, service = record.event, record.service
            if event not in of_services or service is None or (since is not None and at < since):
                continue
            known = mentions.get(service)
            if known is None:
                known = mentions[service] = [0, None, None, 0, at]
            if event == _REGISTERED:
                known[0] += 1
                if known[1] is None or at < known[1]:
                    known[1] = at
                if known[2] is None or at > known[2]:
                    known[2] = at
            elif event == _ADDED:
                known[3] += 1
            if at < known[4]:
                known[4] = at
        self._rows["mentions"] += [(server, service, *numbers) for service, numbers in mentions.items()]

    def _take_others(self, server: str, records: Sequence[Line], moments: Sequence[int]) -> None:
        others = _OTHERS
        for record, at in zip(records, moments, strict=True):
            if record.event in others:
                others[record.event](self, server, record, at)

    def _finish_usual(self) -> None:
        """Make the rows of the usual sessions. All others remain in ``lives``."""
        lives, rows = self._lives, self._rows
        several = self._several()
        for server, by_session, records, moments in self._sessions:
            for session, places in by_session.items():
                some, times = [records[place] for place in places], [moments[place] for place in places]
                is_alone = session is not None and session not in several and (server, session) not in lives
                if is_alone and finish_usual(some, times, rows):
                    self._found.whole.append(str(session))
                    continue
                life = self._live(server, session)
                for record, at in zip(some, times, strict=True):
                    life.take(record, at, False)
        self._sessions.clear()

    def _several(self) -> set[str | None]:
        """The sessions that several servers name."""
        named: dict[str, set[str | None]] = {}
        for server, session in self._lives:
            named.setdefault(server, set()).add(session)
        for server, by_session, _, _ in self._sessions:
            named.setdefault(server, set()).update(by_session)
        if len(named) < 2:
            return set()
        counts = Counter(session for sessions in named.values() for session in sessions)
        return {session for session, count in counts.items() if count > 1}

    def _live(self, server: str, session: str | None) -> Life:
        return self._lives.setdefault((server, session), Life(server, session))

    def _open(self, server: str, record: Line, at: int) -> None:
        if record.home is None and record.peer is not None and self._period.holds(at):
            key = (server, record.protocol, address_of(record.peer), at // _MINUTE)
            _add(self._openings, key, [1 + (record.suppressed or 0)], record.seq, at)

    def _close(self, server: str, record: Line, at: int) -> None:
        if record.reason == "server-crashed":
            self._boots[server, record.boot]["closed"] += 1

    def _link(self, server: str, record: Line, at: int) -> None:
        is_up = record.event == "link.up"
        about = (record.routing_id, record.seq, at, record.mono, record.boot, record.reason)
        self._rows["links"].append((server, *about, is_up, False))

    def _disk(self, server: str, record: Line, at: int) -> None:
        self._rows["disk"].append((server, record.event, record.seq, at, record.mono))

    def _tell(self, server: str, record: Line, at: int) -> None:
        tell(self._boots[server, record.boot], record)
        if record.event == "server.started":
            self._disk(server, record, at)

    def _refuse(self, server: str, record: Line, at: int) -> None:
        if not self._period.holds(at):
            return
        about = (record.event, record.reason, record.limit, record.actor, record.claimed, address_of(record.peer))
        key = (server, *about, record.protocol, at // _DAY)
        _add(self._refusals, key, [1, record.suppressed or 0], record.seq, at)

    def end(self) -> Folded:
        """No more records follow."""
        found, rows = self._found, self._rows
        self._finish_usual()
        several = Counter(session for _, session in self._lives)
        for (server, session), life in self._lives.items():
            if session is not None and life.is_whole and several[session] == 1:
                found.whole.append(session)
                finish([life], rows)
            else:
                found.border[server, session] = life
        rows["boots"] = [(*key, *(boot[name] for name in COLUMNS)) for key, boot in self._boots.items()]
        rows["events"] = [(*key, number, self._suppressed[key]) for key, number in self._events.items()]
        for name, table in (("refusals", self._refusals), ("openings", self._openings)):
            rows[name] = [(*key, *numbers) for key, numbers in table.items()]
        found.tables = as_tables(rows)
        return found


_OTHERS: dict[str, Callable[[Folding, str, Line, int], None]] = {
    "session.opened": Folding._open,
    "session.closed": Folding._close,
    **dict.fromkeys(REFUSALS, Folding._refuse),
    **dict.fromkeys(("link.up", "link.down"), Folding._link),
    **dict.fromkeys(("journal.degraded", "journal.restored"), Folding._disk),
    **dict.fromkeys(("server.started", "server.stopped", "server.recovered", "journal.salvaged"), Folding._tell),
}
"""The further facts in a record of an event, beside those of its session."""


def _add(table: dict[tuple[Any, ...], list[int]], key: tuple[Any, ...], numbers: list[int], seq: int, at: int) -> None:
    """Add numbers to a row, and move its first record, and its first and last moment."""
    known = table.get(key)
    if known is None:
        table[key] = [*numbers, seq, at, at]
        return
    for place, number in enumerate(numbers):
        known[place] += number
    known[-3:] = min(known[-3], seq), min(known[-2], at), max(known[-1], at)
