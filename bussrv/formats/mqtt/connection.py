"""The methods of a connection of MQTT that its parts call."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from bussrv.formats.mqtt.clients import Clients
from bussrv.formats.mqtt.durable.sessions import Begun
from bussrv.formats.mqtt.encoding import MqttEncoding
from bussrv.plugin import IBus, Permissions
from bussrv.wire.mqtt.packets import Packet, Publish
from bussrv.wire.mqtt.reasons import ReasonCode


class MqttConnection(Protocol):
    """The connection of a client; see :class:`bussrv.formats.mqtt.protocol.MqttProtocol`."""

    bus: IBus
    reactor: Any
    session_id: str
    version: int

    @property
    def clients(self) -> Clients:
        """What it has in common with others."""

    @property
    def begun(self) -> Begun:
        """The identifiers of messages of QoS 2 that the client has begun and not ended."""

    def busy_until(self, done: Deferred[Any]) -> None:
        """Let the client's later input wait until ``done`` fires."""

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended."""

    def busy_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``. The client's later input waits until it is done."""

    def take_alike(self, packet: Publish, most: int) -> list[Publish]:
        """A packet, which is served now, and those after it that are alike; see :class:`MqttReader`."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send the client packets."""

    def say(self, packet: Packet) -> None:
        """Send the client a packet."""

    def fail(self, code: ReasonCode, reason: str) -> None:
        """The client did what the protocol forbids: end its session."""

    def permissions(self) -> Permissions:
        """The permissions of the session."""

    def messages(self) -> MqttEncoding:
        """Makes messages for this client alone."""

    async def until_ready(self, service: str) -> None:
        """Wait until the present state of a service can be made in little time."""

    def state_of(self, service: str) -> bytes:
        """The present state of a service of the server itself.

        :raises Refused: the service failed.
        """

    async def send_in_slices(self, frames: Iterator[bytes]) -> None:
        """Send an answer that may be long."""
