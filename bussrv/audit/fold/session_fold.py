"""One session of one server: what its records say of it.

This is the plain form of the fold of sessions: a state machine that is given one record after the other, for sessions
of any kind. :mod:`bussrv.audit.fold.vectorised` is the fast form of the same, for usual sessions only. Both make the
same rows of a session, and a test holds them to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from bussrv.audit.fold.absences import CHANGED, LATEST, MOVES, Move, add_move
from bussrv.audit.fold.holdings import BEGINS, CODES, Holding, Place, Span, Step, is_loss
from bussrv.audit.fold.lines import AnyLine, FoldLine
from bussrv.incidents.vocabulary import address_of

TELLING = frozenset({"session.opened", "session.identified", "auth.succeeded", "session.closed"})
"""The events that describe a session. All others are its actions."""

CHANGES = frozenset({"session.identified", *MOVES, *CODES})
"""The events that only an open session causes. Its refusals may be written later."""

COUNTERS = ("objects_in", "objects_out", "bytes_in", "bytes_out")

PERSISTENT, FAR, GIVEN, NEGATIVE, UNEVEN, CARRIED = (1 << bit for bit in range(6))

ONLY_OBJECTS = ("objects", "business", "spp", "inbus")
"""The wire formats in which every byte to a client belongs to an object. In others, also in those of plugins, a client
may get bytes and no object: WebSocket has a handshake, pongs and close frames."""

_LEAST = ("first_moment", "protocol", "routing_id", "peer", "first_opening", "first_closing", "first_change")
_MOST = (
    *("last_opening", "last_closing", "last_change", "opened_at", "closed_at", "latest", "opened_mono"),
    *("closed_mono", "duration"),
)


class SessionFold(Struct, array_like=True):
    """The known facts of a session. Places are of records, times are UTC microseconds.

    :ivar opening, closing: the first record of each kind, with its place.
    :ivar identified, acting, claiming: the last one that identifies the session, that has an actor, a claimed name.
    :ivar protocol, routing_id, peer: the least of its actions.
    :ivar moves: until its first closing, see :mod:`bussrv.audit.fold.absences`.
    :ivar boots: of its last opening and closing that are no part of the baseline.
    """

    server: str
    session: str | None
    opening: tuple[Place, AnyLine] | None = None
    closing: tuple[Place, AnyLine] | None = None
    identified: tuple[Place, AnyLine] | None = None
    acting: tuple[Place, AnyLine] | None = None
    claiming: tuple[Place, AnyLine] | None = None
    first_moment: int | None = None
    protocol: str | None = None
    routing_id: str | None = None
    peer: str | None = None
    openings: int = 0
    closings: int = 0
    flags: int = 0
    first_opening: int | None = None
    last_opening: int | None = None
    first_closing: int | None = None
    last_closing: int | None = None
    first_change: int | None = None
    last_change: int | None = None
    opened_at: int | None = None
    closed_at: int | None = None
    latest: int | None = None
    opened_mono: int | None = None
    closed_mono: int | None = None
    duration: int | None = None
    boots: dict[str, str] = {}
    provided: set[str] = set()
    wanted: set[str] = set()
    objects_wanted: bool = False
    holdings: dict[tuple[bool, str | None], Holding] = {}
    moves: list[Move] = []

    def take(self, record: FoldLine, at: int, given: bool) -> None:
        """Take in the next record of the session.

        :param at: its time.
        :param given: whether it belongs to the baseline.
        """
        event = record.event
        if self.first_moment is None or at < self.first_moment:
            self.first_moment = at
        if event == "session.opened":
            self._open(record, at, given)
        elif event == "session.closed":
            self._close(record, at)
        else:
            code = CODES.get(event)
            if code is not None:
                self._hold(code, record, at, given)
            elif event in TELLING:
                self._tell(record, at)
            if self.closing is None and event in CHANGES:
                self._move(record, at, given)
            if event in CHANGES and not given:
                self._change(record, at)
        if event not in TELLING:
            self._act(record)

    def _open(self, record: FoldLine, at: int, given: bool) -> None:
        if self.opening is None:
            self.opening = (record.seq, at, record.mono), record
        self.openings += 1
        self.first_opening = record.seq if self.first_opening is None else min(self.first_opening, record.seq)
        self.last_opening = _most(self.last_opening, record.seq)
        self.opened_at, self.opened_mono = _most(self.opened_at, at), _most(self.opened_mono, record.mono)
        self.latest = _most(self.latest, at)
        if given:
            self.flags |= GIVEN
        else:
            self.boots["opened"] = record.boot
        if record.persistent:
            self.flags |= PERSISTENT
        if record.home is not None:
            self.flags |= FAR

    def _close(self, record: FoldLine, at: int) -> None:
        if self.closing is None:
            self.closing = (record.seq, at, record.mono), record
        self.closings += 1
        self.first_closing = record.seq if self.first_closing is None else min(self.first_closing, record.seq)
        self.last_closing = _most(self.last_closing, record.seq)
        self.closed_at, self.closed_mono = _most(self.closed_at, at), _most(self.closed_mono, record.mono)
        self.latest = _most(self.latest, at)
        self.duration = _most(self.duration, record.duration or 0)
        self.boots["closed"] = record.boot
        self.flags |= _flags_of(record)

    def _tell(self, record: FoldLine, at: int) -> None:
        here = (record.seq, at, record.mono), record
        if record.event == "session.identified":
            self.identified = here
            if record.claimed is not None:
                self.claiming = here
        if record.actor is not None:
            self.acting = here

    def _change(self, record: FoldLine, at: int) -> None:
        seq = record.seq
        self.first_change = seq if self.first_change is None else min(self.first_change, seq)
        self.last_change, self.latest = _most(self.last_change, seq), _most(self.latest, at)

    def _move(self, record: FoldLine, at: int, given: bool) -> None:
        code, place = MOVES.get(record.event, CHANGED), (record.seq, at, record.mono)
        if code == CHANGED:
            # The policy may take a subscription from it while it is away.
            is_taken = record.event == "subscription.removed" and is_loss(record.reason)
            if not given and not is_taken:
                add_move(self.moves, Move(CHANGED, place, record.seq), is_begun=self.openings > 0)
            return
        until = min(max(record.until or 0, 0), LATEST)
        about = record.reason, record.actor, address_of(record.peer)
        add_move(self.moves, Move(code, place, record.seq, until, *about), is_begun=self.openings > 0)

    def _hold(self, code: int, record: FoldLine, at: int, given: bool) -> None:
        service, is_subscription = record.service, code > 2
        key = is_subscription, service
        holding = self.holdings.get(key)
        if holding is None:
            holding = self.holdings[key] = Holding(None if self.openings else [])
        place = record.seq, at, record.mono
        address = None if record.reason is None else address_of(record.peer)
        holding.take(Step(code, place, record.protocol, record.routing_id, address, record.reason, given, 1, at))
        if code in BEGINS:
            if service is None:
                self.objects_wanted = self.objects_wanted or is_subscription
            else:
                (self.wanted if is_subscription else self.provided).add(service)

    def _act(self, record: FoldLine) -> None:
        if record.protocol != self.protocol:
            self.protocol = _least(self.protocol, record.protocol)
        if record.routing_id != self.routing_id:
            self.routing_id = _least(self.routing_id, record.routing_id)
        if record.peer != self.peer:
            self.peer = _least(self.peer, record.peer)

    @property
    def is_whole(self) -> bool:
        """Whether it was opened and closed in this stripe, once each."""
        return self.openings == self.closings == 1

    def follow(self, later: SessionFold) -> None:
        """Take in the same session of the next stripe, in which it was not opened."""
        for move in later.moves if self.closing is None else ():
            add_move(self.moves, move, is_begun=self.openings > 0)
        for name, choose in _CHOICES:
            value = getattr(later, name)
            if value is not None:
                setattr(self, name, choose(getattr(self, name), value))
        self.openings += later.openings
        self.closings += later.closings
        self.flags |= later.flags
        self.boots |= later.boots
        self.provided |= later.provided
        self.wanted |= later.wanted
        self.objects_wanted = self.objects_wanted or later.objects_wanted
        for key, holding in later.holdings.items():
            known = self.holdings.get(key)
            if known is None:
                # Until now there was no record of it, but maybe in a stripe before.
                known = self.holdings[key] = Holding(None if self.openings else [])
            known.follow(holding)

    def spans(self) -> Iterator[tuple[bool, str, Span]]:
        """When each service was provided or wanted. After the session was closed, it provides and wants nothing."""
        closing, why = (None, None) if self.closing is None else (self.closing[0], self.closing[1].reason)
        for (is_subscription, service), holding in self.holdings.items():
            if service is None:
                continue
            settled = holding.settled()
            for span in (*settled.spans, *([] if settled.open is None else [settled.open])):
                if closing is None:
                    yield not is_subscription, service, span
                elif span.begin <= closing:
                    is_ended = span.end is not None and span.end <= closing
                    ended = span if is_ended else span._replace(end=closing, reason=why)
                    yield not is_subscription, service, ended


def _flags_of(record: FoldLine) -> int:
    objects_in, objects_out, bytes_in, bytes_out = (getattr(record, name) or 0 for name in COUNTERS)
    flags = 0
    if min(objects_in, objects_out, bytes_in, bytes_out, record.duration or 0) < 0:
        flags |= NEGATIVE
    # A client may send less than a whole object. The server never does.
    without_objects = objects_out <= 0 < bytes_out and record.protocol in ONLY_OBJECTS
    if without_objects or (objects_out > 0 and bytes_out <= 0) or (objects_in > 0 and bytes_in == 0):
        flags |= UNEVEN
    if max(objects_in, objects_out, bytes_in, bytes_out) > 0:
        flags |= CARRIED
    return flags


def _least(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _most(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


def _first(one: Any, other: Any) -> Any:
    return other if one is None else one


def _last(one: Any, other: Any) -> Any:
    return other


_CHOICES = (
    *((name, _least) for name in _LEAST),
    *((name, _most) for name in _MOST),
    *((name, _first) for name in ("opening", "closing")),
    *((name, _last) for name in ("identified", "acting", "claiming")),
)
"""Functions that choose between the values of two pieces of a session, by the name of what the later one knows."""
