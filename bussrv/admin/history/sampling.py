"""Looks at the server: its figures each second, and the traffic of each session and service every ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

from bussrv import events as ev
from bussrv.admin.figures.figures import Figures
from bussrv.admin.history.columns import Sample
from bussrv.admin.history.packing import Row
from bussrv.admin.interfaces import AdministeredServer
from bussrv.bus.interfaces import IBus
from bussrv.registry.state.naming import called, called_in
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
