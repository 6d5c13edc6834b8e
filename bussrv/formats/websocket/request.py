"""The first request of a connection: for a WebSocket, and then its session begins, or for the script of web pages.

The script is the client for browsers, ``client.js`` in this package. A connection that asks for it opens no session and
is in no journal. Until its request is read, a connection counts as a session.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from importlib import resources
from math import ceil
from typing import Any

from bussrv.addresses import peer_text
from bussrv.plugin import IBus, OverLimit, Patience, ReceiveBuffer, limit_reached
from bussrv.wire.frames import END_OF_REQUEST, MAX_REQUEST, offered
from bussrv.wire.script import script_method, script_response


@lru_cache
def client_script() -> bytes:
    """The script. Read once, and kept in memory."""
    return resources.files(__package__).joinpath("client.js").read_bytes()


def choose_subprotocol(request: bytes, served: Collection[str]) -> str | None:
    """The subprotocol that a client likes most of those that are served; ``None``: it offers none of them.

    :param request: its first request, and whatever follows.
    """
    head = request.partition(END_OF_REQUEST)[0]
    return next((each for each in offered(head) if each in served), None)


class FirstRequest:
    """The time of a connection before its session.

    :param name: the wire format.
    :param transport: the connection.
    :param reactor: calls later.
    :param is_admitted: whether the bus has admitted the client already.
    :raises OverLimit: the client is not admitted.
    """

    def __init__(self, bus: IBus, name: str, transport: Any, reactor: Any, *, is_admitted: bool) -> None:
        self._bus = bus
        self._name = name
        self._transport = transport
        self._reactor = reactor
        self._peer = peer_text(transport.getPeer())
        self._leave = bus.expect(name, self._peer, is_admitted=is_admitted)
        self._buffer = ReceiveBuffer()
        self._is_answered = False
        self._patience = Patience(bus.settings.subscribe_timeout, self._too_late, lambda: False, reactor)

    def take(self, data: bytes) -> bytes:
        """Read a chunk. :returns: all bytes that came, once a session is to serve them; until then none."""
        if self._is_answered:
            return b""
        self._buffer.feed(data)
        length = self._buffer.find(END_OF_REQUEST, MAX_REQUEST)
        if length < 0 and len(self._buffer) < MAX_REQUEST:
            return b""
        method = None if length < 0 else script_method(self._buffer.peek(length))
        if method is None:
            return self._buffer.take(len(self._buffer))
        self._answer(method)
        return b""

    def _answer(self, method: str) -> None:
        """Send the script, and close the connection. A client that does not read it in time is cut."""
        self._is_answered = True
        self._buffer = ReceiveBuffer()
        self._bus.counters["client-script"] += 1
        self._patience.end()
        self._patience = Patience(
            self._bus.settings.close_timeout, self._transport.abortConnection, lambda: False, self._reactor
        )
        self._transport.write(script_response(method, client_script()))
        self._transport.loseConnection()

    def _too_late(self) -> None:
        reason, seconds = "subscribe-timeout", self._bus.settings.subscribe_timeout
        self._bus.counters[reason] += 1
        limit = OverLimit(reason, f"no request came within {seconds:g} s", reason, ceil(seconds))
        self._bus.registry.note_from_stranger(limit_reached(limit, protocol=self._name, peer=self._peer))
        self._transport.abortConnection()

    def no_more_comes(self) -> None:
        """The client sends no more bytes, so the request stays unfinished, or it is answered."""
        self._transport.loseConnection()

    def end(self) -> None:
        """The session begins, or the connection is gone: the client counts here no more."""
        self._patience.end()
        self._leave()
