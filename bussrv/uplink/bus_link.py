"""The link of an uplink with its server: that of a linked server that dials, on asyncio.

``->`` is the uplink; see :mod:`bussrv.formats.objects.server_link`::

    -> routing/subscribe         id role:"server" routing-id subscriptions:["*"] directory interest route [token]
    <- routing/subscribe/reply, then the server subscribes, too
    -> routing/subscribe/reply
    <> objects, advertisements, and what each wants
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from bussrv.errors import RemoteProtocolError
from bussrv.wire.objects import MAX_METADATA, BadObject, BusObject, ObjectReader, encode

log = logging.getLogger(__name__)

FAREWELL = "abboe/close/notify"

MOST_UNSENT = 64 << 20
"""The most bytes that wait for the server. Beyond it, frames are dropped, and count as lost."""

_SUBSCRIBE = "routing/subscribe"


class LinkRefused(Exception):
    """The server refuses the link.

    :ivar reason: a code of :data:`bussrv.errors.REASONS`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason


class BusLink(asyncio.Protocol):
    """One connection to the server.

    :param node: the routing id of the net.
    :param token: proves to the server who this is; ``None``: nothing does.
    :param max_payload: the most bytes of the payload of an object.
    :ivar server: done with the routing id of the server when the link stands; fails with :exc:`LinkRefused` or
        :exc:`ConnectionError`.
    :ivar gone: done when the connection is gone, with the reason.
    """

    def __init__(self, node: str, token: str | None, max_payload: int) -> None:
        loop = asyncio.get_running_loop()
        self.server: asyncio.Future[str] = loop.create_future()
        self.gone: asyncio.Future[str] = loop.create_future()
        self._node = node
        self._token = token
        self._reader = ObjectReader(MAX_METADATA, max_payload)
        self._reader.expect_server()
        self._received: Callable[[list[BusObject]], None] | None = None
        self._done: Callable[[], None] = lambda: None
        self._early: list[BusObject] = []
        self._why = ""
        self._transport: Any = None

    def serve(self, received: Callable[[list[BusObject]], None], done: Callable[[], None]) -> None:
        """From now on give objects to ``received``, and call ``done`` after those of each chunk."""
        self._received, self._done = received, done
        early, self._early = self._early, []
        received(early)
        done()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Subscribe."""
        self._transport = transport
        fields = {
            "event": _SUBSCRIBE,
            "id": "uplink",
            "role": "server",
            "routing-id": self._node,
            "subscriptions": ["*"],
            "directory": True,
            "interest": True,
            "route": [self._node],
        }
        if self._token is not None:
            fields["token"] = self._token
        self.send([encode(fields)])

    def data_received(self, data: bytes) -> None:
        """Objects, or parts of them, came."""
        reader = self._reader
        try:
            reader.feed(data)
            while True:
                objs = list(reader.batch())
                if not objs:
                    event = reader.next_event()
                    if event is None:
                        break
                    if isinstance(event, BadObject):
                        log.warning("the server sent an object that is not sound: %s", event.message)
                        continue
                    objs = [event]
                self._take(objs)
        except RemoteProtocolError as error:
            self.end(f"the server sent something malformed: {error.message}")
            return
        self._done()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server, or this program, has closed the connection."""
        why = self._why or ("the server closed the connection" if exc is None else f"the connection broke: {exc}")
        if not self.server.done():
            self.server.set_exception(ConnectionError(why))
        if not self.gone.done():
            self.gone.set_result(why)

    # The link.

    def _take(self, objs: list[BusObject]) -> None:
        if self._received is not None:
            self._received(objs)
            return
        for obj in objs:
            if self.server.done():
                self._early.append(obj)
            else:
                self._join(obj)

    def _join(self, obj: BusObject) -> None:
        """The server says whether the link stands."""
        fields = obj.fields()
        if obj.head.event == "error":
            self.server.set_exception(LinkRefused(str(fields.get("reason")), str(fields.get("message"))))
            self.end("the server refused the link")
        elif obj.head.event == _SUBSCRIBE:
            server = fields.get("routing-id")
            if fields.get("role") != "server" or not isinstance(server, str) or fields.get("directory") is not True:
                self.server.set_exception(LinkRefused("link-refused", "what was dialed is no bussrv server"))
                self.end("what was dialed is no bussrv server")
                return
            about: dict[str, Any] = {"in-reply-to": fields.get("id"), "routing-id": server, "routing-ids": []}
            self.send([encode({"event": f"{_SUBSCRIBE}/reply", **about})])
            self.server.set_result(server)

    def send(self, data: list[bytes]) -> None:
        """Send bytes of whole objects."""
        if data and not self._transport.is_closing():
            self._transport.write(data[0] if len(data) == 1 else b"".join(data))

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the server that nothing more should."""
        return bool(self._transport.get_write_buffer_size() > MOST_UNSENT)

    def end(self, why: str, farewell: str | None = None) -> None:
        """Close the connection.

        :param farewell: the reason that the server is told.
        """
        self._why = self._why or why
        if farewell is not None:
            self.send([encode({"event": FAREWELL, "reason": farewell, "route": [self._node]})])
        self._transport.close()
