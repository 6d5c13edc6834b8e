"""The connection of an uplink to its server, on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bussrv.errors import RemoteProtocolError
from bussrv.uplink.crossing.server_link import Limits, LinkRefused, ServerLink
from bussrv.wire.objects import BusObject

MOST_UNSENT = 64 << 20
"""The most bytes that wait for the server. Beyond it, frames are dropped, and count as lost."""


class BusConnection(asyncio.Protocol):
    """One connection to the server.

    :param node: the routing id of the net.
    :param token: proves to the server who this is; ``None``: nothing does.
    :param max_payload: the most bytes of the payload of an object.
    :ivar server: done with the routing id of the server when the link stands; fails with :exc:`LinkRefused` or
        :exc:`ConnectionError`.
    :ivar understood: what the server may be told; see :class:`bussrv.uplink.crossing.server_link.ILinked`.
    :ivar limits: its limits of objects.
    :ivar gone: done when the connection is gone, with the reason.
    """

    def __init__(self, node: str, token: str | None, max_payload: int) -> None:
        loop = asyncio.get_running_loop()
        self.server: asyncio.Future[str] = loop.create_future()
        self.gone: asyncio.Future[str] = loop.create_future()
        self._link = ServerLink(node, max_payload, self)
        self.understood: frozenset[str] = frozenset()
        self.limits = Limits()
        self._token = token
        self._early: list[BusObject] = []
        self._give: Callable[[list[BusObject]], None] = self._early.extend
        self._done: Callable[[], None] = lambda: None
        self._why = ""
        self._transport: Any = None

    def serve(self, received: Callable[[list[BusObject]], None], done: Callable[[], None]) -> None:
        """From now on give objects to ``received``, and call ``done`` after those of each chunk."""
        self._give, self._done = received, done
        received(self._early)
        done()

    def linked(self, server: str, understood: frozenset[str], limits: Limits) -> None:
        """The link stands."""
        self.understood, self.limits = understood, limits
        self.server.set_result(server)

    def received(self, objs: list[BusObject]) -> None:
        """The server sent objects."""
        self._give(objs)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Subscribe."""
        self._transport = transport
        self.send([self._link.greeting(self._token)])

    def data_received(self, data: bytes) -> None:
        """Objects, or parts of them, came."""
        try:
            answer = self._link.feed(data)
        except LinkRefused as refusal:
            self._refuse(refusal)
        except RemoteProtocolError as error:
            self._refuse(LinkRefused(error.reason, error.message))
        else:
            self.send([answer] if answer else [])
            self._done()

    def _refuse(self, refusal: LinkRefused) -> None:
        if not self.server.done():
            self.server.set_exception(refusal)
        self.end(str(refusal))

    def connection_lost(self, exc: Exception | None) -> None:
        """The server, or this program, has closed the connection."""
        why = self._why or ("the server closed the connection" if exc is None else f"the connection broke: {exc}")
        if not self.server.done():
            self.server.set_exception(ConnectionError(why))
        if not self.gone.done():
            self.gone.set_result(why)

    def send(self, data: list[bytes]) -> None:
        """Send bytes of whole objects."""
        if data and not self._transport.is_closing():
            self._transport.write(data[0] if len(data) == 1 else b"".join(data))

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the server that nothing more should."""
        return bool(self._transport.get_write_buffer_size() > MOST_UNSENT)

    def end(self, why: str, farewell: str | None = None) -> None:
        """Close the connection, after everything that was sent.

        :param farewell: the reason that the server is told.
        """
        self._why = self._why or why
        if farewell is not None:
            self.send([self._link.farewell(farewell)])
        self._transport.close()
