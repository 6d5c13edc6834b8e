"""The composition root: starts and stops all parts of a server in order."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import twisted
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, fail, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv import events as ev
from bussrv.admin.interfaces import Reloaded
from bussrv.bus.bus import Bus
from bussrv.bus.interfaces import Use
from bussrv.bus.sessions.left_open import settle_left_open
from bussrv.bus.sessions.membership import MembershipAnnouncer
from bussrv.compiled import HOT_PATH
from bussrv.errors import ConfigError, JournalError
from bussrv.interfaces import IDrainedListener, IHostedService, IListener, IWireFormat
from bussrv.journal.recovery import Recovered
from bussrv.registry.changes.registry import Registry
from bussrv.server.configuration.check import check_places
from bussrv.server.configuration.config import ADMIN, Config
from bussrv.server.configuration.exposure import check_endpoints, warn_of_exposed
from bussrv.server.configuration.faults import prepare_all
from bussrv.server.log.refusals import Refusals
from bussrv.server.log.text import Threshold
from bussrv.server.running.admin import AdminInterface, AdminView
from bussrv.server.running.cosigning import OwnWitness
from bussrv.server.running.identity import Checkers
from bussrv.server.running.incidents import IncidentsInEffect
from bussrv.server.running.journal import JournalPlace, NoJournal
from bussrv.server.running.links import DialedLinks
from bussrv.server.running.policy import PolicyInEffect, in_effect
from bussrv.server.running.ports import make_listeners, open_ports, warn_of_expiry
from bussrv.server.running.process import SharedProcess, warn_of_fewer
from bussrv.server.running.reload import Reload
from bussrv.server.running.witnesses import WitnessesInEffect
from bussrv.services.discovery.home_assistant import HomeAssistant
from bussrv.services.discovery.presence import Presence
from bussrv.services.hosting import HostedServices
from bussrv.turns.clock import Clock, SystemClock
from bussrv.version import VERSION

log = Logger()

MOST_SECONDS_TO_STOP = 3.0
"""The longest time that ports may take to close, in seconds: a little more than each of them gives its clients."""

DRAIN_GRACE = 1.0
"""Seconds after ``--drain-seconds`` for which the server waits for ports that are still draining."""

_LOSES = {
    "always": "",
    "interval": "; a power failure may lose up to a second of it (--journal-sync interval)",
    "off": "; a power failure may lose what the system has not written yet (--journal-sync off)",
}


def new_id() -> str:
    """A unique id: 96 random bits in hexadecimal."""
    return secrets.token_hex(12)


class BusService(Service):
    """A whole server: journal, registry, bus and the ports of every wire format that is on.

    :param formats: the wire formats that are installed.
    :param services: the services of the server itself that are installed.
    :param read: reads the configuration again; ``None``: it cannot be read again.
    :param threshold: the threshold of the log.
    :param process: the process of the server.
    :param place: the place of the journal; ``None``: as the configuration says.
    :param fresh_id: makes unique ids.
    :param boot: the id of this boot; ``None``: any.
    :ivar bus: the bus, once the server is started.
    :ivar further: what else is closed when the server stops, by its name in the log.
    """

    name = "bussrv"
    bus: Bus

    def __init__(
        self,
        config: Config,
        formats: Iterable[IWireFormat],
        reactor: Any,
        *,
        clock: Clock | None = None,
        services: Iterable[IHostedService] = (),
        read: Callable[[], Config] | None = None,
        threshold: Threshold | None = None,
        process: SharedProcess | None = None,
        place: NoJournal | None = None,
        fresh_id: Callable[[], str] = new_id,
        boot: str | None = None,
    ) -> None:
        self._boot = boot or secrets.token_hex(6)
        self.listeners: dict[str, IListener] = {}
        self.further: dict[str, Callable[[], Deferred[Any]]] = {}
        self._config = config
        self._read = read
        self._reload: Reload | None = None
        self._threshold = threshold or Threshold()
        self._process = process or SharedProcess()
        self._fresh_id = fresh_id
        self._installed = list(formats)
        self._formats = [each for each in self._installed if each.name in config.endpoints]
        self._services = [each for each in services if each.name in config.services]
        self._reactor = reactor
        self._clock: Clock = SystemClock() if clock is None else clock
        self._given_place = place
        self._place: JournalPlace | NoJournal = NoJournal() if place is None else place
        self._is_ready = False
        self._awaiting_ready: list[Deferred[None]] = []
        self._has_begun = False
        self._undos: list[Callable[[], object]] = []
        self._stopped: Deferred[None] | None = None
        self._stop_admin: Callable[[], Deferred[Any]] = lambda: succeed(None)
        self._discovery: HomeAssistant | None = None
        self._hurry: Deferred[None] | None = None
        self._drains = False
        self._left_open: int | None = None  # sessions that the last boot did not close

    def startService(self) -> None:
        """Replay the journal, open the ports, and close what the last boot left open.

        :raises ConfigError: has a sentence for each fault; nothing is left open then.
        :raises RuntimeError: it was started before. A server starts once.
        """
        if self._has_begun:
            raise RuntimeError("a server starts once: make another one")
        self._has_begun = True
        try:
            self._start()
        except BaseException as error:
            self._stopped = succeed(None)
            self._undo_start()
            if not isinstance(error, (JournalError, ConfigError)):
                raise
            sentences = error.sentences if isinstance(error, ConfigError) else [str(error)]
            # A start ends at the first part that cannot be used, and names the faults of all others, too.
            others = check_places(self._config, self._installed, self._reactor)
            raise ConfigError(*dict.fromkeys([*others, *sentences])) from error
        super().startService()

    def _undo_start(self) -> None:
        """Stop what was begun. Nothing was journaled yet, and nobody is connected."""
        for listener in self.listeners.values():
            maybeDeferred(listener.stopService)
        self._stop_admin()
        for undo in reversed(self._undos):
            undo()
        self._place.abandon()

    def _start(self) -> None:
        journal_config = self._config.journal_config
        if journal_config is not None and self._given_place is None:
            self._place = JournalPlace(journal_config, self._clock, self._reactor, self._config.place)
        recovered = self._place.recovered
        server_id = self._config.server_id or recovered.server or f"bussrv-{secrets.token_hex(4)}"
        boot = self._boot
        journal = self._place.open(server_id, boot)
        self._fits = self._process.fitting(self._config.settings)
        settings = self._fits.settings
        self.registry = Registry(
            journal,
            self._clock,
            self._fresh_id,
            server_id=server_id,
            boot=boot,
            state=self._place.state,
            settings=settings,
        )
        clock, reactor = self._clock, self._reactor
        self.bus = Bus(
            self.registry,
            settings,
            server_id,
            self._fresh_id,
            clock,
            reactor,
            spool=lambda counters: self._place.spool(settings, counters, clock, reactor),
        )
        self._place.count_in(self.bus.counters)
        self._undos += [self.bus.links.stop, self.bus.spool.close]
        self._refusals = Refusals(self._reactor)
        self.registry.refusal_observers.append(self._refusals.add)
        self._checkers = Checkers(self.bus.identity, self.bus, self._reactor)
        self._undos += [self._refusals.stop, self._checkers.stop]
        if self._config.journal is not None:
            self.bus.report("journal", lambda: self._place.outlook().report())
        self.bus.streams.most_connections = self._fits.most_connections
        self.registry.observe(MembershipAnnouncer(self.bus), MembershipAnnouncer.KINDS)
        journal.tell_between(self.bus.streams.outflow.hold, self.bus.streams.outflow.release)
        self._hosted = HostedServices(self._services, self.bus, journal, self._reactor)
        Presence(self.bus, self._reactor, shows_users=self._config.journal_pseudonyms is None)
        self._policy = PolicyInEffect(self.bus, self._installed)
        self._links = DialedLinks(self.bus, self._reactor)
        self._witnesses = WitnessesInEffect(self._place, self.registry, self._reactor)
        self._own_witness = OwnWitness(self._config, self.bus, self._clock, self._reactor)
        self._undos.append(self._own_witness.stop)
        self._view = AdminView(
            bus=self.bus,
            journal=journal,
            reactor=self._reactor,
            boot=boot,
            clock=self._clock,
            journal_place=self._place,
            links=self._links,
            listeners=self.listeners,
            threshold=self._threshold,
            witnesses=self._witnesses.conditions,
            witness_answers=lambda: self._own_witness.answers,
            is_draining=lambda: self._drains,
            reload=self.reload,
            drain=partial(self._process.end, partial(self.asked_to_stop, drain=True), self.stopService),
        )
        self._incidents = IncidentsInEffect(self._config, self._view, recovered, lambda: self._admin.peers)
        self._open()
        self._note_start(recovered)
        self.bus.uses.start(self._reactor)
        self._hosted.claim()
        settle_left_open(self.bus, self.listeners)
        # Earlier boots may have left sessions, such as subscribers of Inbus, with more permissions than they have now.
        self.bus.policy_changed()
        if settings.announce_discovery == "homeassistant":
            self._discovery = HomeAssistant(self.bus, self._reactor)
            self._discovery.start()
        offered = self._hosted.start()
        self._dial()
        self._incidents.start()
        self._witnesses.start()
        if self._read is not None:
            self._reload = Reload(
                self._config,
                self._read,
                formats=self._installed,
                bus=self.bus,
                links=self._links,
                threshold=self._threshold,
                parts=self._parts,
                reactor=self._reactor,
                process=self._process,
            )
        self._reactor.callWhenRunning(self._show_banner, server_id)
        # Ready: the reactor runs, so that a signal stops the server in an orderly way, and its own services are
        # offered. Over SPP, who subscribes to one before that is never answered.
        self._reactor.callWhenRunning(offered.addCallback, self._say_ready)

    def _open(self) -> None:
        """Read users and policy, make the links, and open the ports. If one of these fails, no port is opened."""
        faults: list[str] = []
        for name, why in self._hosted.not_provided.items():
            sentence = f"{self._config.place('services')}: {name} is not provided: {why}"
            if name in self._config.named_services:
                faults.append(sentence)
            else:
                self._process.say_aside(sentence)
        listeners = make_listeners(self._formats, self._config, self.bus, self._reactor, faults)
        self._admin = AdminInterface(self._config, self._view, faults)
        self._stop_admin = self._admin.stop
        # Sessions of removed users end first. So nothing is withdrawn from them one by one.
        self._parts = (
            self._checkers.prepare,
            self._policy.prepare,
            self._links.prepare_token,
            self._admin.prepare,
            self._incidents.prepare,
            self._witnesses.prepare,
            self._own_witness.prepare,
        )
        parts: list[Callable[[], Use]] = [partial(each, self._config) for each in self._parts]
        parts.append(partial(self._links.prepare, self._config.link, self._config.place("link")))
        uses = prepare_all(parts, faults)
        faults += check_endpoints(self._config, [*listeners, *([ADMIN] if self._admin.port is not None else [])])
        if faults:
            raise ConfigError(*faults)
        # Users and policy are in effect before the first client comes.
        *first, self._dial = uses
        for use in first:
            use()
        open_ports(listeners, self._config, self.listeners, faults)
        self._admin.open(self._config, faults)
        self._own_witness.open(faults)
        if faults:
            raise ConfigError(*faults)

    def _note_start(self, recovered: Recovered) -> None:
        addresses = {name: listener.address for name, listener in self.listeners.items()}
        self.registry.note(ev.ServerStarted(version=VERSION, formats=addresses, in_effect=in_effect(self.bus)))
        damage = recovered.salvaged
        if damage is not None:
            self.registry.note(ev.JournalSalvaged(segment=damage.segment, line=damage.line, message=damage.reason))
        if not recovered.stopped or recovered.torn_bytes:
            left_open = sum(not session.persistent for session in self.registry.state.sessions.values())
            self._left_open = left_open
            self.registry.note(ev.ServerRecovered(sessions_closed=left_open, torn_bytes=recovered.torn_bytes))

    def _show_banner(self, server_id: str) -> None:
        if self._stopped is not None:
            return
        python = platform.python_version()
        log.info(
            "bussrv {version}, server id {server_id} (Python {python}, Twisted {twisted}, hot path in {hot_path})",
            event="server.started",
            version=VERSION,
            server_id=server_id,
            python=python,
            twisted=twisted.__version__,
            hot_path=HOT_PATH,
        )
        for name, listener in self.ports.items():
            log.info("{protocol:>9} on {address}", event="server.listening", protocol=name, address=listener.address)
        if self._admin.dashboard is not None:
            log.info("dashboard at {url}", event="server.dashboard", url=self._admin.dashboard)
        journal = self._config.journal
        if journal is None:
            log.info("  journal is off", event="server.journal")
        else:
            log.info(
                "  journal in {journal}{loses}",
                event="server.journal",
                journal=journal,
                loses=_LOSES[self._config.journal_sync],
            )
            log.info("  journal: {outlook}", event="server.journal", outlook=self._place.outlook())
        if self._left_open is not None:
            log.warn(
                "the last boot did not stop in an orderly way: {left_open} {sessions} closed now",
                event="server.recovered",
                left_open=self._left_open,
                sessions="session is" if self._left_open == 1 else "sessions are",
            )
        self._own_witness.say()
        warn_of_fewer(self._config.settings, self._fits)
        warn_of_exposed(self.ports, self._config)
        warn_of_expiry(self.bus.streams.certificates)

    @property
    def ports(self) -> dict[str, IListener]:
        """The ports that are open, by the name of their option."""
        admin = self._admin.port
        return {**self.listeners, **({} if admin is None else {ADMIN: admin})}

    def _say_ready(self, _: object) -> None:
        if self._stopped is not None:
            return
        log.info("bussrv is ready", event="server.ready")
        self._process.ready()
        self._is_ready = True
        awaiting, self._awaiting_ready = self._awaiting_ready, []
        for each in awaiting:
            each.callback(None)

    def when_ready(self) -> Deferred[None]:
        """Wait until the services of the server itself are offered, which is the last thing of a start.

        :returns: fires then; fails with ``RuntimeError`` if the server stops before.
        """
        if self._stopped is not None:
            return fail(_stopped_early())
        if self._is_ready:
            return succeed(None)
        self._awaiting_ready.append(Deferred())
        return self._awaiting_ready[-1]

    def asked_to_stop(self, *, drain: bool) -> None:
        """Begin to stop, after a signal. A second signal ends a drain immediately.

        :param drain: whether sessions are to end one after the other.
        """
        if self._hurry is None:
            self._hurry = Deferred()
            self._drains = drain
        else:
            self._end_drain()

    def reload(self) -> Deferred[Reloaded | None]:
        """Read the configuration again, unless the server stops. :returns: fires with the outcome."""
        return self._reload.reload() if self.running and self._reload is not None else succeed(None)

    def _end_drain(self, _: object = None) -> None:
        if self._hurry is not None and not self._hurry.called:
            self._hurry.callback(None)

    async def _drain(self, hurry: Deferred[None]) -> None:
        seconds = self.bus.settings.drain_seconds
        listeners = [each for each in self.listeners.values() if IDrainedListener.providedBy(each)]
        log.info(
            "draining: sessions end within {seconds:g} s; another signal ends them at once",
            event="server.draining",
            seconds=seconds,
        )
        drained = DeferredList([each.drain(seconds) for each in listeners])
        drained.addCallback(self._end_drain)
        late = self._reactor.callLater(seconds + DRAIN_GRACE, self._end_drain)
        await hurry
        if late.active():
            late.cancel()

    async def _stop(self) -> None:
        awaiting, self._awaiting_ready = self._awaiting_ready, []
        for each in awaiting:
            each.errback(_stopped_early())
        self._process.stopping()
        if self._discovery is not None:
            self._discovery.stop()
        if self._drains and self._hurry is not None:
            await self._drain(self._hurry)
        self._checkers.stop()
        self._incidents.stop()
        await self._witnesses.stop()
        self.bus.links.stop()
        listeners = {name: listener.stopService for name, listener in reversed(tuple(self.listeners.items()))}
        links = {"link": lambda: Deferred.fromCoroutine(self._links.stop())}
        further = {**self.further, ADMIN: self._stop_admin, "witness": self._own_witness.stop}
        await self._all_stopped({**links, **listeners, **further})
        await self.bus.links.finish()
        self._hosted.stop()
        self._refusals.stop()
        await self.bus.spool.close()
        self.bus.uses.stop()
        self.registry.note(ev.ServerStopped())
        await self._place.close()
        log.info("bussrv stopped", event="server.stopped")

    async def _all_stopped(self, stops: Mapping[str, Callable[[], Deferred[Any]]]) -> None:
        """Stop ports, all at once, and wait for them within bounds: the last seal waits for no client."""
        stopping = {name: maybeDeferred(stop) for name, stop in stops.items()}
        waits = [each.addErrback(partial(self._cannot_stop, name)) for name, each in stopping.items()]
        over: Deferred[Any] = Deferred()
        late = self._reactor.callLater(MOST_SECONDS_TO_STOP, over.callback, None)
        ends: list[Deferred[Any]] = [DeferredList(waits), over]
        await DeferredList(ends, fireOnOneCallback=True)
        for name in [name for name, each in stopping.items() if not each.called]:
            log.error(
                "{protocol} did not close within {seconds:g} s; its connections are cut",
                event="server.port-not-closed",
                protocol=name,
                seconds=MOST_SECONDS_TO_STOP,
            )
        if late.active():
            late.cancel()

    @staticmethod
    def _cannot_stop(name: str, failure: Failure) -> None:
        log.failure("{protocol} failed to close", failure, event="server.port-not-closed", protocol=name)

    def stopService(self) -> Deferred[None]:
        """Close every session, then the journal. :returns: fires when that is done, however often this is called."""
        super().stopService()
        if not self._has_begun:
            return succeed(None)
        if self._stopped is None:
            # It is known to be stopping before the first step of it.
            self._stopped = Deferred()
            Deferred.fromCoroutine(self._stop()).chainDeferred(self._stopped)
        done: Deferred[None] = Deferred()
        self._stopped.addBoth(_tell, done)
        return done


def _tell(outcome: Any, waiting: Deferred[Any]) -> Any:
    """Tell another one who waits for the same outcome."""
    waiting.callback(outcome)  # a failure is passed on as one
    return None if isinstance(outcome, Failure) else outcome


def _stopped_early() -> RuntimeError:
    return RuntimeError("the server stopped before it was ready")
