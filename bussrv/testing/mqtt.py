"""A client of MQTT in memory, packet by packet."""

from __future__ import annotations

from typing import Any, Protocol

from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Packet, Properties, WantedFilter
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode


class ByteConnection(Protocol):
    """A connection in memory, such as :class:`bussrv.testing.memory.Connection`."""

    @property
    def is_open(self) -> bool:
        """Whether it stands."""

    def send(self, data: bytes) -> None:
        """Send bytes."""

    def take(self) -> bytes:
        """What came since the last time."""


class MqttClient:
    """A client that is connected when it is made.

    :param version: 4 is MQTT 3.1.1, 5 is MQTT 5.0.
    :param asked: further fields of :class:`bussrv.wire.mqtt.packets.Connect`.
    :ivar connection: the connection.
    :ivar answer: the answer to CONNECT; ``None``: there was none.
    :ivar rest: what came directly after it.
    """

    def __init__(
        self, connection: ByteConnection, client_id: str = "ann", version: int = VERSION_5, **asked: Any
    ) -> None:
        self.connection = connection
        self.version = version
        self._reader = MqttReader("server", version)
        self.send(packets.Connect(client_id, version, **asked))
        first = self.received()
        self.answer = first[0] if first else None
        self.rest = first[1:]

    @property
    def is_open(self) -> bool:
        """Whether the connection stands."""
        return self.connection.is_open

    def send(self, packet: Packet) -> None:
        """Send a packet."""
        self.connection.send(encode(packet, self.version))

    def received(self) -> list[Packet]:
        """Every packet since the last time."""
        self._reader.feed(self.connection.take())
        found: list[Packet] = []
        while (packet := self._reader.next_event()) is not None:
            found.append(packet)
        return found

    def messages(self) -> list[tuple[str, bytes]]:
        """The topic and the payload of every message since the last time."""
        return [(each.topic, each.payload) for each in self.received() if isinstance(each, packets.Publish)]

    def subscribe(self, *filters: str | WantedFilter, packet_id: int = 1, number: int = 0) -> list[Packet]:
        """Subscribe. :returns: what came then.

        :param number: the subscription identifier.
        """
        wanted = tuple(WantedFilter(each) if isinstance(each, str) else each for each in filters)
        properties = Properties(subscription_identifiers=(number,)) if number else packets.NO_PROPERTIES
        self.send(packets.Subscribe(packet_id, wanted, properties))
        return self.received()

    def publish(self, topic: str, payload: bytes = b"x", qos: int = 0, **more: Any) -> list[Packet]:
        """Publish. :returns: what came then."""
        self.send(packets.Publish(topic, payload, qos, id=7 if qos else 0, **more))
        return self.received()
