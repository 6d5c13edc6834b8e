"""Totals of what all sessions of a wire format sent and received, for figures of the server.

Sessions count for themselves; nothing is counted a second time for the totals. These are the counts of closed sessions
and a sum over the open ones, which is made when somebody asks: 10,000 sessions take about two milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import astuple

from bussrv.values import Traffic


class Total(Struct):
    """The total of one wire format since the start of the server.

    :ivar traffic: objects and bytes, in and out. It never gets less.
    :ivar opened: how many sessions were opened.
    :ivar open: how many of them are open.
    """

    traffic: Traffic
    opened: int = 0
    open: int = 0


class _Format:
    def __init__(self) -> None:
        self.open: dict[str, Traffic] = {}
        self.closed = Traffic()
        self.opened = 0
        self.shown = Traffic()


class Totals:
    """The totals of each wire format."""

    def __init__(self) -> None:
        self._formats: dict[str, _Format] = {}

    def opened(self, protocol: str, session_id: str, traffic: Traffic) -> None:
        """A session is open; ``traffic`` has its counts while it is."""
        found = self._formats.setdefault(protocol, _Format())
        found.open[session_id] = traffic
        found.opened += 1

    def closed(self, protocol: str, session_id: str) -> None:
        """A session is closed."""
        found = self._formats.get(protocol)
        traffic = None if found is None else found.open.pop(session_id, None)
        if found is not None and traffic is not None:
            found.closed = _sum((found.closed, traffic))

    def by_format(self) -> dict[str, Total]:
        """The totals as they are now, by the names of the wire formats."""
        return {name: self._total(each) for name, each in self._formats.items()}

    def _total(self, found: _Format) -> Total:
        now = _sum((found.closed, *found.open.values()))
        # A client that reads slowly may skip states that were counted as sent: a count may get less for a moment.
        found.shown = _most(found.shown, now)
        return Total(found.shown, found.opened, len(found.open))


def _sum(counts: Iterable[Traffic]) -> Traffic:
    return Traffic(*map(sum, zip(*map(astuple, counts), strict=True)))


def _most(one: Traffic, other: Traffic) -> Traffic:
    return Traffic(*map(max, astuple(one), astuple(other)))
