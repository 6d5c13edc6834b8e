"""MQTT 5.0, for the kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, ClassVar

from bussrv.testing.conformance.adapter import (
    Adapter,
    Answered,
    Asked,
    Client,
    Confirmed,
    Login,
    Published,
    Reaction,
    Refused,
    Said,
    events_of,
)
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_5, Properties
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode

FAILURE = 0x80
"""Reason codes from here on are failures."""

REPLIES = "kit/replies"
SERVER_REPLIES = "$reply/"


class MqttClient(Client):
    """A client that uses QoS 1, without a session that outlives its connection."""

    NAMES: ClassVar[Any] = count()

    def __init__(self, login: Login | None = None) -> None:
        super().__init__(login)
        self._reader = MqttReader("server", VERSION_5)

    def join(self) -> bytes:
        """CONNECT."""
        who: dict[str, Any] = (
            {} if self.login is None else {"username": self.login.user, "password": self.login.secret.encode()}
        )
        return encode(packets.Connect(f"kit{next(self.NAMES)}", VERSION_5, **who), VERSION_5)

    def _send(self, make: Callable[..., Any], *fields: Any, properties: Properties = NO_PROPERTIES) -> bytes:
        return encode(make(next(self.numbers), *fields, properties), VERSION_5)

    def subscribe(self, service: str) -> bytes:
        """SUBSCRIBE, without one's own publications."""
        return self._send(packets.Subscribe, (packets.WantedFilter(service, 1, no_local=True),))

    def subscribe_below(self, service: str) -> bytes:
        """SUBSCRIBE to a filter."""
        return self.subscribe(f"{service}/#")

    def unsubscribe(self, service: str) -> bytes:
        """UNSUBSCRIBE."""
        return self._send(packets.Unsubscribe, (service,))

    def provide(self, service: str) -> bytes:
        """SUBSCRIBE as one that answers requests."""
        about = Properties(user_properties=(("provide", "1"),))
        return self._send(packets.Subscribe, (packets.WantedFilter(service, 1),), properties=about)

    def publish(self, service: str, payload: bytes) -> bytes:
        """PUBLISH."""
        return self._publish(service, payload, NO_PROPERTIES)

    def _publish(self, topic: str, payload: bytes, about: Properties) -> bytes:
        packet = packets.Publish(topic, payload, 1, id=next(self.numbers), properties=about)
        return encode(packet, VERSION_5)

    def ask(self, service: str, payload: bytes) -> bytes:
        """SUBSCRIBE to the replies, and PUBLISH a request."""
        about = Properties(response_topic=REPLIES, correlation_data=b"kit")
        return self.subscribe(REPLIES) + self._publish(service, payload, about)

    def answer(self, asked: Asked, payload: bytes) -> bytes:
        """PUBLISH on the topic for replies."""
        topic, _, data = asked.key.partition("\n")
        return self._publish(topic, payload, Properties(correlation_data=bytes.fromhex(data)))

    def read(self, data: bytes) -> Iterator[Said]:
        """Read packets."""
        for packet in events_of(self._reader, data):
            yield from self._said(packet)

    def _said(self, packet: packets.Packet) -> Iterator[Said]:
        if isinstance(packet, packets.Publish):
            yield self._message(packet)
            if packet.qos:
                yield Reaction(encode(packets.Puback(packet.id), VERSION_5))
        elif isinstance(packet, packets.Connack):
            yield _outcome("login", packet.code)
        elif isinstance(packet, packets.Puback):
            yield _outcome("publish", packet.code)
        elif isinstance(packet, packets.Suback):
            yield from (_outcome("subscribe", code) for code in packet.codes)
        elif isinstance(packet, packets.Unsuback):
            yield from (_outcome("unsubscribe", code) for code in packet.codes)
        elif isinstance(packet, packets.Disconnect):
            yield Refused(f"DISCONNECT {packet.code:#x}")

    @staticmethod
    def _message(packet: packets.Publish) -> Said:
        about = packet.properties
        if packet.topic == REPLIES:
            return Answered(packet.payload)
        if about.response_topic is not None and about.response_topic.startswith(SERVER_REPLIES):
            data = about.correlation_data or b""
            return Asked(packet.topic, packet.payload, f"{about.response_topic}\n{data.hex()}")
        return Published(packet.topic, packet.payload)


def _outcome(what: str, code: int) -> Confirmed | Refused:
    return Confirmed(what) if code < FAILURE else Refused(f"{what}: reason code {code:#x}")


class MqttAdapter(Adapter):
    """MQTT 5.0."""

    name = "mqtt"
    client = MqttClient
    absent: ClassVar[dict[str, str]] = {
        "provide": "Publishing on a topic makes it a service.",
        "miss": "Without a provider that takes requests, a message with a response topic is a publication.",
        "state": "A message is kept for later subscribers only if it was published with RETAIN.",
    }
