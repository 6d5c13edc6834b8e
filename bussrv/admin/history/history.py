"""The history of a server: samples every second, kept in rings, and saved every few minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv import events as ev
from bussrv.admin.figures.figures import Figures
from bussrv.admin.history.busiest import LEVELS as BUSIEST
from bussrv.admin.history.busiest import SERVICES_BYTES, SESSIONS_BYTES, Ranking
from bussrv.admin.history.columns import Point, Sample
from bussrv.admin.history.levels import LEVELS, Level
from bussrv.admin.history.packing import Row
from bussrv.admin.history.storing import SUFFIX, Mark, StoredHistory, read_history, write_history
from bussrv.admin.interfaces import AdministeredServer
from bussrv.bus.interfaces import IBus
from bussrv.journal.record import Record
from bussrv.registry.state.naming import called, called_in
from bussrv.turns.slices import by_steps
from bussrv.turns.threads import Threads
from bussrv.values import Traffic

MOST_ROWS = 20_000
"""With so many rows, sessions that are closed add no further ones."""

NO_TRAFFIC = Traffic()


def sample(server: AdministeredServer, figures: Figures) -> Sample:
    """The server now."""
    look, process = figures.look(), figures.process
    bus, totals = server.bus, look.totals.values()
    traffic = [each.traffic for each in totals]
    return Sample(
        utc=bus.utc(),
        mono=server.reactor.seconds(),
        totals=(
            sum(each.objects_in for each in traffic),
            sum(each.objects_out for each in traffic),
            sum(each.bytes_in for each in traffic),
            sum(each.bytes_out for each in traffic),
            figures.denials,
            bus.counters["link-lost-objects"],
            process.cpu_seconds,
        ),
        gauges=(
            sum(each.open for each in totals),
            look.services,
            look.subscriptions,
            look.links,
            look.outbound,
            process.memory_bytes,
            process.descriptors,
        ),
        histograms=(tuple(bus.delivery.counts), tuple(look.journal.syncs.counts)),
    )


class SessionTraffic:
    """The traffic of each session since the last look.

    It takes about 200 bytes of memory for each session.
    """

    def __init__(self, bus: IBus) -> None:
        self._bus = bus
        self._before: dict[str, Traffic] = {}
        self._rows: dict[str, Row] = {}

    def closed(self, event: ev.SessionClosed) -> None:
        """A session is closed: it is gone before the next look."""
        total = Traffic(event.objects_in, event.objects_out, event.bytes_in, event.bytes_out)
        session_id = event.session or ""
        if len(self._rows) < MOST_ROWS:
            self._note((session_id, called(event), event.protocol or "", event.routing_id or ""), total)
        self._before.pop(session_id, None)

    def look(self) -> Iterator[None]:
        """Look at all sessions, one per step."""
        state = self._bus.registry.state
        for session_id, traffic in self._bus.totals.each():
            session = state.sessions.get(session_id)
            if session is not None:
                self._note((session_id, called_in(state, session), session.protocol, session.routing_id), traffic)
            yield

    def _note(self, about: tuple[str, str, str, str], total: Traffic) -> None:
        session_id = about[0]
        before = self._before.get(session_id, NO_TRAFFIC)
        if total == before:
            return
        self._before[session_id] = copy(total)
        # A client that reads slowly may skip what was counted as sent: a count may get less for a moment.
        objects = (max(0, total.objects_in - before.objects_in), max(0, total.objects_out - before.objects_out))
        size = (max(0, total.bytes_in - before.bytes_in), max(0, total.bytes_out - before.bytes_out))
        known = self._rows.get(session_id)
        row = Row(about, objects, size)
        self._rows[session_id] = row if known is None else known.plus(row)

    def take(self) -> list[Row]:
        """The rows of all sessions with traffic since the last call."""
        rows, self._rows = list(self._rows.values()), {}
        return rows


INTERVAL = 1.0
"""Seconds between two samples."""

RANKED = 10
"""Samples from one look at the traffic of each session to the next one."""

SAVED = 300
"""Samples between two times that the history is saved."""

MOST_MARKS = 1_000

CLOCK_SET = 2.0
"""The clock was set if the time of day went on by so many seconds more, or less, than time passed."""

_MARKS = {ev.ConfigReloaded: "reloaded", ev.ConfigReloadFailed: "reload-failed"}
_FOLLOWED = frozenset({*_MARKS, ev.SessionClosed})

log = Logger()


class History:
    """The history of a server.

    :param off_thread: calls a function off the reactor's thread.
    :ivar marks: what charts tell of, oldest first.
    :ivar levels: the rings, the finest first.
    :ivar rates: grows when sessions and services have other rates than before.
    :ivar sessions: the busiest sessions. ``services``: the busiest services.
    """

    def __init__(
        self,
        server: AdministeredServer,
        figures: Figures,
        off_thread: Callable[..., Deferred[Any]] | None = None,
    ) -> None:
        self.marks: deque[Mark] = deque(maxlen=MOST_MARKS)
        self._begin_anew()
        self.rates = 0
        self._server = server
        self._bus = server.bus
        self._figures = figures
        self._traffic = SessionTraffic(server.bus)
        place = server.place
        self.path: Path | None = None if place is None else place.directory.with_name(place.directory.name + SUFFIX)
        self._off_thread = off_thread or Threads(server.reactor, "bussrv-history", 1)
        self._looking = LoopingCall(self._look)
        self._looking.clock = server.reactor
        self._count = 0
        self._last: Sample | None = None
        self._ranked_at = 0.0
        self._saving: Deferred[None] | None = None
        self._is_told = False
        server.journal.follow(self._written)

    def _begin_anew(self) -> None:
        self.levels = [Level(*each) for each in LEVELS]
        self.sessions, self.services = Ranking(SESSIONS_BYTES), Ranking(SERVICES_BYTES)

    # Life.

    def start(self) -> None:
        """Load what was saved, and begin to look at the server."""
        self._load()
        self.marks.append(Mark(self._bus.utc(), "started"))
        self._ranked_at = self._server.reactor.seconds()
        self._looking.start(INTERVAL).addErrback(self._failed)

    def stop(self) -> Deferred[None]:
        """Look no more. :returns: fires when the history is saved."""
        if not self._looking.running:
            return succeed(None)
        self._looking.stop()
        saving = self._saving or succeed(None)
        return saving.addCallback(lambda _: self._save())

    def _failed(self, failure: Failure) -> None:
        log.failure("the history of the admin interface failed, and ends", failure, event="admin.failed")

    def _load(self) -> None:
        if self.path is None:
            return
        try:
            stored = read_history(self.path)
            if stored is not None:
                self._take(stored)
        except (OSError, ValueError) as error:
            # A part of it may be there already.
            self._begin_anew()
            log.warn(
                "the history of figures begins anew: {path}: {error}",
                event="history.unreadable",
                path=str(self.path),
                error=getattr(error, "strerror", None) or str(error),
            )

    def _take(self, stored: StoredHistory) -> None:
        """:raises ValueError: it is not well-formed."""
        by_seconds = {each.seconds: each for each in stored.levels}
        for level in self.levels:
            if level.seconds in by_seconds:
                level.load(by_seconds[level.seconds], stored.byte_order)
        for name, ranking in self._rankings().items():
            ranking.load(stored.busiest.get(name, [[]] * len(BUSIEST)))
        self.marks.extend(stored.marks)

    def _rankings(self) -> dict[str, Ranking]:
        return {"sessions": self.sessions, "services": self.services}

    # Looking.

    def _look(self) -> None:
        now = sample(self._server, self._figures)
        self._note_clock(now)
        for level in self.levels:
            level.take(now)
        self._last = now
        self._count += 1
        if self._count % RANKED == 0:
            self._bus.slices.do(by_steps(self._rank(), self._server.reactor.seconds))
        if self._count % SAVED == 0 and self._saving is None:
            self._saving = self._save().addBoth(self._saved)

    def _note_clock(self, now: Sample) -> None:
        last = self._last
        if last is not None and abs((now.utc - last.utc) / 1_000_000 - (now.mono - last.mono)) > CLOCK_SET:
            self.marks.append(Mark(now.utc, "clock-set"))

    def _rank(self) -> Iterator[None]:
        """Look at the traffic of each session, in steps."""
        yield from self._traffic.look()
        now = self._server.reactor.seconds()
        time, seconds = self._bus.utc(), max(INTERVAL, now - self._ranked_at)
        self._ranked_at = now
        sessions, counts = self._traffic.take(), self._bus.service_traffic.take()
        services = [Row((name,), (each[0],), (each[1],)) for name, each in counts.items()]
        if sessions or services or self.sessions.latest or self.services.latest:
            self.rates += 1
        self.sessions.add(sessions, time, seconds)
        yield
        self.services.add(services, time, seconds)

    def _written(self, records: list[Record]) -> None:
        if _FOLLOWED.isdisjoint([type(each.event) for each in records]):
            return
        for each in records:
            if isinstance(each.event, ev.SessionClosed):
                self._traffic.closed(each.event)
            elif type(each.event) in _MARKS:
                self.marks.append(Mark(each.time, _MARKS[type(each.event)]))

    # The present.

    def begun(self, level: Level) -> Point | None:
        """The interval of a level that has not ended yet."""
        return None if self._last is None else level.begun(self._last)

    # Saving.

    def _save(self) -> Deferred[None]:
        if self.path is None:
            return succeed(None)
        stored = StoredHistory(
            levels=[level.store(self.begun(level)) for level in self.levels],
            busiest={name: ranking.store(self._bus.utc()) for name, ranking in self._rankings().items()},
            marks=list(self.marks),
        )
        return self._off_thread(write_history, self.path, stored).addErrback(partial(self._not_saved, self.path))

    def _saved(self, _: object) -> None:
        self._saving = None

    def _not_saved(self, path: Path, failure: Failure) -> None:
        if not self._is_told:
            self._is_told = True
            log.warn(
                "the history of figures cannot be saved: {path}: {error}",
                event="history.not-saved",
                path=str(path),
                error=getattr(failure.value, "strerror", None) or str(failure.value),
            )
