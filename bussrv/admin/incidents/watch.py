"""Follows the journal and the health of the server, and keeps the incidents that are known up to date."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv import events as ev
from bussrv.admin.figures.figures import Figures
from bussrv.admin.figures.health import MissingLink, missing_links, readiness
from bussrv.admin.incidents.earlier import MOST_RECORDS, read_earlier
from bussrv.admin.incidents.known import KnownIncidents
from bussrv.admin.incidents.troubles import About, Failing, Troubles
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.servers.peers import Peer, others
from bussrv.incidents.amounts import many
from bussrv.incidents.judging import is_incident
from bussrv.incidents.sums import Sums
from bussrv.incidents.tally import QUIET
from bussrv.incidents.use import UNKNOWN
from bussrv.incidents.vocabulary import clock_difference, clock_said
from bussrv.journal.record import Record
from bussrv.journal.recovery import Recovered
from bussrv.turns.clock import Clock
from bussrv.turns.threads import Threads

NOT_TROUBLES = ("ports", "drain", "links")
"""Checks that fail because an operator starts or stops the server; links are conditions of their own."""


def failing(
    server: AdministeredServer, figures: Figures, peers: Iterable[Peer], measured: Container[str] = ()
) -> dict[About, Failing]:
    """The conditions that hold.

    :param peers: the servers of ``--admin-peer``. ``measured``: those whose clocks are measured over links.
    """
    checks = readiness(server, figures).checks
    found = {
        About("trouble", name): Failing(check.message)
        for name, check in checks.items()
        if check.status != "ok" and name not in NOT_TROUBLES
    }
    found |= {About("link", each.server): _link(each) for each in missing_links(server)}
    return found | _clocks(others(peers, server.boot), measured)


def _link(missing: MissingLink) -> Failing:
    lost = missing.lost
    if lost is None:
        return Failing(missing.sentence)
    known = f"; {many(lost.sessions, 'session')} known over it" if lost.sessions else ""
    return Failing(f"{missing.sentence}{known}", lost.time, lost.peer)


def _clocks(peers: Iterable[Peer], measured: Container[str]) -> dict[About, Failing]:
    """The servers whose clocks certainly differ: half of the time that an answer took is not known.

    :param measured: the servers whose clocks are measured over links. Records tell of these.
    """
    found = {}
    for each in peers:
        answered = each.answered
        if answered is None or answered.summary is None or answered.ahead is None:
            continue
        said = clock_difference(answered.ahead, (answered.round_trip or 0.0) / 2)
        if said is not None and answered.summary.server not in measured:
            found[About("clock", answered.summary.server)] = Failing(said, address=each.url)
    return found


class _LinkClocks:
    """Writes in the journal when the clock of a linked server begins or ceases to differ.

    :ivar measured: the servers that have said their time.
    """

    def __init__(self, server: AdministeredServer) -> None:
        self._server = server
        self.measured: set[str] = set()
        self._differing: set[str] = set()

    def look(self) -> None:
        """Compare the clocks as they were measured last."""
        bus = self._server.bus
        measured, differing = set(), set()
        for link in bus.links.all():
            clock = bus.link_clocks.of(link.session_id)
            if clock is None:
                continue
            measured.add(link.server_id)
            ahead, doubt = round(clock.ahead * _SECOND), round(clock.round_trip * _SECOND / 2)
            differs = clock_said(ahead, doubt) is not None
            if differs:
                differing.add(link.session_id)
            if differs != (link.session_id in self._differing):
                session = bus.registry.state.sessions[link.session_id]
                bus.registry.note(ev.LinkClock(ahead=ahead, doubt=doubt, **session.about()))
        self.measured, self._differing = measured, differing


INTERVAL = 2.0
"""Seconds between two looks."""

LOOKS = 5
"""So many looks are between two questions for the times of linked servers."""

_SECOND = 1_000_000

log = Logger()


class IncidentWatch:
    """Judges a running server.

    :param before: the journal as the server found it.
    :param peers: the servers of ``--admin-peer``.
    :param are_hidden: whether the journal has pseudonyms, and the registry the names.
    :ivar known: the incidents.
    """

    def __init__(
        self,
        server: AdministeredServer,
        clock: Clock,
        before: Recovered,
        *,
        peers: Callable[[], Iterable[Peer]] = tuple,
        are_hidden: bool,
    ) -> None:
        self._server = server
        self._peers = peers
        self._figures = Figures(server)
        self.known = server.incidents
        self._link_clocks = _LinkClocks(server)
        self._troubles = Troubles(server.bus.server_id, clock.utc, clock.mono)
        self._sums = Sums(server.bus.server_id, self.known.over, follows_links=False)
        self._directory = None if server.place is None else server.place.directory
        self._seq = self._figures.seq
        self._more = self._looks = 0
        self._looking = LoopingCall(self._look)
        self._looking.clock = server.reactor
        self._take_registry(are_hidden)
        if before.next_seq > 1:
            self._sums.begin_after(before.next_seq - 1, before.last_time, stopped=before.stopped)
        server.journal.follow(self._written)

    def _take_registry(self, are_hidden: bool) -> None:
        """Take in the sessions and services that the journal has from before this boot."""
        state, presence = self._server.bus.registry.state, self._sums.presence
        for each in state.sessions.values():
            owner = UNKNOWN if are_hidden else each.actor
            presence.add(each.id, each.opened, owner, each.routing_id, each.home)
        for service, providers in state.services.items():
            for session in providers:
                presence.add_provider(session, service)

    def start(self) -> None:
        """Look from now on, and read what the journal has of before."""
        self._looking.start(INTERVAL, now=False).addErrback(self._failed)
        if self._directory is not None and self._seq:
            Deferred.fromCoroutine(self._read_earlier(self._directory, self._seq))

    def stop(self) -> None:
        """Look no more."""
        if self._looking.running:
            self._looking.stop()

    async def _read_earlier(self, directory: Path, seq: int) -> None:
        threads = Threads(self._server.reactor, "bussrv-incidents", 1)
        try:
            earlier: KnownIncidents = await threads(
                read_earlier, directory, self._server.bus.server_id, max(0, seq - MOST_RECORDS), seq
            )
        except Exception as error:
            log.warn("incidents of before the start are not known: {error}", event="incidents.unread", error=error)
        else:
            self.known.add(earlier)

    def _written(self, records: list[Record]) -> None:
        self._sums.take(records)
        for each in records:
            event = each.event
            if isinstance(event, ev.IncidentAcknowledged):
                self.known.note(each)
            elif isinstance(event, ev.LinkGap) and event.routing_id is not None:
                self._troubles.lose(event.routing_id, event.lost, each.time)

    def _look(self) -> None:
        now = self._server.bus.utc()
        if self._looks % LOOKS == 0:
            self._server.bus.link_clocks.ask()
        self._looks += 1
        self._link_clocks.look()
        self._troubles.look(failing(self._server, self._figures, self._peers(), self._link_clocks.measured))
        self._sums.forget(now - QUIET * _SECOND)
        self._troubles.forget(now - QUIET * _SECOND)
        rows = [*self._sums.rows(now), *self._troubles.rows()]
        self.known.go_on([row for row in rows if is_incident(row)])
        self._more = max(self._more, self.known.not_kept)
        not_kept = self._sums.not_kept.total() + self._more
        if not_kept:
            self._server.bus.counters["incident-not-kept"] = not_kept

    def _failed(self, failure: Failure) -> Any:
        log.failure("incidents cannot be judged any more", failure, event="incidents.failed")
