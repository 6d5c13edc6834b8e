"""The program of an uplink to NATS: it keeps the link with its server, and the connection to the engine."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from functools import partial
from typing import Any

from nats.errors import Error

from bussrv.uplink.bus_connection import BusConnection
from bussrv.uplink.crossing.server_link import LinkRefused
from bussrv.uplink.figures import Figures
from bussrv.uplink.lines import Lines, RareLines
from bussrv.uplink.nats.connection import MOST_PENDING, Connection
from bussrv.uplink.nats.kept import check_state
from bussrv.uplink.nats.session import Session, SessionFigures
from bussrv.uplink.nats.settings import Settings, settings_of
from bussrv.uplink.reporting import reported
from bussrv.uplink.retry import Retry
from bussrv.uplink.stopping import or_stopped

STOPPED = "server-stopped"
"""The reason that the server is told when the uplink stops."""

AGAIN = 1.0
"""Seconds between attempts to reach an engine that was reached before."""

STEADY = 10.0
"""Seconds that a link with the server stands until pauses are short again. Two uplinks of a server take turns."""

_HANDSHAKE = 30.0
_CONNECT = 5


def run(url: str, **options: Any) -> None:
    """Run an uplink until SIGTERM or Ctrl-C.

    :param url: some servers of the cluster.
    :param options: those of ``bussrv uplink``, by name.
    :raises ConfigError: the URL or an option cannot be used.
    """
    settings = settings_of(url, **options)
    if settings.keep.services:
        check_state(settings.keep.state)
    # Its lines repeat at every attempt, and the uplink says the same in one.
    logging.getLogger("nats").setLevel(logging.CRITICAL + 1)
    with reported(settings.metrics, as_json=settings.log_as_json) as (figures, log):
        asyncio.run(_Program(settings, figures, log).run())


class _Program:
    """Serves until SIGTERM or SIGINT."""

    def __init__(self, settings: Settings, figures: Figures, log: Lines) -> None:
        self._settings = settings
        self._log = log
        self._refusals = RareLines(log)
        self._stop = asyncio.Event()
        self._figures = SessionFigures(figures)
        self._failures = figures.counter("failures", "Failed attempts to reach the server or the engine.")

    async def run(self) -> None:
        """Reach the engine, then link with the server, again whenever the link is lost."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        await or_stopped(self._serve(), self._stop)

    async def _serve(self) -> None:
        while not self._stop.is_set():
            connection = await self._reach()
            if connection is None:
                return
            try:
                await self._keep_linked(connection)
            finally:
                await connection.close()

    def _retry(self, whom: str) -> Retry:
        return Retry(self._log, whom, self._failures, self._stop)

    async def _reach(self) -> Connection | None:
        """Connect to the engine, however long that takes. :returns: ``None``: the program is to stop."""
        where = ",".join(self._settings.engine.urls)
        retry = self._retry(f"NATS at {where}")
        while not self._stop.is_set():
            connection = Connection()
            try:
                await self._connect(connection)
            except (OSError, Error, asyncio.TimeoutError) as error:
                with suppress(OSError, Error):
                    await connection.close()
                await retry.failed(str(error) or type(error).__name__)
            else:
                retry.worked()
                return connection
        return None

    async def _connect(self, connection: Connection) -> None:
        """Connect once. Later, nats-py connects again by itself, unless NATS says why it ends the connection."""
        engine, log = self._settings.engine, self._log
        said, is_lost = "", False

        async def failed(error: Exception) -> None:
            nonlocal said, is_lost
            self._failures.inc()
            if not (is_lost or connection.is_connected or isinstance(error, Error)):
                # It tries again and again by itself, the first time, too.
                is_lost = True
                where = ",".join(engine.urls)
                trying = "uplink: NATS at {where} is lost, and tried again: {error}"
                log.warn(trying, event="uplink.lost", where=where, error=str(error) or type(error).__name__)
            if isinstance(error, Error) and str(error) != said:
                said = str(error)
                self._refusals.warn("uplink: NATS refuses something: {error}", event="uplink.engine-failed", error=said)

        async def lost() -> None:
            nonlocal is_lost
            if not (is_lost or connection.is_closed or self._stop.is_set()):
                is_lost = True
                log.warn("uplink: NATS is lost: nothing crosses until it is back", event="uplink.lost")

        async def back() -> None:
            nonlocal is_lost
            is_lost = False
            log.info("uplink: NATS is back", event="uplink.back")

        await connection.connect(
            list(engine.urls),
            name=f"bussrv uplink {self._settings.subjects.net}",
            error_cb=failed,
            disconnected_cb=lost,
            reconnected_cb=back,
            no_echo=True,
            connect_timeout=_CONNECT,
            max_reconnect_attempts=-1,
            # Beyond it nats-py would wait for NATS at each message.
            pending_size=2 * MOST_PENDING,
            reconnect_time_wait=AGAIN,  # type: ignore[arg-type]
            tls=None if engine.tls is None else engine.tls.context(),
            user=engine.user,
            password=engine.password,
            user_credentials=None if engine.credentials is None else str(engine.credentials),
        )
        if is_lost:
            await back()

    async def _keep_linked(self, connection: Connection) -> None:
        """Link with the server, again and again, as long as there is a connection to the engine."""
        retry = self._retry(f"server at {self._settings.bus}")
        while not (connection.is_closed or self._stop.is_set()):
            steady: asyncio.TimerHandle | None = None
            try:
                link = await self._link()
                steady = asyncio.get_running_loop().call_later(STEADY, retry.worked)
                why = await self._join(link, connection)
            except (OSError, LinkRefused, asyncio.TimeoutError) as error:
                why = str(error) or "it did not answer in time"
            finally:
                if steady is not None:
                    steady.cancel()
            if not connection.is_closed:
                await retry.failed(why)

    async def _join(self, link: BusConnection, connection: Connection) -> str:
        """Serve until the link is gone. :returns: why it is."""
        server, net = link.server.result(), self._settings.subjects.net
        self._log.info("uplink: server {server} is on the net {net}", event="uplink.linked", server=server, net=net)
        try:
            return await Session(link, connection, self._settings, self._figures, self._log).run()
        except asyncio.CancelledError:
            link.end("the uplink stops", STOPPED)
            raise

    async def _link(self) -> BusConnection:
        """:raises OSError, LinkRefused, asyncio.TimeoutError: there is no link."""
        loop = asyncio.get_running_loop()
        bus = self._settings.bus
        make = partial(BusConnection, self._settings.node, self._settings.token, self._settings.max_payload)
        if bus.port is None:
            _, link = await loop.create_unix_connection(make, bus.host)
        else:
            context = None if bus.tls is None else bus.tls.context()
            name = None if bus.tls is None else bus.tls.server_name or bus.host
            _, link = await loop.create_connection(make, bus.host, bus.port, ssl=context, server_hostname=name)
        try:
            await asyncio.wait_for(asyncio.shield(link.server), _HANDSHAKE)
        except BaseException:
            link.end("the link did not come about")
            raise
        return link
