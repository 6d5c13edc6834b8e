"""Requests that a client asks, by messages with a Response Topic. Source: MQTT 5.0, section 4.10.

::

    -> PUBLISH    T, Response Topic R, Correlation Data C             ``services/request``, ``name`` T
    <- PUBLISH    R, Correlation Data C                               ``services/reply``
    <- PUBLISH    R, Correlation Data C, user property error          ``error``: the property is its ``reason``

A message is a request if some provider of its service takes requests. Otherwise it is a publication, as every message
to subscribers who answer by themselves. So is a message that is to be retained.

The client is given one answer to each request: the first reply, or an error if there is none in time. It is a message
for this client alone, whoever else is subscribed to R.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bussrv.formats.mqtt.attributes import ERROR, attributes_of, is_text, pairs_of
from bussrv.formats.mqtt.codes import code_of
from bussrv.formats.mqtt.encoding import FOREIGN, Sent
from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.formats.mqtt.requests.answering import REPLIES, Answering
from bussrv.plugin import (
    OCTET_STREAM,
    REASONS,
    REQUEST,
    UTF8_TEXT,
    BusObject,
    Delivery,
    OverLimit,
    Publication,
    Refused,
    decode_fields,
    encode_metadata,
    limit_reached,
    quoted,
    read_head,
)
from bussrv.wire.mqtt.packets import PacketType, Properties, Publish
from bussrv.wire.mqtt.reasons import ReasonCode

MOST_KEPT = 512
"""The most bytes of the Response Topic and the Correlation Data of a request together: they are kept until it is
answered."""


class Asked(Struct, frozen=True, gc=False):
    """An open request.

    :ivar topic: its response topic.
    :ivar correlation: its Correlation Data; ``None``: it has none.
    :ivar when: when it was made, in seconds.
    """

    topic: str
    correlation: bytes | None
    when: float


class Requests:
    """The requests of one client.

    :ivar answering: those that it answers.
    """

    __slots__ = ("_asked", "_bus", "_connection", "_made", "_timer", "answering")

    def __init__(self, connection: MqttProtocol) -> None:
        self._connection = connection
        self._bus = connection.bus
        self.answering = Answering(connection, self._as_publication)
        self._asked: dict[str, Asked] = {}  # the oldest first
        self._made = 0
        self._timer: Any = None

    def take(self, topic: str, packet: Publish) -> ReasonCode | None:
        """Serve a message with properties, if it is a request or an answer.

        :returns: the reason code; ``None``: it is neither.
        """
        if topic.startswith(REPLIES):
            return self.answering.reply(topic, packet)
        properties, session_id = packet.properties, self._connection.session_id
        if properties.response_topic is None or packet.retain:
            return None
        hosted_type = self._bus.hosted_type(topic)
        if hosted_type is not None and not self._connection.permissions().may("request", topic):
            return None
        if hosted_type is None and not self._bus.takes_requests(session_id, topic):
            return None
        return self._ask(topic, packet, hosted_type, properties.response_topic)

    def _ask(self, topic: str, packet: Publish, hosted_type: str | None, response_topic: str) -> ReasonCode:
        bus, session_id, correlation = self._bus, self._connection.session_id, packet.properties.correlation_data
        if not bus.exchanges.is_subscribed(session_id, response_topic):
            bus.counters["mqtt-unheard"] += 1
            return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        asked = Asked(response_topic, correlation, self._connection.reactor.seconds())
        if len(response_topic.encode()) + len(correlation or b"") > MOST_KEPT:
            reason = "correlation-too-long"
            return self._refuse(asked, reason, REASONS[reason])
        if hosted_type is not None:
            self._connection.busy_with(self._tell_state(asked, topic, hosted_type))
            return ReasonCode.SUCCESS
        self._made += 1
        request_id = f"{session_id}-{self._made}"
        fields = {"event": REQUEST, "name": topic, "id": request_id, **attributes_of(packet.properties, packet.payload)}
        metadata = encode_metadata(fields, packet.payload)
        if len(metadata) > bus.settings.max_metadata:
            reason = "metadata-too-large"
            return self._refuse(asked, reason, REASONS[reason])
        bus.exchanges.begin(session_id, self._as_publication)
        self._remember(request_id, asked)
        try:
            if bus.route(session_id, BusObject(metadata, read_head(metadata), packet.payload)):
                return ReasonCode.SUCCESS
        except Refused as refusal:
            del self._asked[request_id]
            self._note_limit(refusal)
            return self._refuse(asked, refusal.reason, refusal.message)
        del self._asked[request_id]
        return self._refuse(asked, "no-such-service", f"nobody provides the service {quoted(topic)}")

    def _note_limit(self, refusal: Refused) -> None:
        """Journal a refusal that is due to a limit."""
        if isinstance(refusal, OverLimit):
            session = self._bus.registry.state.sessions[self._connection.session_id]
            self._bus.counters[refusal.limit] += 1
            self._bus.registry.note_from_stranger(limit_reached(refusal, **session.about()))

    def _refuse(self, asked: Asked, reason: str, message: str) -> ReasonCode:
        """Answer a request with an error of the server. :returns: the reason code for its acknowledgement."""
        self._bus.counters[reason] += 1
        self._bus.exchanges.publish_to(self._connection.session_id, _error(asked, reason, message))
        return code_of(reason, PacketType.PUBACK)

    async def _tell_state(self, asked: Asked, service: str, content_type: str) -> None:
        """Answer with the state of a service of the server itself."""
        connection = self._connection
        await connection.until_ready(service)
        if connection.has_ended:
            return
        try:
            answer = _answer(asked, content_type, connection.state_of(service))
        except Refused as refusal:
            answer = _error(asked, refusal.reason, refusal.message)
        self._bus.exchanges.publish_to(connection.session_id, answer)
        self._bus.flush()

    # Answers.

    def _as_publication(self, delivery: Delivery) -> Publication | None:
        """What the client is given of a request, a reply or an error that is for it alone."""
        fields = decode_fields(delivery.metadata)
        if fields["event"].lower() == REQUEST:
            return self.answering.request(delivery, fields)
        request_id = fields.get("in-reply-to")
        asked = self._asked.pop(request_id, None) if isinstance(request_id, str) else None
        if asked is None:
            self._bus.counters["no-such-request"] += 1
            return None
        if not self._bus.exchanges.is_subscribed(self._connection.session_id, asked.topic):
            self._bus.counters["mqtt-unheard"] += 1
            return None
        if fields["event"].lower() == "error":
            return _error(asked, fields.get("reason"), fields.get("message"))
        return _answer(asked, fields.get("type"), delivery.payload, pairs_of(fields))

    # Time.

    def _remember(self, request_id: str, asked: Asked) -> None:
        self._asked[request_id] = asked
        if self._timer is None:
            self._wait(self._bus.settings.request_timeout)

    def _wait(self, seconds: float) -> None:
        self._timer = self._connection.reactor.callLater(seconds, self._look)

    def _look(self) -> None:
        """Answer the requests that nobody answered in time, and look again when the next one may be late."""
        self._timer, seconds = None, self._connection.reactor.seconds
        timeout, reason = self._bus.settings.request_timeout, "reply-timeout"
        while self._asked:
            request_id, asked = next(iter(self._asked.items()))
            left = asked.when + timeout - seconds()
            if left > 0:
                self._wait(left)
                break
            del self._asked[request_id]
            self._refuse(asked, reason, REASONS[reason])
        self._bus.flush()

    def end(self) -> None:
        """The session is closed."""
        self._asked.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _answer(asked: Asked, content_type: object, payload: bytes, pairs: tuple[tuple[str, str], ...] = ()) -> Publication:
    """The message that answers a request."""
    written = content_type if isinstance(content_type, str) and is_text(content_type) else None
    properties = Properties(content_type=written, correlation_data=asked.correlation, user_properties=pairs)
    return Publication(asked.topic, written or OCTET_STREAM, payload, own=Sent("", FOREIGN.qos, properties=properties))


def _error(asked: Asked, reason: object, message: object) -> Publication:
    """The message that is the error of a request."""
    code = reason if isinstance(reason, str) and is_text(reason) else "error"
    text = message if isinstance(message, str) else ""
    return _answer(asked, UTF8_TEXT, text.encode("utf-8", "replace"), ((ERROR, code),))
