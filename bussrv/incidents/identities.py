"""Which sessions have, or had, which routing id: in tables of bounded size.

A session has the id that it said last, and is counted under no other one. Its life counts, from its opening to its end:
whoever takes the id of another session, and was there before that one ended, is one of two sessions that had the id at
the same time. See ``identities`` in :mod:`bussrv.audit.sql`.

Of each id the latest ``MOST_EXACT`` sessions are exact, in the order of their openings. Older ones are a sum, in which
nothing changes any more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from bussrv.incidents.judging import Incident
from bussrv.incidents.tally import is_quiet, least, most

MOST_EXACT = 64
"""The most sessions of one id that are kept apart."""

MOST_IDS = 100_000
"""The most ids that are followed."""

MOST_HELD = 2 * MOST_IDS
"""The most sessions that are kept apart, of all ids."""


MOST_CONTESTED = 1_000
"""The most ids that are contested. A look has to look at each of them."""


class Held(Struct):
    """A session that has, or had, an id. Times are UTC microseconds.

    :ivar closed: ``None``: it is open.
    """

    opened: int
    session: str
    closed: int | None = None

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the order of an id."""
        return self.opened, self.session

    def is_over_at(self, later: Held) -> bool:
        """Whether it had ended when a session that follows it was opened."""
        return self.closed is not None and self.closed <= later.opened


class IdUse(Struct):
    """The sessions of an id.

    :ivar held: those that are kept apart, in the order of their openings.
    :ivar overlaps: how many sessions were there when the one after them was opened.
    :ivar present: how many sessions are open.
    :ivar folded: how many sessions are in the sum. ``begin``: the first opening, ``end``: the last time of these.
    """

    held: list[Held] = []
    overlaps: int = 0
    present: int = 0
    folded: int = 0
    begin: int | None = None
    end: int | None = None

    def _overlapping(self, at: int, until: int) -> int:
        """How many of the pairs overlap of which the second one is from ``at`` on and before ``until``."""
        pairs = range(max(1, at), min(until, len(self.held)))
        return sum(not self.held[second - 1].is_over_at(self.held[second]) for second in pairs)

    def _place(self, opened: int, session: str) -> int:
        return bisect_left(self.held, (opened, session), key=lambda each: each.place)

    def _at(self, opened: int, session: str) -> int | None:
        at = self._place(opened, session)
        return at if at < len(self.held) and self.held[at].session == session else None

    def add(self, opened: int, session: str) -> None:
        """A session has the id now."""
        at = self._place(opened, session)
        before = self._overlapping(at, at + 1)
        self.held.insert(at, Held(opened, session))
        self.overlaps += self._overlapping(at, at + 2) - before
        self.present += 1

    def close(self, opened: int, session: str, closed: int) -> None:
        """A session that has it is closed."""
        self.present -= 1
        at = self._at(opened, session)
        if at is None:
            self.end = most(self.end, closed)
            return
        before = self._overlapping(at + 1, at + 2)
        self.held[at].closed = closed
        self.overlaps += self._overlapping(at + 1, at + 2) - before

    def leave(self, opened: int, session: str) -> bool:
        """A session has another id from now on. :returns: whether it was kept apart."""
        self.present -= 1
        at = self._at(opened, session)
        if at is None:
            return False
        before = self._overlapping(at, at + 2)
        del self.held[at]
        self.overlaps += self._overlapping(at, at + 1) - before
        return True

    def fold(self, number: int) -> None:
        """Add the oldest sessions to the sum. What they overlap with stays counted."""
        for each in self.held[:number]:
            self.begin = least(self.begin, each.opened)
            self.end = most(self.end, max(each.opened, each.closed or 0))
        self.folded += len(self.held[:number])
        del self.held[:number]

    def forget_closed(self) -> int:
        """Begin anew, with the sessions that are open. :returns: how many were kept apart besides."""
        before = len(self.held)
        self.held = [each for each in self.held if each.closed is None]
        self.folded, self.begin, self.end = 0, None, None
        self.overlaps = self._overlapping(1, len(self.held))
        return before - len(self.held)

    def last(self) -> int:
        """The time of the last opening or end."""
        return max([self.end or 0, *(max(each.opened, each.closed or 0) for each in self.held)])

    def row(self, server: str, routing_id: str) -> Incident:
        """The sums."""
        return Incident(
            what="identity",
            server=server,
            subject=routing_id,
            number=self.overlaps,
            others=self.folded + len(self.held),
            begin=least(self.begin, self.held[0].opened if self.held else None),
            end=self.last(),
        )


