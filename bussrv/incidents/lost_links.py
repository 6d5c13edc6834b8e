"""Links to other servers that were lost, as the records of one server tell of them.

A loss counts if it lasts for ``SETTLED`` seconds. The end of the server itself is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from bussrv import events as ev
from bussrv.incidents.judging import Incident
from bussrv.incidents.tally import Table, Tally, cut, is_quiet
from bussrv.journal.record import Record

SETTLED = 10.0
"""Seconds for which a link is down, or another condition lasts, before it is an incident."""

OWN_ENDS = ("server-stopped", "server-crashed")
"""The reasons of links that ended with the server itself."""

MOST_LINKS = 1_000
"""The most links that are kept apart."""

_SECOND = 1_000_000


class _Losses(Struct):
    """The losses of a link that are over, and the one that is not.

    :ivar down: the record that says that it is down; ``None``: it is up, or the server itself ended.
    """

    over: Tally = field(default_factory=Tally)
    down: Record | None = None
    reason: str | None = None

    def change(self, record: Record) -> None:
        """It went or came."""
        self.over, self.reason = self.until(record.time)
        is_lost = isinstance(record.event, ev.LinkDown) and record.event.reason not in OWN_ENDS
        self.down = record if is_lost else None

    def until(self, now: int) -> tuple[Tally, str | None]:
        """All losses up to a moment, UTC microseconds, and the reason of the last one."""
        losses = Tally()
        losses.join(self.over)
        down = self.down
        if down is None or now - down.time < SETTLED * _SECOND:
            return losses, self.reason
        losses.join(Tally(1, first_seq=down.seq, begin=down.time, end=now))
        return losses, down.event.reason


class LostLinks:
    """The lost links of one server.

    :param not_kept: counts what the table had no room for.
    :param over: is told the sums that are dropped.
    """

    def __init__(self, server: str, not_kept: Counter[str], over: Callable[[Incident], None]) -> None:
        self._server = server
        self._not_kept = not_kept
        self._over = over
        self._links: Table[str, _Losses] = Table(MOST_LINKS, _Losses, self._drop)

    def changed(self, record: Record) -> None:
        """A link went or came."""
        self._links.used(cut(record.event.routing_id) or "").change(record)

    def rows(self, now: int) -> Iterator[Incident]:
        """The sums at a moment, UTC microseconds."""
        for name, link in self._links.items():
            losses, _ = link.until(now)
            if losses.number:
                yield self._row(name, link, now)

    def _row(self, name: str, link: _Losses, now: int) -> Incident:
        losses, reason = link.until(now)
        return Incident(
            what="link",
            server=self._server,
            subject=name,
            number=losses.number,
            lasts=losses.number > link.over.number,
            detail=reason,
            first_seq=losses.first_seq,
            begin=losses.begin,
            end=losses.end,
        )

    def forget(self, before: int) -> None:
        """Forget links that are up, and were not lost since a moment."""
        for name, link in self._links.items():
            if link.down is None and is_quiet(link.over.end or 0, before):
                self._links.forget(name)
                self._over(self._row(name, link, before))

    def _drop(self, name: str, link: _Losses) -> None:
        self._not_kept["links"] += 1
        end = link.over.end or 0 if link.down is None else link.down.time
        self._over(self._row(name, link, end))
