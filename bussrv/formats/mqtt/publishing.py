"""Messages that a client publishes. Each topic is a service that the client provides from its first message on.

A session provides at most ``--max-services`` topics. For a further one it gives up that on which it has not published
for longest: what is retained there stays. The topics end with the session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.python.failure import Failure

from bussrv.formats.mqtt.codes import code_of
from bussrv.formats.mqtt.durable.sessions import MOST_INCOMING
from bussrv.formats.mqtt.joining import MOST_ALIASES
from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.formats.mqtt.requests import REPLIES, Requests
from bussrv.plugin import Refused
from bussrv.wire.mqtt.packets import (
    NO_PROPERTIES,
    VERSION_5,
    Acknowledgement,
    PacketType,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import confirmations, encode

MOST_UNANSWERED = 1000
"""So many messages of a client may wait until they are durable. Then its later input waits, too."""

MOST_TOGETHER = 4096
"""So many messages at most are given together, or messages of QoS 1 for durable sessions, each one for each session."""


class Publishing:
    """The messages of one client.

    :param requests: serves those of them that are requests or answers.
    """

    __slots__ = ("_aliases", "_bus", "_connection", "_requests", "_topics", "_unanswered")

    def __init__(self, connection: MqttProtocol, requests: Requests) -> None:
        self._connection = connection
        self._requests = requests
        self._bus = connection.bus
        self._aliases: dict[int, str] = {}
        self._topics: OrderedDict[str, None] = OrderedDict()
        self._unanswered = 0

    def receive(self, packet: Publish) -> None:
        """A client published a message."""
        connection = self._connection
        topic = self._topic_of(packet)
        if topic is None:
            connection.fail(ReasonCode.TOPIC_ALIAS_INVALID, "bad-topic-alias")
        elif packet.qos == 2 and packet.id in connection.begun:
            again = partial(self._say_again, packet)
            self._when_durable(again, lambda _: again())
        elif packet.qos == 2 and len(connection.begun) >= MOST_INCOMING:
            connection.fail(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "protocol-error")
        elif packet.properties is not NO_PROPERTIES and (code := self._requests.take(topic, packet)) is not None:
            self._acknowledge(packet, code)
        elif not self._bus.may(connection.session_id, "publish", topic):
            self._acknowledge(packet, ReasonCode.NOT_AUTHORIZED)
        elif self._bus.registry.state.provides(connection.session_id, topic):
            if topic in self._topics:
                self._topics.move_to_end(topic)
            run = connection.take_alike(packet, self._longest_run(packet.qos))
            if len(run) == 1:
                self._acknowledge(packet, *self._give(topic, packet))
                return
            connection.clients.give_run(connection.session_id, topic, run)
            if packet.qos:
                done = partial(self._say, confirmations([each.id for each in run]))
                self._when_durable(done, partial(self._refuse, run), published=len(run))
        else:
            connection.busy_with(self._publish_anew(topic, packet))

    def _longest_run(self, qos: int) -> int:
        """So many messages may be given together: each may go into the queue of every durable session."""
        if qos == 0:
            return MOST_TOGETHER
        return max(1, MOST_TOGETHER // (1 + len(self._connection.clients.durable))) if qos == 1 else 1

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
        if topic.startswith(REPLIES):
            self._acknowledge(packet, self._requests.reply(topic, packet))
            return
        registry, session_id = self._bus.registry, self._connection.session_id
        try:
            while len(registry.state.provided_by(session_id)) >= self._bus.settings.max_services and self._topics:
                longest_unused, _ = self._topics.popitem(last=False)
                if not self._requests.answers(longest_unused):
                    await registry.unregister_service(session_id, longest_unused)
            await registry.register_service(session_id, topic)
        except Refused as refusal:
            self._bus.counters[refusal.reason] += 1
            self._acknowledge(packet, code_of(refusal.reason, PacketType.PUBACK))
            return
        if self._connection.has_ended:
            return
        self._topics[topic] = None
        self._acknowledge(packet, *self._give(topic, packet))

    def _give(self, topic: str, packet: Publish) -> tuple[ReasonCode, Deferred[Any] | None]:
        self._cut(packet)
        return self._connection.clients.give(self._connection.session_id, topic, packet)

    def _cut(self, packet: Publish) -> None:
        """A message of QoS 2 goes into queues together with its identifier; with nothing else if they are many."""
        if packet.qos == 2 and len(self._connection.clients.durable) * MOST_INCOMING > MOST_TOGETHER:
            self._connection.clients.durable.rounds.cut(self._connection.session_id)

    def _acknowledge(self, packet: Publish, code: ReasonCode, kept: Deferred[Any] | None = None) -> None:
        """Acknowledge a message, when it is in all queues that want it, and these are on the disk.

        In 3.1.1 there is no reason code; the client is not told that it may not publish there.

        :param kept: fires when a retained message is durable.
        """
        if packet.qos == 0:
            return
        if packet.qos == 2 and code < ReasonCode.UNSPECIFIED_ERROR:
            self._connection.begun.add(packet.id)
        told = code if self._connection.version == VERSION_5 else ReasonCode.SUCCESS
        done = partial(self._say, [encode(_acknowledgement(packet, told), self._connection.version)])
        self._when_durable(done, partial(self._refuse, (packet,)), kept, published=1)
        self._cut(packet)

    def _when_durable(
        self,
        done: Callable[[], None],
        failed: Callable[[str], None],
        kept: Deferred[Any] | None = None,
        published: int = 0,
    ) -> None:
        """Call ``done`` when everything that the client published is in the queues of durable sessions, or ``failed``
        with the reason.

        :param kept: fires when a retained message is durable.
        :param published: how many messages the client has published now.
        """
        rounds, durable_sessions = self._connection.clients.durable.rounds, len(self._connection.clients.durable)
        in_queues = rounds.durable(self._connection.session_id) if durable_sessions else None
        rounds.expect(published * durable_sessions)
        waits = [each for each in (kept, in_queues) if each is not None]
        if not waits:
            done()
            return
        self._unanswered += 1
        durable = gatherResults(waits, consumeErrors=True).addBoth(self._settled, done, failed)
        if kept is not None or self._unanswered >= MOST_UNANSWERED or rounds.are_many:
            self._connection.busy_until(durable)

    def _settled(self, outcome: object, done: Callable[[], None], failed: Callable[[str], None]) -> None:
        self._unanswered -= 1
        if not isinstance(outcome, Failure):
            done()
        elif isinstance(outcome.value, FirstError) and isinstance(refusal := outcome.value.subFailure.value, Refused):
            failed(refusal.reason)
        else:
            outcome.raiseException()

    def _refuse(self, packets: Sequence[Publish], reason: str) -> None:
        """Messages could not be kept. 3.1.1 cannot say that: the session ends, so that its client sends them again."""
        for each in packets:
            self._connection.begun.discard(each.id)
        self._say_unkept(packets, reason)

    def _say_unkept(self, packets: Sequence[Publish], reason: str) -> None:
        connection, code = self._connection, code_of(reason, PacketType.PUBACK)
        if not connection.has_ended and connection.version != VERSION_5:
            connection.fail(code, reason)
        elif not connection.has_ended:
            connection.send([encode(_acknowledgement(each, code), VERSION_5) for each in packets])

    def _say_again(self, packet: Publish) -> None:
        """Acknowledge a message of QoS 2 that came again. What became of it when it came first is settled by now."""
        if packet.id in self._connection.begun:
            self._say([encode(_acknowledgement(packet, ReasonCode.SUCCESS), self._connection.version)])
        else:
            self._say_unkept([packet], "spool-unavailable")

    def release(self, packet: Pubrel) -> None:
        """The client ends a message of QoS 2."""
        connection = self._connection
        is_known = packet.id in connection.begun or connection.version != VERSION_5
        connection.begun.discard(packet.id)
        answer = Pubcomp(packet.id, ReasonCode.SUCCESS if is_known else ReasonCode.PACKET_ID_NOT_FOUND)
        answered = partial(self._say, [encode(answer, connection.version)])
        self._when_durable(answered, partial(self._not_released, packet.id))

    def _not_released(self, number: int, _: str) -> None:
        """It is not kept that a message has ended. The client asks again when it is back.

        If it has begun as many others meanwhile as there may be, it is told then that this one is not known.
        """
        if len(self._connection.begun) < MOST_INCOMING:
            self._connection.begun.add(number)

    def _say(self, answers: Sequence[bytes]) -> None:
        if not self._connection.has_ended:
            self._connection.send(answers)


def _acknowledgement(packet: Publish, code: int) -> Acknowledgement:
    return Puback(packet.id, code) if packet.qos == 1 else Pubrec(packet.id, code)
