"""Requests that a client answers. It says for which topics when it subscribes to them.

::

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

from bussrv.formats.mqtt.attributes import attributes_of, error_of, is_text, pairs_of
from bussrv.formats.mqtt.encoding import FOREIGN, Sent
from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.plugin import (
    OCTET_STREAM,
    REPLY,
    AsPublication,
    BusObject,
    Delivery,
    NotAllowed,
    Publication,
    Refused,
    decode_raw,
    encode_metadata,
    is_id,
    is_pattern,
    quoted,
    read_head,
)
from bussrv.wire.mqtt.packets import Properties, Publish
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.topics import is_shared

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


class Answering:
    """The requests that one client answers.

    :param as_publication: makes what the client is given.
    :ivar topic: its response topic.
    """

    __slots__ = ("_as_publication", "_bus", "_connection", "topic")

    def __init__(self, connection: MqttProtocol, as_publication: AsPublication) -> None:
        self._connection = connection
        self._bus = connection.bus
        self._as_publication = as_publication
        self.topic = REPLIES + secrets.token_urlsafe(TOKEN)

    def answers(self, service: str) -> bool:
        """Whether the client answers requests for a service."""
        return self._bus.exchanges.answers(self._connection.session_id, service)

    def check(self, service: str) -> None:
        """Check that the client may answer requests for a service.

        :raises Refused: ``not-allowed``, or ``bad-service-name`` for a pattern.
        """
        if is_pattern(service) or is_shared(service):
            raise Refused("bad-service-name", "a client answers requests for names, not for patterns")
        if not self._bus.may(self._connection.session_id, "provide", service):
            raise _denial(service)

    async def begin(self, service: str) -> None:
        """The client, which is subscribed to a service, answers requests for it from now on.

        :raises Refused: ``not-allowed``, or as :meth:`IRegistry.register_service` does.
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
            await bus.registry.register_service(session_id, service)
        except Refused:
            bus.exchanges.stop_answering(session_id, service)
            raise
        if not bus.registry.state.provides(session_id, service):
            raise _denial(service)

    async def end(self, service: str) -> None:
        """The client answers no more requests for a service, if it did, though it is still subscribed to it."""
        session_id = self._connection.session_id
        if service in self._bus.exchanges.answered_by(session_id):
            self._bus.exchanges.stop_answering(session_id, service)
            with suppress(Refused):  # It is given no requests, though it still provides the service.
                await self._bus.registry.unregister_service(session_id, service)

    def request(self, delivery: Delivery, fields: dict[str, Any]) -> Publication | None:
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
        sent = Sent("", FOREIGN.qos, properties=properties)
        return Publication(service, content_type or OCTET_STREAM, delivery.payload, own=sent)

    def reply(self, topic: str, packet: Publish) -> ReasonCode:
        """The client published on a response topic of the server."""
        properties = packet.properties
        if topic != self.topic:
            self._bus.counters["no-such-request"] += 1
            return ReasonCode.NOT_AUTHORIZED
        try:
            request_id = _decode_id(properties.correlation_data or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._bus.counters["no-such-request"] += 1
            return ReasonCode.NO_MATCHING_SUBSCRIBERS
        reason, payload = error_of(properties), packet.payload
        fields: dict[str, Any] = {"event": REPLY, **attributes_of(properties, payload)}
        if reason is not None:
            fields = {"event": "error", "reason": reason, "message": payload.decode("utf-8", "replace")}
            payload = b""
        metadata = encode_metadata({**fields, "in-reply-to": request_id}, payload)
        if len(metadata) > self._bus.settings.max_metadata:
            self._bus.counters["metadata-too-large"] += 1
            return ReasonCode.QUOTA_EXCEEDED
        is_given = self._bus.route(self._connection.session_id, BusObject(metadata, read_head(metadata), payload))
        return ReasonCode.SUCCESS if is_given else ReasonCode.NO_MATCHING_SUBSCRIBERS


def _denial(service: str) -> NotAllowed:
    return NotAllowed(f"the policy does not allow you to provide {quoted(service)}")
