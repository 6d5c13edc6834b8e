"""Figures of the server. They are kept for half a second, so that many requests cost no more than one."""

from __future__ import annotations

from msgspec import Struct

from bussrv import events as ev
from bussrv.admin.figures.refusals import Refusals
from bussrv.admin.interfaces import AdministeredServer
from bussrv.bus.sessions.totals import Total
from bussrv.journal.condition import JournalCondition
from bussrv.journal.record import Record

KEPT = 0.5
"""Seconds for which figures are kept."""

_RELOADS = frozenset({ev.ConfigReloaded, ev.ConfigReloadFailed})


class Look(Struct, frozen=True, kw_only=True):
    """The figures of a moment.

    :ivar at: the time in seconds of the reactor.
    :ivar totals: the totals of each wire format, by its name.
    :ivar remote_sessions: how many sessions linked servers advertise.
    :ivar outbound: bytes that wait for clients. ``inbound``: bytes of unfinished input.
    """

    at: float
    totals: dict[str, Total]
    remote_sessions: int
    services: int
    subscriptions: int
    links: int
    outbound: int
    inbound: int
    journal: JournalCondition


class Figures:
    """The figures of a server.

    :ivar seq: the number of the last record that is durable.
    :ivar records: how many records of the journal are durable since the start.
    :ivar reloaded: whether the last reload went well; ``None``: there was none.
    :ivar reloaded_at: the time of the last reload, UTC microseconds.
    :ivar refusals: the limits that have refused clients lately.
    """

    def __init__(self, server: AdministeredServer) -> None:
        self.seq = 0 if server.place is None else server.place.head().seq
        self.records = 0
        self.reloaded: bool | None = None
        self.reloaded_at = 0
        self.refusals = Refusals(server.bus.counters, server.reactor.seconds)
        self._server = server
        self._latest: Look | None = None
        server.journal.follow(self._written)

    def _written(self, records: list[Record]) -> None:
        self.records += len(records)
        self.seq = records[-1].seq if records else self.seq
        if _RELOADS.isdisjoint([type(each.event) for each in records]):
            return
        for each in records:
            if type(each.event) in _RELOADS:
                self.reloaded, self.reloaded_at = isinstance(each.event, ev.ConfigReloaded), each.time

    def look(self) -> Look:
        """The figures, at most half a second old."""
        now = self._server.reactor.seconds()
        if self._latest is None or not 0 <= now - self._latest.at < KEPT:
            self._latest = self._look(now)
        return self._latest

    def _look(self, now: float) -> Look:
        server, bus = self._server, self._server.bus
        state, totals = bus.registry.state, bus.totals.by_format()
        return Look(
            at=now,
            totals=totals,
            remote_sessions=max(0, len(state.sessions) - sum(each.open for each in totals.values())),
            services=len(state.services),
            subscriptions=sum(map(len, state.subscriptions.values())),
            links=len(bus.links.neighbors()),
            outbound=bus.streams.outbound.total,
            inbound=bus.streams.inbound.total,
            journal=server.journal_condition(),
        )
