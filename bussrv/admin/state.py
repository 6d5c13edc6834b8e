"""The memory of the admin interface: recent records, figures and streams, besides the registry."""

from __future__ import annotations

from collections import deque

from bussrv import events as ev
from bussrv.admin.figures.figures import Figures
from bussrv.admin.figures.live import Live
from bussrv.admin.figures.metrics import Metrics
from bussrv.admin.history.history import History
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.journal.audit import AuditReader
from bussrv.admin.journal.audit_runner import AuditRunner
from bussrv.admin.journal.events import JournalEvents
from bussrv.admin.journal.reading import Reading
from bussrv.admin.servers.peers import Peers
from bussrv.journal.record import Record

MOST_RECENT = 1_000
"""The most closed sessions, and the most denials, that are remembered."""

REPORTS_KEPT = 1.0
"""Seconds for which reports are kept: some are slow to make, and every reader may ask."""

_REMEMBERED = frozenset({ev.SessionIdentified, ev.SessionClosed, ev.AccessDenied, ev.AuthFailed})


class RequestMemory:
    """The memory that all requests share.

    :ivar seq: the number of the last record that is durable.
    :ivar closed: the last records of closed sessions, oldest first, each with the program that its client said it is.
    :ivar reading: reads the journal, off the reactor's thread.
    :ivar audit: reads what an audit says that runs beside the server.
    :ivar audits: runs an audit if somebody asks for one.
    :ivar events: the streams of records.
    :ivar figures: the figures of the server. ``live``: the streams of them. ``metrics``: the figures for Prometheus.
    :ivar history: the figures of the last 30 days.
    :ivar peers: the servers of ``--admin-peer``, and what they say.
    :ivar denied: the last records of denials and failed logins, oldest first.
    """

    def __init__(self, server: AdministeredServer) -> None:
        self.seq = 0 if server.place is None else server.place.head().seq
        self.closed: deque[tuple[Record, str | None]] = deque(maxlen=MOST_RECENT)
        self.denied: deque[Record] = deque(maxlen=MOST_RECENT)
        self.reading = Reading(server.reactor)
        self.audit = AuditReader()
        self.audits = AuditRunner(server.reactor, server.bus.utc)
        directory = None if server.place is None else server.place.directory
        # Streams have a reading thread of their own: other requests may read for seconds.
        self.events = JournalEvents(self.seq, directory, Reading(server.reactor).do, server.reactor)
        self.figures = Figures(server)
        self.live = Live(server, self.figures)
        self.metrics = Metrics(server, self.figures)
        self.history = History(server, self.figures)
        self.peers = Peers(server)
        # The record of an end does not say it; a session that was there before this boot has it in the registry.
        self._names = {each.id: each.name for each in server.bus.registry.state.sessions.values() if each.name}
        self._bus = server.bus
        self._seconds = server.reactor.seconds
        self._boot = server.boot
        self._reported: float | None = None
        self._reports: dict[str, object] = {}
        server.journal.follow(self._written)

    def _written(self, records: list[Record]) -> None:
        if not _REMEMBERED.isdisjoint([type(each.event) for each in records]):
            for each in records:
                self._remember(each)
        self.seq = records[-1].seq if records else self.seq
        self.events.written(records)

    def _remember(self, record: Record) -> None:
        event = record.event
        if isinstance(event, ev.SessionIdentified):
            if event.name is not None:
                self._names[event.session or ""] = event.name
        elif isinstance(event, ev.SessionClosed):
            self.closed.append((record, self._names.pop(event.session or "", None)))
        elif isinstance(event, (ev.AccessDenied, ev.AuthFailed)):
            self.denied.append(record)

    @property
    def tag(self) -> str:
        """The ``ETag`` of answers that are a function of the registry, and of the rates of sessions and services.

        The registry is ahead of the journal for a moment, so that the number of the last record alone is not enough.
        """
        return f'"{self._boot}-{self.seq}.{self._bus.registry.changes}.{self.history.rates}"'

    def reports(self) -> dict[str, object]:
        """The reports of all parts of the server, at most a second old."""
        now = self._seconds()
        if self._reported is None or now - self._reported >= REPORTS_KEPT:
            self._reported, self._reports = now, self._bus.reports()
        return self._reports
