"""Troubles with other servers, as the records of one server tell of them: lost links, and clocks that differ.

A trouble counts if it lasts for ``SETTLED`` seconds. The end of the server itself is no loss of a link, and an
operator who removes a link ends its loss. A clock that differs does so until a record says that it does not, or until
the link goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from bussrv import events as ev
from bussrv.incidents.judging import Incident
from bussrv.incidents.tally import Table, Tally, cut, is_quiet
from bussrv.incidents.vocabulary import clock_said
from bussrv.journal.record import Record

SETTLED = 10.0
"""Seconds for which a link is down, or another condition lasts, before it is an incident."""

OWN_ENDS = ("server-stopped", "server-crashed")
"""The reasons of links that ended with the server itself."""

MOST_NEIGHBOURS = 1_000
"""The most other servers that are kept apart."""

_SECOND = 1_000_000


class _Neighbour(Struct):
    """The troubles with one server that are over, and the one that is not.

    :ivar began: the record with which that one began; ``None``: all is well.
    :ivar detail: what that record says; ``last_detail``: what that of the last one that counts said.
    """

    over: Tally = field(default_factory=Tally)
    last_detail: str | None = None
    began: Record | None = None
    detail: str | None = None

    def change(self, record: Record, *, is_trouble: bool, detail: str | None = None) -> None:
        """It is in trouble from this record on, or is not."""
        self.over, self.last_detail = self.until(record.time)
        self.began, self.detail = (record, detail) if is_trouble else (None, None)

    def until(self, now: int) -> tuple[Tally, str | None]:
        """All troubles up to a moment, UTC microseconds, and what the last one was."""
        all_of_them = Tally()
        all_of_them.join(self.over)
        began = self.began
        if began is None or now - began.time < SETTLED * _SECOND:
            return all_of_them, self.last_detail
        all_of_them.join(Tally(1, first_seq=began.seq, begin=began.time, end=now))
        return all_of_them, self.detail


class _Neighbours:
    """The troubles of one kind with other servers.

    :param what: the kind of the incidents.
    """

    def __init__(self, what: str, server: str, not_kept: Counter[str], over: Callable[[Incident], None]) -> None:
        self._what = what
        self._server = server
        self._not_kept = not_kept
        self._over = over
        self._known: Table[str, _Neighbour] = Table(MOST_NEIGHBOURS, _Neighbour, self._drop)

    def of(self, record: Record) -> _Neighbour:
        """The server that a record is about."""
        return self._known.used(cut(record.event.routing_id) or "")

    def end(self, record: Record) -> None:
        """No trouble goes on with the server that a record is about."""
        known = self._known.get(cut(record.event.routing_id) or "")
        if known is not None:
            known.change(record, is_trouble=False)

    def rows(self, now: int) -> Iterator[Incident]:
        """The sums at a moment, UTC microseconds."""
        for name, known in self._known.items():
            row = self._row(name, known, now)
            if row.number:
                yield row

    def _row(self, name: str, known: _Neighbour, now: int) -> Incident:
        found, detail = known.until(now)
        return Incident(
            what=self._what,
            server=self._server,
            subject=name,
            number=found.number,
            lasts=found.number > known.over.number,
            detail=detail,
            first_seq=found.first_seq,
            begin=found.begin,
            end=found.end,
        )

    def forget(self, before: int) -> None:
        """Forget servers that are well, and were so since a moment."""
        for name, known in self._known.items():
            if known.began is None and is_quiet(known.over.end or 0, before):
                self._known.forget(name)
                self._over(self._row(name, known, before))

    def _drop(self, name: str, known: _Neighbour) -> None:
        self._not_kept[f"{self._what}s"] += 1
        end = known.over.end or 0 if known.began is None else known.began.time
        self._over(self._row(name, known, end))


class Neighbours:
    """The troubles of one server with others.

    :param not_kept: counts what the tables had no room for.
    :param over: is told the sums that are dropped.
    :param follows_links: whether lost links are among them. A running server knows them better than its records do.
    """

    def __init__(
        self, server: str, not_kept: Counter[str], over: Callable[[Incident], None], *, follows_links: bool
    ) -> None:
        self._follows_links = follows_links
        self._links = _Neighbours("link", server, not_kept, over)
        self._clocks = _Neighbours("clock", server, not_kept, over)

    def link(self, record: Record) -> None:
        """A link went, came, or is not missed any more."""
        event = record.event
        if not isinstance(event, ev.LinkForgotten):
            self._clocks.end(record)
        if self._follows_links:
            is_lost = isinstance(event, ev.LinkDown) and event.reason not in OWN_ENDS
            self._links.of(record).change(record, is_trouble=is_lost, detail=event.reason)

    def clock(self, record: Record) -> None:
        """The clock of a server differs, or no longer does."""
        event = record.event
        assert isinstance(event, ev.LinkClock)
        said = clock_said(event.ahead, event.doubt)
        self._clocks.of(record).change(record, is_trouble=said is not None, detail=said)

    def rows(self, now: int) -> Iterator[Incident]:
        """The sums at a moment, UTC microseconds."""
        yield from self._links.rows(now)
        yield from self._clocks.rows(now)

    def forget(self, before: int) -> None:
        """Forget that of which nothing happened since a moment."""
        self._links.forget(before)
        self._clocks.forget(before)
