"""Everything that the clients of all MQTT ports of a server have in common, client ids among them."""

from __future__ import annotations

from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from bussrv.formats.mqtt.durable.sessions import MqttSessions
from bussrv.formats.mqtt.encoding import Encodings
from bussrv.formats.mqtt.giving import Giving
from bussrv.formats.mqtt.kept import MqttRetained, MqttWills
from bussrv.plugin import IBus, Refused, Rounds, address_key

log = Logger()


class Claimant(Protocol):
    """The connection of a client that has a client id, or wants one."""

    session_id: str

    def end(self, reason: str) -> object:
        """End its session, or the connection if that outlives it."""

    def has_left(self) -> Deferred[None]:
        """:returns: fires when the connection has no session any more, and wants none."""


class Clients:
    """The clients of one server.

    :ivar encodings: of messages for them.
    :ivar rounds: what their durable sessions keep.
    :ivar retaining: keeps retained messages on the disk; ``None``: they end with the server.
    :ivar giving: gives their messages to everybody who wants them.
    :ivar durable: their durable sessions.
    :ivar wills: their wills.
    """

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self._bus = bus
        self._by_client_id: dict[str, Claimant] = {}
        self.encodings = Encodings(bus.counters, bus.utc)
        self._has_complained = False
        self.rounds = Rounds(
            bus.spool, bus.slices, reactor, flush=bus.flush, address_of=self._address_of, failed=self._not_sent
        )
        self.retaining = MqttRetained(bus) if bus.settings.mqtt_retain == "durable" else None
        self.giving = Giving(bus, self.retaining)
        is_here = self._by_client_id.__contains__
        self.wills = MqttWills(bus, reactor, self.giving.give, session_of=self._durable_id, is_here=is_here)
        self.durable = MqttSessions(bus, reactor, self.encodings, self.rounds, self.wills.session_ends)

    def _address_of(self, session_id: str) -> str:
        session = self._bus.registry.state.sessions.get(session_id)
        return "" if session is None else address_key(session.peer)

    def _not_sent(self) -> None:
        self._bus.counters["internal-error"] += 1
        if not self._has_complained:
            self._has_complained = True
            log.failure("mqtt: a message cannot be sent from a queue", event="mqtt.not-sent")

    def _durable_id(self, client_id: str) -> str | None:
        session = self.durable.of(client_id)
        return None if session is None else session.id

    def recover(self) -> None:
        """At the start of the server: take up what earlier boots left."""
        self.durable.recover()
        self.wills.recover()

    async def claim(self, client_id: str, client: Claimant) -> None:
        """A client has this client id from now on. One that is connected with it is disconnected first.

        :raises Refused: ``client-id-taken``: another user has a session with it.
        """
        former, durable = self._by_client_id.get(client_id), self.durable.of(client_id)
        owners = {self._actor(client.session_id)}
        if former is not None:
            owners.add(self._actor(former.session_id))
        if durable is not None:
            owners.add(self._actor(durable.id))
        if len(owners) > 1:
            raise Refused("client-id-taken", "another user has a session with this client id")
        self._by_client_id[client_id] = client
        if former is not None:
            former.end("session-taken-over")
            await former.has_left()

    def _actor(self, session_id: str) -> str | None:
        session = self._bus.registry.state.sessions.get(session_id)
        return None if session is None else session.actor

    def left(self, client_id: str, client: Claimant) -> None:
        """A client has gone."""
        if self._by_client_id.get(client_id) is client:
            del self._by_client_id[client_id]
