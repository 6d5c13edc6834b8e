"""A client of MQTT in memory."""

from __future__ import annotations

from typing import Any

from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_3_1_1, VERSION_5, Packet, Properties, WantedFilter
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode
from tests.formats.network import Connection, Network

VERSIONS = (VERSION_3_1_1, VERSION_5)


class MqttPeer:
    """:ivar answer: to CONNECT; ``None``: none was sent.
    :ivar rest: what came right after it.
    """

    def __init__(
        self,
        network: Network,
        client_id: str = "ann",
        version: int = VERSION_5,
        *,
        host: str = "10.0.0.1",
        **asked: Any,
    ) -> None:
        self.connection: Connection = network.connect("mqtt", host)
        self.version = version
        self._reader = MqttReader("server", version)
        self.send(packets.Connect(client_id, version, **asked))
        first = self.received()
        self.answer = first[0] if first else None
        self.rest = first[1:]

    @property
    def session_id(self) -> str:
        return self.connection.protocol.session_id

    @property
    def is_open(self) -> bool:
        return self.connection.is_open

    def send(self, packet: Packet) -> None:
        self.connection.send_bytes(encode(packet, self.version))

    def received(self) -> list[Packet]:
        """Everything since the last time."""
        self._reader.feed(self.connection.take())
        found: list[Packet] = []
        while (packet := self._reader.next_event()) is not None:
            found.append(packet)
        return found

    def messages(self) -> list[tuple[str, bytes]]:
        return [(each.topic, each.payload) for each in self.received() if isinstance(each, packets.Publish)]

    def subscribe(self, *filters: str | WantedFilter, packet_id: int = 1, number: int = 0) -> list[Packet]:
        """:param number: the subscription identifier."""
        wanted = tuple(WantedFilter(each) if isinstance(each, str) else each for each in filters)
        properties = Properties(subscription_identifiers=(number,)) if number else packets.NO_PROPERTIES
        self.send(packets.Subscribe(packet_id, wanted, properties))
        return self.received()

    def publish(self, topic: str, payload: bytes = b"x", qos: int = 0, **more: Any) -> list[Packet]:
        self.send(packets.Publish(topic, payload, qos, id=7 if qos else 0, **more))
        return self.received()
