"""Clients that say a name by which they come back: which of them is connected, and whose name it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred

from bussrv.bus.interfaces import IBus
from bussrv.errors import Refused


class NamedClient(Protocol):
    """The connection of a client that has a name, or wants one.

    :ivar session_id: its session.
    """

    session_id: str

    def end(self, reason: str) -> object:
        """End its session, or the connection if that outlives it."""

    def has_left(self) -> Deferred[None]:
        """:returns: fires when the connection has no session any more, and wants none."""


class NamedClients:
    """The connected clients of one wire format, by their names.

    A name belongs to the user who used it first, for as long as there is a session with it. Otherwise anybody could
    take over the sessions of others.

    :param durable: finds the id of the durable session with a name.
    """

    def __init__(self, bus: IBus, durable: Callable[[str], str | None]) -> None:
        self._bus = bus
        self._durable = durable
        self._clients: dict[str, NamedClient] = {}

    def __contains__(self, name: object) -> bool:
        """Whether a client with a name is connected."""
        return name in self._clients

    async def claim(self, name: str, client: NamedClient) -> None:
        """A client has this name from now on. One that is connected with it is disconnected first.

        :raises Refused: ``client-id-taken``: another user has a session with it.
        """
        former = self._clients.get(name)
        sessions = client.session_id, None if former is None else former.session_id, self._durable(name)
        if len({self._actor(each) for each in sessions if each is not None}) > 1:
            raise Refused("client-id-taken", "another user has a session with this client id")
        self._clients[name] = client
        if former is not None:
            former.end("session-taken-over")
            await former.has_left()

    def _actor(self, session_id: str) -> str | None:
        session = self._bus.registry.state.sessions.get(session_id)
        return None if session is None else session.actor

    def left(self, name: str, client: NamedClient) -> None:
        """A client has gone."""
        if self._clients.get(name) is client:
            del self._clients[name]
