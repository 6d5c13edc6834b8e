"""Requests of clients, and to them. Source: MQTT 5.0, section 4.10.

A client asks by a message with a Response Topic::

    -> PUBLISH    T, Response Topic R, Correlation Data C             ``services/request``, ``name`` T
    <- PUBLISH    R, Correlation Data C                               ``services/reply``
    <- PUBLISH    R, Correlation Data C, user property error          ``error``: the property is its ``reason``

A message is a request if some provider of its service takes requests. Otherwise it is a publication, as every message
to subscribers who answer by themselves. So is a message that is to be retained. The client is given one answer to each
request: the first reply, or an error if there is none in time. It is a message for this client alone, whoever else is
subscribed to R.

A client answers requests for the topics of which it says so when it subscribes to them::

    -> SUBSCRIBE  T, user property provide: 1                         it provides the service T, and answers requests
    <- PUBLISH    T, Response Topic $reply/…, Correlation Data I      ``services/request``, ``name`` T, ``id`` I as JSON
    -> PUBLISH    $reply/…, Correlation Data I                        ``services/reply``, ``in-reply-to`` I
    -> PUBLISH    $reply/…, Correlation Data I, user property error   ``error``, ``in-reply-to`` I, ``reason``

The response topic is another one for each connection. It is no service: nobody can subscribe to it with effect, and
what a client publishes on that of another one is refused. Which requests a client may answer is for the bus to know, as
for every provider; so nothing of them is kept here.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from bussrv.formats.mqtt.attributes import ERROR, attributes_of, error_of, is_text, pairs_of
from bussrv.formats.mqtt.codes import code_of
from bussrv.formats.mqtt.encoding import FOREIGN, Sent
from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.plugin import (
    OCTET_STREAM,
    REASONS,
    REPLY,
    REQUEST,
    UTF8_TEXT,
    BusObject,
    Delivery,
    OverLimit,
    Publication,
    Refused,
    decode_fields,
    decode_raw,
    encode_metadata,
    is_id,
    is_pattern,
    limit_reached,
    quoted,
    read_head,
)
from bussrv.wire.mqtt.packets import PacketType, Properties, Publish
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.topics import is_shared

MOST_KEPT = 512
"""The most bytes of the Response Topic and the Correlation Data of a request together: they are kept until it is
answered."""

REPLIES = "$reply/"
"""The beginning of every response topic of the server."""

TOKEN = 12
"""The random bytes in a response topic."""

LONGEST_ID = 0xFFFF
"""The most bytes of Correlation Data."""

_PROVIDE = ("provide", "1")
_decode_id = msgspec.json.Decoder(str | int | float | bool).decode


def wants_to_answer(properties: Properties) -> bool:
    """Whether a client that subscribes wants to answer requests."""
    return _PROVIDE in properties.user_properties


class Asked(Struct, frozen=True, gc=False):
    """An open request.

    :ivar topic: its response topic.
    :ivar correlation: its Correlation Data; ``None``: it has none.
    :ivar when: when it was made, in seconds.
    """

    topic: str
    correlation: bytes | None
    when: float

    def answer(self, content_type: object, payload: bytes, pairs: tuple[tuple[str, str], ...] = ()) -> Publication:
        """The message that answers it."""
        written = content_type if isinstance(content_type, str) and is_text(content_type) else None
        properties = Properties(content_type=written, correlation_data=self.correlation, user_properties=pairs)
        return Publication(self.topic, written or OCTET_STREAM, payload, own=_sent(properties))

    def error(self, reason: object, message: object) -> Publication:
        """The message that is its error."""
        code = reason if isinstance(reason, str) and is_text(reason) else "error"
        text = message if isinstance(message, str) else ""
        return self.answer(UTF8_TEXT, text.encode("utf-8", "replace"), ((ERROR, code),))


class Requests:
    """The requests of one client, and those that it answers.

    :ivar topic: its response topic.
    """

    __slots__ = ("_asked", "_bus", "_connection", "_made", "_timer", "topic")

    def __init__(self, connection: MqttProtocol) -> None:
        self._connection = connection
        self._bus = connection.bus
        self.topic = REPLIES + secrets.token_urlsafe(TOKEN)
        self._asked: dict[str, Asked] = {}  # the oldest first
        self._made = 0
        self._timer: Any = None

    def take(self, topic: str, packet: Publish) -> ReasonCode | None:
        """Serve a message with properties, if it is a request or an answer.

        :returns: the reason code; ``None``: it is neither.
        """
        if topic.startswith(REPLIES):
            return self.reply(topic, packet)
        properties, bus, session_id = packet.properties, self._bus, self._connection.session_id
        if properties.response_topic is None or packet.retain:
            return None
        hosted_type = bus.hosted_type(topic)
        if hosted_type is None:
            is_taken = bus.takes_requests(session_id, topic)
        else:
            is_taken = self._connection.permissions().may("request", topic)
        if not is_taken:
            return None
        if not bus.exchanges.is_subscribed(session_id, properties.response_topic):
            bus.counters["mqtt-unheard"] += 1
            return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        asked = Asked(properties.response_topic, properties.correlation_data, self._connection.reactor.seconds())
        try:
            if len(asked.topic.encode()) + len(asked.correlation or b"") > MOST_KEPT:
                raise Refused("correlation-too-long", REASONS["correlation-too-long"])
            if hosted_type is None:
                self._ask(topic, packet, asked)
            else:
                self._connection.busy_with(self._tell_state(asked, topic, hosted_type))
        except Refused as refusal:
            return self._refuse(asked, refusal.reason, refusal.message)
        return ReasonCode.SUCCESS

    def _ask(self, topic: str, packet: Publish, asked: Asked) -> None:
        """:raises Refused: nobody is given the request."""
        self._made += 1
        session_id = self._connection.session_id
        request_id = f"{session_id}-{self._made}"
        fields = {"event": REQUEST, "name": topic, "id": request_id, **attributes_of(packet.properties, packet.payload)}
        request = self._object(fields, packet.payload)
        self._bus.exchanges.begin(session_id, self._as_publication)
        self._asked[request_id] = asked
        if self._timer is None:
            self._wait(self._bus.settings.request_timeout)
        is_given = False
        try:
            is_given = bool(self._bus.route(session_id, request))
        except OverLimit as refusal:
            about = self._bus.registry.state.sessions[session_id].about()
            self._bus.counters[refusal.limit] += 1
            self._bus.registry.note_from_stranger(limit_reached(refusal, **about))
            raise
        finally:
            if not is_given:
                del self._asked[request_id]
        if not is_given:
            raise Refused("no-such-service", f"nobody provides the service {quoted(topic)}")

    def _object(self, fields: dict[str, Any], payload: bytes) -> BusObject:
        """:raises Refused: ``metadata-too-large``."""
        metadata = encode_metadata(fields, payload)
        if len(metadata) > self._bus.settings.max_metadata:
            raise Refused("metadata-too-large", REASONS["metadata-too-large"])
        return BusObject(metadata, read_head(metadata), payload)

    def _refuse(self, asked: Asked, reason: str, message: str) -> ReasonCode:
        """Answer a request with an error of the server. :returns: the reason code for its acknowledgement."""
        self._bus.counters[reason] += 1
        self._bus.exchanges.publish_to(self._connection.session_id, asked.error(reason, message))
        return code_of(reason, PacketType.PUBACK)

    async def _tell_state(self, asked: Asked, service: str, content_type: str) -> None:
        """Answer with the state of a service of the server itself."""
        connection = self._connection
        await connection.until_ready(service)
        if connection.has_ended:
            return
        try:
            answer = asked.answer(content_type, connection.state_of(service))
        except Refused as refusal:
            answer = asked.error(refusal.reason, refusal.message)
        self._bus.exchanges.publish_to(connection.session_id, answer)
        self._bus.flush()

    def _as_publication(self, delivery: Delivery) -> Publication | None:
        """The message by which the client is given a request, a reply or an error that is for it alone."""
        fields = decode_fields(delivery.metadata)
        if fields["event"].lower() == REQUEST:
            return self._request(delivery, fields)
        request_id = fields.get("in-reply-to")
        asked = self._asked.pop(request_id, None) if isinstance(request_id, str) else None
        if asked is None:
            self._bus.counters["no-such-request"] += 1
            return None
        if not self._bus.exchanges.is_subscribed(self._connection.session_id, asked.topic):
            self._bus.counters["mqtt-unheard"] += 1
            return None
        if fields["event"].lower() == "error":
            return asked.error(fields.get("reason"), fields.get("message"))
        return asked.answer(fields.get("type"), delivery.payload, pairs_of(fields))

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

    # Requests that the client answers.

    def answers(self, service: str) -> bool:
        """Whether the client answers requests for a service."""
        return self._bus.exchanges.answers(self._connection.session_id, service)

    def check_may_answer(self, service: str) -> None:
        """Check that the client may answer requests for a service.

        :raises Refused: ``not-allowed``, or ``bad-service-name`` for a pattern.
        """
        if is_pattern(service) or is_shared(service):
            self._bus.counters["bad-service-name"] += 1
            raise Refused("bad-service-name", "a client answers requests for names, not for patterns")
        self._connection.check_may("provide", service)

    async def begin_to_answer(self, service: str) -> None:
        """The client, which is subscribed to a service, answers requests for it from now on.

        :raises Refused: as :meth:`StreamProtocol.provide` does.
        """
        bus, session_id = self._bus, self._connection.session_id
        if self.answers(service):
            return
        if bus.registry.state.provides(session_id, service):
            # It has published on it. The others have to be told that it takes requests now.
            await bus.registry.unregister_service(session_id, service)
        if session_id not in bus.registry.state.sessions:
            return
        bus.exchanges.begin(session_id, self._as_publication)
        bus.exchanges.answer(session_id, service)
        try:
            await self._connection.provide(service)
        except Refused:
            bus.exchanges.stop_answering(session_id, service)
            raise

    async def stop_answering(self, service: str) -> None:
        """The client answers no more requests for a service, if it did, though it is still subscribed to it."""
        session_id = self._connection.session_id
        if service in self._bus.exchanges.answered_by(session_id):
            self._bus.exchanges.stop_answering(session_id, service)
            with suppress(Refused):  # It is given no requests, though it still provides the service.
                await self._bus.registry.unregister_service(session_id, service)

    def _request(self, delivery: Delivery, fields: dict[str, Any]) -> Publication | None:
        """The message by which the client is given a request; ``None``: it does not answer such requests."""
        service = fields.get("name", fields.get("service"))
        if not isinstance(service, str) or not self.answers(service):
            return None
        request_id = bytes(decode_raw(delivery.metadata)["id"])
        if len(request_id) > LONGEST_ID:
            return None
        content_type = fields.get("type")
        may_be_answered = is_id(fields["id"])
        properties = Properties(
            content_type=content_type if is_text(content_type) else None,
            response_topic=self.topic if may_be_answered else None,
            correlation_data=request_id if may_be_answered else None,
            user_properties=pairs_of(fields),
        )
        return Publication(service, content_type or OCTET_STREAM, delivery.payload, own=_sent(properties))

    def reply(self, topic: str, packet: Publish) -> ReasonCode:
        """The client published on a response topic of the server."""
        properties, payload = packet.properties, packet.payload
        if topic != self.topic:
            self._bus.counters["no-such-request"] += 1
            return ReasonCode.NOT_AUTHORIZED
        try:
            request_id = _decode_id(properties.correlation_data or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._bus.counters["no-such-request"] += 1
            return ReasonCode.NO_MATCHING_SUBSCRIBERS
        reason = error_of(properties)
        fields: dict[str, Any] = {"event": REPLY, **attributes_of(properties, payload)}
        if reason is not None:
            fields = {"event": "error", "reason": reason, "message": payload.decode("utf-8", "replace")}
            payload = b""
        try:
            answer = self._object({**fields, "in-reply-to": request_id}, payload)
        except Refused as refusal:
            self._bus.counters[refusal.reason] += 1
            return ReasonCode.QUOTA_EXCEEDED
        is_given = self._bus.route(self._connection.session_id, answer)
        return ReasonCode.SUCCESS if is_given else ReasonCode.NO_MATCHING_SUBSCRIBERS


def _sent(properties: Properties) -> Sent:
    return Sent("", FOREIGN.qos, properties=properties)
