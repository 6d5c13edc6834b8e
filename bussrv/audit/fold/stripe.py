"""The fold of one stripe: a state machine that takes in records in the order of their server."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from bussrv.audit.fold.boots import BootFacts, Stamp, add, backwards, by_journal, new_boot, run_of, tell
from bussrv.audit.fold.facts import FACTS, FactTables, as_table, as_tables, finish, no_rows
from bussrv.audit.fold.holdings import Place
from bussrv.audit.fold.lines import Flags, FoldLine, Numbers
from bussrv.audit.fold.record_columns import KINDS, Coded, RecordColumns, among, coded, in_order_of_places
from bussrv.audit.fold.session_fold import SessionFold
from bussrv.audit.fold.vectorised import usual_sessions
from bussrv.incidents.vocabulary import REFUSALS, address_of, clock_said

_IS_OF_SERVICES = among(("service.registered", "service.unregistered", "subscription.added", "subscription.removed"))

_OPENED, _REGISTERED, _ADDED = (KINDS[each] for each in ("session.opened", "service.registered", "subscription.added"))

_ABOUT = attrgetter("event", "outcome", "protocol", "suppressed")

_IS_BY_JOURNAL = among(filter(by_journal, KINDS))

_SERVER_ROLE = "server"

_MINUTE = 60_000_000
_DAY = 24 * 60 * _MINUTE

_OPENINGS = pa.schema(
    [("protocol", pa.string()), ("address", pa.string())]
    + [(name, pa.int64()) for name in ("minute", "openings", "seq", "moment")]
)


class Period(Struct, frozen=True):
    """The period of an audit: from ``since`` on, and before ``until``. UTC microseconds; ``None``: no bound."""

    since: int | None = None
    until: int | None = None

    def holds(self, at: int) -> bool:
        """Whether a moment is not before it. Later records are left out of the fold."""
        return self.since is None or at >= self.since

    def which(self, moments: Numbers) -> Flags:
        """:meth:`holds` of many moments."""
        return np.ones(moments.size, dtype=bool) if self.since is None else moments >= self.since

    def is_over(self, at: int) -> bool:
        """Whether a moment is after it."""
        return self.until is not None and at >= self.until


Ends = list[tuple[Stamp, bool]]
"""The stamps of the first and the last record of each segment, and whether it is the first."""


class Folded(Struct):
    """The facts of a stripe.

    :ivar tables: of what needs no other stripe, and sums that those of other stripes are added to.
    :ivar border: the sessions that may go on in another stripe, by server and id.
    :ivar whole: the ids of all other sessions.
    :ivar extents: the first and the last place of the records of each server.
    :ivar ends: by server.
    """

    tables: FactTables = {}
    border: dict[tuple[str, str | None], SessionFold] = {}
    whole: list[str] = []
    extents: dict[str, tuple[Place, Place]] = {}
    ends: dict[str, Ends] = {}


def fold_stripe(
    segments: Iterable[tuple[str, RecordColumns]],
    baselines: Mapping[str, Sequence[tuple[FoldLine, int]]],
    period: Period,
) -> Folded:
    """The facts of successive segments.

    :param segments: the records of each server in each segment.
    :param baselines: of the servers whose first segment is among these.
    :param period: later records are left out. Sessions, services and links need the earlier ones.
    """
    folding = Folding(period)
    for server, baseline in baselines.items():
        folding.take_baseline(server, baseline)
    found: dict[str, list[RecordColumns]] = {}
    for server, columns in segments:
        if period.until is not None and columns.records and columns.moments.max() >= period.until:
            columns = columns.chosen(np.flatnonzero(columns.moments < period.until))
        if columns.records:
            found.setdefault(server, []).append(columns)
    for server, some in found.items():
        folding.take(server, in_order_of_places(some))
    return folding.end()


class Folding:
    """The state machine of a stripe."""

    def __init__(self, period: Period) -> None:
        self._period = period
        self._found = Folded()
        self._rows = no_rows()
        self._folds: dict[tuple[str, str | None], SessionFold] = {}
        self._boots: dict[tuple[str, str], BootFacts] = {}
        self._events: Counter[tuple[Any, ...]] = Counter()
        self._suppressed: Counter[tuple[Any, ...]] = Counter()
        self._refusals: dict[tuple[Any, ...], list[int]] = {}
        self._taken: list[tuple[str, RecordColumns, Coded]] = []
        self._tables: defaultdict[str, list[pa.Table]] = defaultdict(list)

    def take_baseline(self, server: str, records: Sequence[tuple[FoldLine, int]]) -> None:
        """Take in the registry before the first record of a server."""
        links: dict[str, FoldLine] = {}
        opened: dict[str, tuple[FoldLine, int]] = {}
        for record, at in records:
            if self._period.is_over(at):
                continue
            self._fold_of(server, record.session).take(record, at, True)
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

    def take(self, server: str, columns: RecordColumns) -> None:
        """Take in all records of a server."""
        records, moments = columns.records, columns.moments
        first, last = records[0], records[-1]
        self._found.extents[server] = (
            (first.seq, int(moments[0]), first.mono),
            (last.seq, int(moments[-1]), last.mono),
        )
        self._take_boots(server, columns)
        self._take_clocks(server, columns)
        self._count(server, records, moments)
        self._take_mentions(server, columns)
        self._take_openings(server, columns)
        for place in np.flatnonzero(_IS_OTHER[columns.kinds]).tolist():
            record = records[place]
            _OTHERS[record.event](self, server, record, int(moments[place]))
        self._taken.append((server, columns, coded(columns.sessions)))

    def _take_boots(self, server: str, columns: RecordColumns) -> None:
        begin = 0
        for boot, runs in groupby(columns.boots, key=itemgetter(0)):
            end = begin + sum(length for _, length in runs)
            moments = columns.moments[begin:end]
            run = run_of(columns.records[begin:end], int(moments.min()), int(moments.max()))
            add(self._boots.setdefault((server, boot), new_boot()), run)
            begin = end

    def _take_clocks(self, server: str, columns: RecordColumns) -> None:
        """Records whose time runs backwards: inside each segment. Its ends are held against other segments later."""
        records = columns.records
        order = np.argsort(columns.segments, kind="stable")
        order = order[~_IS_BY_JOURNAL[columns.kinds[order]]]
        if not order.size:
            return
        segments, moments, monos = (each[order] for each in (columns.segments, columns.moments, columns.monos))
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

    def _count(self, server: str, records: Sequence[FoldLine], moments: Numbers) -> None:
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

    def _take_mentions(self, server: str, columns: RecordColumns) -> None:
        """When services are first named, and how often they are registered and subscribed to."""
        kinds, services = columns.kinds, columns.services
        those = np.flatnonzero(_IS_OF_SERVICES[kinds] & services.is_valid().to_numpy(zero_copy_only=False))
        those = those[self._period.which(columns.moments[those])]
        moments, is_registered = columns.moments[those], kinds[those] == _REGISTERED
        steps = pa.table({
            "service": services.take(pa.array(those)),
            "registered": pa.array(moments, mask=~is_registered),
            "added": (kinds[those] == _ADDED).astype(np.int64),
            "moment": moments,
        })  # fmt: skip
        found = steps.group_by("service", use_threads=False).aggregate([
            *(("registered", how) for how in ("count", "min", "max")), ("added", "sum"), ("moment", "min")
        ])  # fmt: skip
        self._add_groups("mentions", server, found)

    def _take_openings(self, server: str, columns: RecordColumns) -> None:
        """How many sessions are opened each minute, by address."""
        those = np.flatnonzero(columns.kinds == _OPENED)
        those = those[self._period.which(columns.moments[those])]
        opened = [(place, columns.records[place]) for place in those.tolist()]
        mine = [(place, record) for place, record in opened if record.home is None and record.peer is not None]
        places = np.array([place for place, _ in mine], dtype=np.int64)
        openings = pa.table({
            "protocol": columns.protocols.take(pa.array(places)),
            "address": [address_of(record.peer) for _, record in mine],
            "minute": columns.moments[places] // _MINUTE,
            "openings": [1 + (record.suppressed or 0) for _, record in mine],
            "seq": columns.seqs[places],
            "moment": columns.moments[places],
        }, schema=_OPENINGS)  # fmt: skip
        found = openings.group_by(["protocol", "address", "minute"], use_threads=False).aggregate([
            ("openings", "sum"), ("seq", "min"), ("moment", "min"), ("moment", "max")
        ])  # fmt: skip
        self._add_groups("openings", server, found)

    def _add_groups(self, name: str, server: str, groups: pa.Table) -> None:
        """Add rows about a server.

        :param groups: the columns of the facts ``name`` in their order, without that of the server.
        """
        columns = dict(zip(FACTS[name].names[1:], groups.columns, strict=True))
        self._tables[name].append(as_table(name, {"server": [server] * len(groups), **columns}))

    def _finish_usual(self) -> None:
        """Make the rows of the usual sessions. All others remain in ``folds``."""
        several = self._several()
        for server, columns, sessions in self._taken:
            known = [session for owner, session in self._folds if owner == server and session is not None]
            usual = usual_sessions(columns, sessions, [*several, *known])
            self._found.whole += usual.sessions
            for name, table in usual.tables.items():
                self._tables[name].append(table)
            for session, places in usual.others.items():
                fold = self._fold_of(server, session)
                for place, at in zip(places.tolist(), columns.moments[places].tolist(), strict=True):
                    fold.take(columns.records[place], at, False)
        self._taken.clear()

    def _several(self) -> set[str]:
        """The sessions that several servers name."""
        named: dict[str, set[str]] = {}
        for server, session in self._folds:
            if session is not None:
                named.setdefault(server, set()).add(session)
        for server, _, sessions in self._taken:
            named.setdefault(server, set()).update(sessions.texts.to_pylist())
        if len(named) < 2:
            return set()
        counts = Counter(session for sessions in named.values() for session in sessions)
        return {session for session, count in counts.items() if count > 1}

    def _fold_of(self, server: str, session: str | None) -> SessionFold:
        return self._folds.setdefault((server, session), SessionFold(server, session))

    def _close(self, server: str, record: FoldLine, at: int) -> None:
        if record.reason == "server-crashed":
            self._boots[server, record.boot]["closed"] += 1

    def _link(self, server: str, record: FoldLine, at: int) -> None:
        is_up = record.event == "link.up"
        about = (record.routing_id, record.seq, at, record.mono, record.boot, record.reason)
        self._rows["links"].append((server, *about, is_up, False))

    def _forgotten(self, server: str, record: FoldLine, at: int) -> None:
        self._rows["forgotten_links"].append((server, record.routing_id, record.seq, at, record.mono))

    def _clock(self, server: str, record: FoldLine, at: int) -> None:
        assert record.ahead is not None
        assert record.doubt is not None
        said = clock_said(record.ahead, record.doubt)
        about = (record.routing_id, record.seq, at, record.mono, record.ahead, said)
        self._rows["link_clocks"].append((server, *about))

    def _cosigning(self, server: str, record: FoldLine, at: int) -> None:
        if self._period.holds(at):
            is_refused = record.event == "seal.refused"
            about = (record.witness, record.seq, at, record.size, is_refused, record.message)
            self._rows["cosignings"].append((server, *about))

    def _disk(self, server: str, record: FoldLine, at: int) -> None:
        self._rows["disk"].append((server, record.event, record.seq, at, record.mono))

    def _tell(self, server: str, record: FoldLine, at: int) -> None:
        tell(self._boots[server, record.boot], record)
        if record.event == "server.started":
            self._disk(server, record, at)

    def _refuse(self, server: str, record: FoldLine, at: int) -> None:
        if not self._period.holds(at):
            return
        about = (record.event, record.reason, record.limit, record.actor, record.claimed, address_of(record.peer))
        key = (server, *about, record.protocol, at // _DAY)
        known = self._refusals.setdefault(key, [0, 0, record.seq, at, at])
        number, suppressed, seq, first, last = known
        known[:] = (
            number + 1,
            suppressed + (record.suppressed or 0),
            min(seq, record.seq),
            min(first, at),
            max(last, at),
        )

    def end(self) -> Folded:
        """No more records follow."""
        found, rows = self._found, self._rows
        self._finish_usual()
        several = Counter(session for _, session in self._folds)
        for (server, session), fold in self._folds.items():
            if session is not None and fold.is_whole and several[session] == 1:
                found.whole.append(session)
                finish([fold], rows)
            else:
                found.border[server, session] = fold
        names = FACTS["boots"].names[2:]
        rows["boots"] = [(*key, *(boot[name] for name in names)) for key, boot in self._boots.items()]
        rows["events"] = [(*key, number, self._suppressed[key]) for key, number in self._events.items()]
        rows["refusals"] = [(*key, *numbers) for key, numbers in self._refusals.items()]
        found.tables = {name: pa.concat_tables([*self._tables[name], table]) for name, table in as_tables(rows).items()}
        return found


_OTHERS: dict[str, Callable[[Folding, str, FoldLine, int], None]] = {
    "session.closed": Folding._close,
    **dict.fromkeys(REFUSALS, Folding._refuse),
    **dict.fromkeys(("link.up", "link.down"), Folding._link),
    "link.forgotten": Folding._forgotten,
    "link.clock": Folding._clock,
    **dict.fromkeys(("seal.witnessed", "seal.refused"), Folding._cosigning),
    **dict.fromkeys(("journal.degraded", "journal.restored"), Folding._disk),
    **dict.fromkeys(("server.started", "server.stopped", "server.recovered", "journal.salvaged"), Folding._tell),
}
"""The further facts in a record of an event, beside those of its session."""

_IS_OTHER = among(_OTHERS)
