"""A board of readings: sensors publish over MQTT or Inbus, and a web page shows the last reading of each.

The program has its own port, for the web page. The bus inside has the ports of the sensors, the registry and the
journal. Both are services of one application, and a client in the process joins them.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from twisted.application.internet import StreamServerEndpointService
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import Request as WebRequest
from twisted.web.server import Site

from bussrv.client.errors import ServiceError
from bussrv.client.events import Gap, Message, Request
from bussrv.embedding.client import Client
from bussrv.embedding.service import EmbeddedServer, make_service

READINGS = "readings/"

log = Logger()


class Board:
    """The last reading of each sensor. It knows nothing of sockets: tests give it a client of a server in memory.

    :ivar readings: the readings, by the name of their sensor.
    """

    def __init__(self) -> None:
        self.readings: dict[str, float] = {}

    async def join(self, client: Client) -> None:
        """Follow all sensors, and answer who asks for the warmest."""
        await client.subscribe(f"{READINGS}#", call=self.heard)
        await client.serve("board/warmest", self.warmest)

    def heard(self, event: Message | Gap) -> None:
        """A sensor published something."""
        if isinstance(event, Message):
            try:
                self.readings[event.service.removeprefix(READINGS)] = float(event.payload)
            except ValueError:
                log.warn("{sensor} says no number", sensor=event.service)

    def warmest(self, request: Request) -> str:
        """The name of the warmest sensor."""
        if not self.readings:
            raise ServiceError("no-readings", "no sensor has said anything yet")
        return max(self.readings, key=lambda name: self.readings[name])


class Page(Resource):
    """The web page."""

    isLeaf = True  # noqa: N815 - the name that Twisted asks for

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board

    def render_GET(self, request: WebRequest) -> bytes:  # noqa: N802 - the name that Twisted asks for
        """The table of readings."""
        rows = "".join(
            f"<tr><td>{escape(name)}<td>{reading:g}" for name, reading in sorted(self._board.readings.items())
        )
        return f"<!doctype html><title>Readings</title><table>{rows}</table>\n".encode()


class Membership(Service):
    """Joins the board to the bus."""

    def __init__(self, board: Board, bus: EmbeddedServer) -> None:
        self._board = board
        self._bus = bus

    def startService(self) -> None:
        """Join. The bus has been started before, because it was added before."""
        super().startService()
        Deferred.fromCoroutine(self._join()).addErrback(lambda failure: log.failure("the board cannot join", failure))

    async def _join(self) -> None:
        await self._board.join(await self._bus.client(name="board"))


class Program(MultiService):
    """The whole program.

    :param settings: those of the bus.
    :param web: the endpoint of the web page.
    :ivar bus: the bus inside.
    """

    def __init__(self, settings: Mapping[str, Any], web: str, reactor: Any) -> None:
        super().__init__()
        board = Board()
        self.bus = make_service(settings, reactor)
        self.bus.setServiceParent(self)
        Membership(board, self.bus).setServiceParent(self)
        site = Site(Page(board), reactor=reactor)
        StreamServerEndpointService(serverFromString(reactor, web), site).setServiceParent(self)
