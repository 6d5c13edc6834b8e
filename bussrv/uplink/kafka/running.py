"""Runs the parts of an uplink until one of them fails, or the program is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Any

from aiokafka.errors import KafkaError

from bussrv.addresses import format_address
from bussrv.errors import ConfigError
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka.events import Destination, EventsFigures, EventsSender
from bussrv.uplink.kafka.sealed import SealedJournal
from bussrv.uplink.kafka.settings import Settings, settings_of
from bussrv.uplink.lines import Lines

STOP_SECONDS = 10.0
"""The time that the parts have to finish what they are doing when the program is told to stop."""

Job = Callable[[], Awaitable[None]]


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
    figures, log = Figures(), Lines(settings.log_as_json)
    with ExitStack() as stack:
        if settings.metrics is not None:
            host, port = settings.metrics
            try:
                bound = stack.enter_context(figures.served(host, port))
            except OSError as error:
                raise ConfigError(f"--metrics {format_address(host, port)}: {error.strerror}") from error
            log.info("uplink: metrics on {address}", event="uplink.metrics", address=format_address(host, bound))
        try:
            asyncio.run(_run(settings, figures, log))
        finally:
            log.info("uplink: stopped: {figures}", event="uplink.stopped", figures=figures.summary())


async def _run(settings: Settings, figures: Figures, log: Lines) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(_pass_over_failures)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    jobs: list[Job] = []
    events = settings.events
    if events is not None:
        journal = SealedJournal(events.journal, skips_missing=events.from_oldest)
        to = Destination(settings.cluster, events.topic, events.max_bytes)
        jobs.append(EventsSender(to, journal, EventsFigures.of(figures), log, stop, from_oldest=events.from_oldest).run)
    await run_jobs(jobs, stop)


def _pass_over_failures(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log no failures of batches that nobody waits for any more: the log says why once."""
    if not isinstance(context.get("exception"), KafkaError):
        loop.default_exception_handler(context)


async def run_jobs(jobs: Sequence[Job], stop: asyncio.Event, patience: float = STOP_SECONDS) -> None:
    """Run jobs until one of them fails, or ``stop`` is set and all of them are done.

    :param patience: the seconds that they have after that. Then they are cancelled.
    :raises Exception: the error of the first job that failed.
    """
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.wait(tasks, timeout=patience)
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        outcomes = await asyncio.gather(*tasks, stopping, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
