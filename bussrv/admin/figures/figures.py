"""Figures of the server. They are kept for half a second, so that many requests cost no more than one."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable
from math import nan
from pathlib import Path

from msgspec import Struct

from bussrv import events as ev
from bussrv.admin.interfaces import AdministeredServer
from bussrv.bus.sessions.totals import Total
from bussrv.journal.condition import JournalCondition
from bussrv.journal.record import Record

COUNTED = 10.0
"""Seconds for which the number of descriptors is kept. Counting takes as long as there are many."""

_PAGE = resource.getpagesize()
_STATUS, _DESCRIPTORS = Path("/proc/self/statm"), "/proc/self/fd"


class Process:
    """The process of the server. Values are ``nan`` on systems that do not say them.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._counted: float | None = None
        self._descriptors = nan

    @property
    def memory_bytes(self) -> float:
        """The memory that is in use now."""
        try:
            return float(int(_STATUS.read_text().split()[1]) * _PAGE)
        except (OSError, ValueError, IndexError):
            return nan

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all its threads since its start, in seconds."""
        return time.process_time()

    @property
    def descriptors(self) -> float:
        """The open descriptors, at most ten seconds ago."""
        now = self._seconds()
        if self._counted is None or now - self._counted >= COUNTED:
            self._counted, self._descriptors = now, _count()
        return self._descriptors


def _count() -> float:
    try:
        # One of them is that of the directory.
        return float(len(os.listdir(_DESCRIPTORS)) - 1)  # noqa: PTH208 - paths of thousands would cost more
    except OSError:
        return nan


KEPT = 0.5
"""Seconds for which figures are kept."""

LATELY = 60.0
"""Seconds for which a refusal counts."""

COUNTERS = {
    "max-sessions": "max-sessions",
    "inbus-max-sessions": "inbus-max-sessions",
    "spp-max-silent": "spp-max-silent",
    "max-handshakes": "max-handshakes",
    "max-services-total": "max-services-total",
    "max-requests": "max-requests",
    "max-spool-total": "max-spool-total",
    "max-outbound-total": "outbound-full",
    "max-inbound-total": "inbound-full",
    "max-links": "max-links",
    "max-remote-sessions": "too-many-remote-sessions",
}
"""The options that set such limits, each with its counter."""

_RELOADS = frozenset({ev.ConfigReloaded, ev.ConfigReloadFailed})
_DENIALS = frozenset({ev.AccessDenied, ev.AuthFailed})
_COUNTED = _RELOADS | _DENIALS


class FiguresAtMoment(Struct, frozen=True, kw_only=True):
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


class RecentRefusals:
    """The limits of all clients together that have refused some of them lately: those within limits of their own, too.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, counters: Counter[str], seconds: Callable[[], float]) -> None:
        self._counters = counters
        self._seconds = seconds
        self._before = {name: counters[counter] for name, counter in COUNTERS.items()}
        self._at: dict[str, float] = {}

    def lately(self) -> list[str]:
        """The options whose limits refused somebody within :data:`LATELY`, or since the last call."""
        now = self._seconds()
        for name, counter in COUNTERS.items():
            count = self._counters[counter]
            if count != self._before[name]:
                self._before[name], self._at[name] = count, now
        return [name for name, at in self._at.items() if now - at < LATELY]


class Figures:
    """The figures of a server.

    :ivar seq: the number of the last record that is durable.
    :ivar records: how many records of the journal are durable since the start.
    :ivar denials: how often something was denied, or a login failed, since the start; those that were not journaled one
        by one are included as soon as the next one is.
    :ivar reloaded: whether the last reload went well; ``None``: there was none.
    :ivar reloaded_at: the time of the last reload, UTC microseconds.
    :ivar refusals: the limits that have refused clients lately.
    :ivar process: what the process takes of the machine.
    """

    def __init__(self, server: AdministeredServer) -> None:
        self.seq = 0 if server.place is None else server.place.head().seq
        self.records = 0
        self.denials = 0
        self.reloaded: bool | None = None
        self.reloaded_at = 0
        self.process = Process(server.reactor.seconds)
        self.refusals = RecentRefusals(server.bus.counters, server.reactor.seconds)
        self._server = server
        self._latest: FiguresAtMoment | None = None
        server.journal.follow(self._written)

    def _written(self, records: list[Record]) -> None:
        self.records += len(records)
        self.seq = records[-1].seq if records else self.seq
        if _COUNTED.isdisjoint([type(each.event) for each in records]):
            return
        for each in records:
            if type(each.event) in _RELOADS:
                self.reloaded, self.reloaded_at = isinstance(each.event, ev.ConfigReloaded), each.time
            elif isinstance(each.event, (ev.AccessDenied, ev.AuthFailed)):
                self.denials += 1 + (each.event.suppressed or 0)

    def look(self) -> FiguresAtMoment:
        """The figures, at most half a second old."""
        now = self._server.reactor.seconds()
        if self._latest is None or not 0 <= now - self._latest.at < KEPT:
            self._latest = self._look(now)
        return self._latest

    def _look(self, now: float) -> FiguresAtMoment:
        server, bus = self._server, self._server.bus
        state, totals = bus.registry.state, bus.totals.by_format()
        return FiguresAtMoment(
            at=now,
            totals=totals,
            remote_sessions=max(0, len(state.sessions) - sum(each.present for each in totals.values())),
            services=len(state.services),
            subscriptions=sum(map(len, state.subscriptions.values())),
            links=len(bus.links.neighbors()),
            outbound=bus.streams.outbound.total,
            inbound=bus.streams.inbound.total,
            journal=server.journal_condition(),
        )