class Identities:
    """The routing ids of one server.

    :param not_kept: counts the ids that there was no room for.
    :param over: is told the sums that are dropped.
    """

    def __init__(self, server: str, not_kept: Counter[str], over: Callable[[Incident], None]) -> None:
        self._server = server
        self._not_kept = not_kept
        self._over = over
        self._ids: dict[str, IdUse] = {}
        self._held = 0
        # A look covers these: of very many ids, few.
        self._contested: dict[str, None] = {}
        self._ended: dict[str, None] = {}
        """Ids of which a session was closed, in the order of the last time."""

    def take(self, routing_id: str, opened: int, session: str) -> None:
        """A session has an id now."""
        self._make_room(routing_id)
        use = self._ids.pop(routing_id, None) or IdUse()
        self._ids[routing_id] = use
        use.add(opened, session)
        self._held += 1
        if len(use.held) > MOST_EXACT:
            # Half of them at once: to fold one by one would take as long as all of them for each session.
            self._fold(use, MOST_EXACT // 2)
        self._judge(routing_id, use)

    def leave(self, routing_id: str, opened: int, session: str) -> None:
        """A session has another id from now on."""
        use = self._ids.get(routing_id)
        if use is None:
            return
        self._held -= use.leave(opened, session)
        self._judge(routing_id, use)
        if not use.held and not use.folded:
            self._forget(routing_id)
        elif not use.present:
            self._ended[routing_id] = None

    def close(self, routing_id: str, opened: int, session: str, closed: int) -> None:
        """A session is closed."""
        use = self._ids.get(routing_id)
        if use is None:
            return
        use.close(opened, session, closed)
        self._ended.pop(routing_id, None)
        self._ended[routing_id] = None
        self._judge(routing_id, use)

    def _judge(self, routing_id: str, use: IdUse) -> None:
        if not use.overlaps:
            self._contested.pop(routing_id, None)
            return
        self._contested[routing_id] = None
        if len(self._contested) > MOST_CONTESTED:
            self._not_kept["contested"] += 1
            oldest = next(iter(self._contested))
            self._end(oldest, self._ids[oldest])

    def rows(self) -> Iterator[Incident]:
        """The sums of the ids that several sessions had at the same time."""
        for routing_id in self._contested:
            yield self._ids[routing_id].row(self._server, routing_id)

    def forget(self, before: int) -> None:
        """Forget what is over since a moment. An id that several sessions have goes on."""
        for routing_id in tuple(self._contested):
            use = self._ids[routing_id]
            if use.present < 2 and is_quiet(use.last(), before):
                self._end(routing_id, use)
        for routing_id in tuple(self._ended):
            use = self._ids[routing_id]
            if not is_quiet(use.last(), before):
                break
            if routing_id not in self._contested:
                self._begin_anew(routing_id, use)

    def _end(self, routing_id: str, use: IdUse) -> None:
        self._over(use.row(self._server, routing_id))
        self._begin_anew(routing_id, use)

    def _begin_anew(self, routing_id: str, use: IdUse) -> None:
        self._held -= use.forget_closed()
        self._ended.pop(routing_id, None)
        self._contested.pop(routing_id, None)
        if not use.held:
            self._forget(routing_id)

    def _forget(self, routing_id: str) -> None:
        use = self._ids.pop(routing_id)
        self._held -= len(use.held)
        self._contested.pop(routing_id, None)
        self._ended.pop(routing_id, None)

    def _fold(self, use: IdUse, number: int) -> None:
        before = len(use.held)
        use.fold(number)
        self._held -= before - len(use.held)

    def _make_room(self, wanted: str) -> None:
        """Drop ids whose sessions are all gone; only then those that sessions have.

        :param wanted: the id that needs room.
        """
        while self._held >= MOST_HELD or (len(self._ids) >= MOST_IDS and wanted not in self._ids):
            routing_id = next(iter(self._ended or self._ids))
            use = self._ids[routing_id]
            if routing_id in self._ended and use.present:
                self._fold(use, len(use.held) - 1)
                del self._ended[routing_id]
                continue
            self._not_kept["ids"] += 1
            if use.overlaps:
                self._over(use.row(self._server, routing_id))
            self._forget(routing_id)
