"""Runs the parts of an uplink until one of them fails, or the program is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from functools import partial
from typing import Any

from aiokafka.errors import KafkaError

from bussrv.client.events import Down, State, Up
from bussrv.errors import BussrvError
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka.events import Destination, EventsFigures, EventsSender
from bussrv.uplink.kafka.incoming import Incoming, IncomingFigures
from bussrv.uplink.kafka.outgoing import Outgoing, OutgoingFigures
from bussrv.uplink.kafka.sealed import SealedJournal
from bussrv.uplink.kafka.settings import Events, Publications, Settings, settings_of
from bussrv.uplink.lines import Lines
from bussrv.uplink.reporting import reported
from bussrv.uplink.stopping import Job, UplinkError, or_stopped, run_jobs


def run(url: str, **options: Any) -> None:
    """Run an uplink until SIGTERM or Ctrl-C.

    :param url: of the cluster.
    :param options: those of ``bussrv uplink``, by name.
    :raises ConfigError: the URL or an option cannot be used.
    :raises BussrvError: it cannot go on: one sentence.
    """
    settings = settings_of(url, **options)
    # Its lines repeat at every attempt, and the uplink says the same in one.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    with reported(settings.metrics, as_json=settings.log_as_json) as (figures, log):
        asyncio.run(_Running(settings, figures, log).run())


class _Running:
    """The parts of an uplink."""

    def __init__(self, settings: Settings, figures: Figures, log: Lines) -> None:
        self._settings = settings
        self._figures = figures
        self._log = log
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until ``stop`` is set, or a part fails."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_pass_over_failures)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        jobs: list[Job] = []
        if self._settings.events is not None:
            jobs.append(self._events(self._settings.events).run)
        if self._settings.publications is not None:
            jobs.append(partial(self._publications, self._settings.publications))
        await run_jobs(jobs, self._stop)

    def _events(self, wanted: Events) -> EventsSender:
        journal = SealedJournal(wanted.journal, skips_missing=wanted.from_oldest)
        to = Destination(self._settings.cluster, wanted.topic, self._settings.max_bytes)
        figures = EventsFigures(self._figures)
        return EventsSender(to, journal, figures, self._log, self._stop, from_oldest=wanted.from_oldest)

    async def _publications(self, asked: Publications) -> None:
        states = _BusStates(self._log)
        bus = asked.bus(states.observe)
        try:
            if await or_stopped(bus.__aenter__(), self._stop) is None:
                return
        except BussrvError as error:
            raise UplinkError(f"the server does not take the uplink: {error}") from error
        try:
            await run_jobs([partial(part.run, bus) for part in self._directions(asked)], self._stop)
        except BussrvError as error:
            if states.end is not None:
                raise UplinkError(f"the server does not take the uplink any more: {states.end}") from error
            raise
        finally:
            await bus.close()

    def _directions(self, asked: Publications) -> list[Outgoing | Incoming]:
        cluster, wanted, log, stop = self._settings.cluster, asked.wanted, self._log, self._stop
        found: list[Outgoing | Incoming] = []
        if asked.out:
            figures = OutgoingFigures(self._figures)
            found.append(Outgoing(cluster, wanted, figures, log, stop, max_bytes=self._settings.max_bytes))
        if asked.inward:
            found.append(Incoming(cluster, wanted, IncomingFigures(self._figures), log, stop))
        return found


class _BusStates:
    """The states of the connection to the server.

    :ivar end: why the client does not try again; ``None``: it does.
    """

    def __init__(self, log: Lines) -> None:
        self.end: str | None = None
        self._log = log
        self._is_lost = False

    def observe(self, state: State) -> None:
        """Log that the server is lost, once, and that it is back."""
        if isinstance(state, Down):
            if state.retry_in is None:
                self.end = state.message
            elif not self._is_lost:
                self._is_lost = True
                self._log.warn(
                    "uplink: the server is lost, and tried again after pauses: {why}",
                    event="uplink.bus-lost",
                    why=state.message,
                )
        elif isinstance(state, Up):
            self._is_lost = False
            self._log.info("uplink: connected to the server at {address}", event="uplink.bus-up", address=state.address)


def _pass_over_failures(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log no failures of batches that nobody waits for any more: the log says why once."""
    if not isinstance(context.get("exception"), KafkaError):
        loop.default_exception_handler(context)
