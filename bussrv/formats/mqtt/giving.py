"""Messages of clients, and their wills, given to everybody who wants them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from bussrv.formats.mqtt.attributes import content_type_of
from bussrv.formats.mqtt.encoding import SECOND, Sent
from bussrv.plugin import OCTET_STREAM, DurableRetained, IBus, Publication
from bussrv.wire.mqtt.packets import NO_PROPERTIES, Properties, Publish, Will
from bussrv.wire.mqtt.reasons import ReasonCode

_PASSED_ON = ("payload_format_indicator", "content_type", "response_topic", "correlation_data", "user_properties")


class Giving:
    """Gives messages.

    :param retaining: keeps retained messages on the disk; ``None``: they end with the server.
    """

    def __init__(self, bus: IBus, retaining: DurableRetained | None) -> None:
        self._bus = bus
        self._retaining = retaining

    def give(self, session_id: str, topic: str, message: Publish | Will) -> tuple[ReasonCode, Deferred[Any] | None]:
        """Give a message of a session to everybody who wants it.

        :returns: the reason code; and what fires when a retained message is durable, if its client waits for that.
        """
        properties = message.properties
        expires = None
        if properties is not NO_PROPERTIES:
            if properties.message_expiry_interval is not None:
                expires = self._bus.utc() + properties.message_expiry_interval * SECOND
            properties = Properties(**{name: getattr(properties, name) for name in _PASSED_ON})
        sent = Sent(session_id, message.qos, message.retain, properties, expires)
        publication = Publication(topic, content_type_of(properties), message.payload, own=sent)
        self._bus.publish(session_id, publication)
        return self._retain(session_id, publication, message) if message.retain else (ReasonCode.SUCCESS, None)

    def _retain(
        self, session_id: str, publication: Publication, message: Publish | Will
    ) -> tuple[ReasonCode, Deferred[Any] | None]:
        session = self._bus.registry.state.sessions.get(session_id)
        if self._retaining is None or session is None:
            is_kept = self._bus.retained.put(publication, "" if session is None else session.peer)
            return ReasonCode.SUCCESS if is_kept else ReasonCode.QUOTA_EXCEEDED, None
        kept = self._retaining.put(publication, session)
        if kept is None:
            return ReasonCode.QUOTA_EXCEEDED, None
        if isinstance(message, Publish) and message.qos:
            return ReasonCode.SUCCESS, kept
        kept.addErrback(lambda _: None)  # The spool has counted it, and nobody is to be told.
        return ReasonCode.SUCCESS, None

    def give_run(self, session_id: str, topic: str, run: list[Publish]) -> None:
        """Give messages to everybody who wants them; they differ in their payloads and identifiers only."""
        sent = Sent(session_id, run[0].qos)
        self._bus.publish_many(session_id, [Publication(topic, OCTET_STREAM, each.payload, own=sent) for each in run])
