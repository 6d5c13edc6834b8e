"""Messages that a client publishes. Each topic is a service that the client provides from its first message on.

A session provides at most ``--max-services`` topics. For a further one it gives up that on which it has not published
for longest: what is retained there stays. The topics end with the session.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from twisted.internet.defer import Deferred

from bussrv.errors import Refused
from bussrv.formats.mqtt.answering import REPLIES
from bussrv.formats.mqtt.attributes import content_type_of
from bussrv.formats.mqtt.connection import MqttConnection
from bussrv.formats.mqtt.encoding import Sent
from bussrv.formats.mqtt.requests import Requests
from bussrv.values import OCTET_STREAM, Publication
from bussrv.wire.mqtt.packets import (
    NO_PROPERTIES,
    VERSION_5,
    Acknowledgement,
    Properties,
    Puback,
    Publish,
    Pubrec,
    Will,
)
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import encode

MOST_ALIASES = 64
"""The topic aliases that a client may use."""

MOST_INCOMING = 64
"""The messages of QoS 2 that a client may have begun and not ended."""

CODES = {
    "not-allowed": ReasonCode.NOT_AUTHORIZED,
    "not-authenticated": ReasonCode.NOT_AUTHORIZED,
    "bad-service-name": ReasonCode.TOPIC_INVALID,
    "reserved-name": ReasonCode.TOPIC_INVALID,
    "too-many-services": ReasonCode.QUOTA_EXCEEDED,
    "too-many-services-in-all": ReasonCode.QUOTA_EXCEEDED,
    "spool-full": ReasonCode.QUOTA_EXCEEDED,
}
"""The reason code for each reason for which a message is refused."""

_PASSED_ON = ("payload_format_indicator", "content_type", "response_topic", "correlation_data", "user_properties")


class Publishing:
    """The messages of one client.

    :param requests: serves those of them that are requests or answers.
    :ivar unended: the identifiers of messages of QoS 2 that the client has not ended by PUBREL.
    """

    def __init__(self, connection: MqttConnection, requests: Requests) -> None:
        self._connection = connection
        self._requests = requests
        self._bus = connection.bus
        self._aliases: dict[int, str] = {}
        self._topics: OrderedDict[str, None] = OrderedDict()
        self.unended: set[int] = set()

    def receive(self, packet: Publish) -> None:
        """A client published a message."""
        connection = self._connection
        topic = self._topic_of(packet)
        if topic is None:
            connection.fail(ReasonCode.TOPIC_ALIAS_INVALID, "bad-topic-alias")
        elif packet.qos == 2 and packet.id in self.unended:
            self._answer(packet, ReasonCode.SUCCESS)
        elif packet.qos == 2 and len(self.unended) >= MOST_INCOMING:
            connection.fail(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "protocol-error")
        elif packet.properties is not NO_PROPERTIES and (code := self._requests.take(topic, packet)) is not None:
            self._answer(packet, code)
        elif not self._bus.may(connection.session_id, "publish", topic):
            self._answer(packet, ReasonCode.NOT_AUTHORIZED)
        elif self._bus.registry.state.provides(connection.session_id, topic):
            if topic in self._topics:
                self._topics.move_to_end(topic)
            run = connection.take_alike(packet) if packet.qos < 2 else [packet]
            if len(run) > 1:
                self._give_run(topic, run)
                return
            result, kept = self._give(topic, packet)
            if kept is None:
                self._answer(packet, result)
            else:
                connection.busy_with(self._answer_when(kept, packet, result))
        else:
            connection.busy_with(self._publish_anew(topic, packet))

    def _topic_of(self, packet: Publish) -> str | None:
        """The topic of a message; ``None``: its alias stands for none."""
        alias = packet.properties.topic_alias
        if alias is None:
            return packet.topic
        if not 0 < alias <= MOST_ALIASES:
            return None
        if packet.topic:
            self._aliases[alias] = packet.topic
        return self._aliases.get(alias)

    async def _publish_anew(self, topic: str, packet: Publish) -> None:
        """The client publishes on a topic that it does not provide yet."""
        if topic.startswith(REPLIES):
            self._answer(packet, self._requests.answering.reply(topic, packet))
            return
        registry, session_id = self._bus.registry, self._connection.session_id
        try:
            while len(registry.state.provided_by(session_id)) >= self._bus.settings.max_services and self._topics:
                longest_unused, _ = self._topics.popitem(last=False)
                if not self._requests.answering.answers(longest_unused):
                    await registry.unregister_service(session_id, longest_unused)
            await registry.register_service(session_id, topic)
        except Refused as refusal:
            self._bus.counters[refusal.reason] += 1
            self._answer(packet, CODES.get(refusal.reason, ReasonCode.UNSPECIFIED_ERROR))
            return
        if self._connection.has_ended:
            return
        self._topics[topic] = None
        code, kept = self._give(topic, packet)
        await self._answer_when(kept, packet, code)

    async def _answer_when(self, kept: Deferred[Any] | None, packet: Publish, code: ReasonCode) -> None:
        """Acknowledge a message that is to outlive the server when it does."""
        try:
            if kept is not None:
                await kept
        except Refused as refusal:
            code = CODES.get(refusal.reason, ReasonCode.UNSPECIFIED_ERROR)
        self._answer(packet, code)

    def _give(self, topic: str, message: Publish | Will) -> tuple[ReasonCode, Deferred[Any] | None]:
        """Give a message to everybody who wants it.

        :returns: the reason code; and what fires when a retained message is durable, if its client waits for that.
        """
        properties = message.properties
        expires = None
        if properties is not NO_PROPERTIES:
            if properties.message_expiry_interval is not None:
                expires = self._bus.utc() + properties.message_expiry_interval * 1_000_000
            properties = Properties(**{name: getattr(properties, name) for name in _PASSED_ON})
        session_id = self._connection.session_id
        sent = Sent(session_id, message.qos, message.retain, properties, expires)
        publication = Publication(topic, content_type_of(properties), message.payload, own=sent)
        self._bus.publish(session_id, publication)
        if not message.retain:
            return ReasonCode.SUCCESS, None
        if not self._bus.retained.put(publication):
            return ReasonCode.QUOTA_EXCEEDED, None
        kept = self._connection.keep(publication)
        if kept is not None and not (isinstance(message, Publish) and message.qos):
            kept.addErrback(lambda _: None)  # The spool has counted it, and nobody is to be told.
            kept = None
        return ReasonCode.SUCCESS, kept

    def _give_run(self, topic: str, run: list[Publish]) -> None:
        """Give messages to everybody who wants them; they differ in their payloads and identifiers only."""
        connection, qos = self._connection, run[0].qos
        sent = Sent(connection.session_id, qos)
        publications = [Publication(topic, OCTET_STREAM, each.payload, own=sent) for each in run]
        self._bus.publish_many(connection.session_id, publications)
        if qos:
            connection.send([encode(Puback(each.id), connection.version) for each in run])

    def give_will(self, will: Will) -> None:
        """Publish the will of a client whose session ends."""
        self._give(will.topic, will)
        self._bus.flush()

    def _answer(self, packet: Publish, code: ReasonCode) -> None:
        """Acknowledge a message. In 3.1.1 that is all; the client is not told that it may not publish there."""
        if packet.qos == 0 or self._connection.has_ended:
            return
        told = code if self._connection.version == VERSION_5 else ReasonCode.SUCCESS
        answer: Acknowledgement = Puback(packet.id, told)
        if packet.qos == 2:
            answer = Pubrec(packet.id, told)
            if told < ReasonCode.UNSPECIFIED_ERROR:
                self.unended.add(packet.id)
        self._connection.say(answer)
