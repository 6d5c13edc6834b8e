"""The program of an uplink to NATS: it keeps the link with its server, and the connection to the engine."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from functools import partial

from bussrv.uplink.bus_connection import BusConnection
from bussrv.uplink.crossing.server_link import LinkRefused
from bussrv.uplink.nats.connection import Connection
from bussrv.uplink.nats.session import Session
from bussrv.uplink.settings import Settings

log = logging.getLogger(__name__)

FIRST_DELAY = 0.2
LONGEST_DELAY = 10.0
"""Seconds between attempts to link; they grow, and are jittered."""

STOPPED = "server-stopped"
"""The reason that the server is told when the uplink stops."""

_HANDSHAKE = 30.0


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    :raises OSError, ValueError: a file of the settings cannot be used.
    """
    loop = asyncio.get_running_loop()
    serving = loop.create_task(_serve(settings))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        log.info("stopped")


async def _serve(settings: Settings) -> None:
    connection = await _connected(settings)
    try:
        await _keep_linked(settings, connection)
    finally:
        await connection.close()


async def _connected(settings: Settings) -> Connection:
    connection = Connection()
    where = ", ".join(settings.urls)

    async def failed(error: Exception) -> None:
        log.warning("engine: %s", str(error) or type(error).__name__)

    async def lost() -> None:
        log.warning("the engine is away: nothing crosses until it is back")

    async def back() -> None:
        log.info("the engine is back")

    log.info("connecting to %s", where)
    await connection.connect(
        list(settings.urls),
        name=f"bussrv uplink {settings.net}",
        error_cb=failed,
        disconnected_cb=lost,
        reconnected_cb=back,
        no_echo=True,
        max_reconnect_attempts=-1,
        reconnect_time_wait=1,
        tls=None if settings.tls is None else settings.tls.context(),
        user_credentials=None if settings.credentials is None else str(settings.credentials),
    )
    log.info("connected to the engine")
    return connection


async def _keep_linked(settings: Settings, connection: Connection) -> None:
    """Link with the server, again whenever the link is lost."""
    failures = 0
    while True:
        try:
            link = await _linked(settings)
        except (OSError, LinkRefused, TimeoutError) as error:
            failures += 1
            log.warning("no link with %s: %s", settings.bus, str(error) or "it did not answer in time")
        else:
            failures = 0
            await _session(link, connection, settings)
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures, 10))
        await asyncio.sleep(delay * random.uniform(0.5, 1.0))


async def _session(link: BusConnection, connection: Connection, settings: Settings) -> None:
    server = link.server.result()
    log.info("linked with server %s: it is on the net %s", server, settings.net)
    try:
        why = await Session(link, server, connection, settings).run()
    except asyncio.CancelledError:
        link.end("the uplink stops", STOPPED)
        raise
    log.warning("the link with server %s is gone: %s", server, why)


async def _linked(settings: Settings) -> BusConnection:
    """:raises OSError, LinkRefused, TimeoutError: there is no link."""
    loop = asyncio.get_running_loop()
    bus = settings.bus
    token = None if settings.token_file is None else settings.token_file.read_text().strip()
    make = partial(BusConnection, settings.node, token, settings.max_payload)
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
