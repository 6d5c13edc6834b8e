"""Everything that the clients of all MQTT ports of a server have in common: sessions, wills, and what they publish."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from bussrv.formats.mqtt.attributes import content_type_of
from bussrv.formats.mqtt.durable.sessions import MqttSessions
from bussrv.formats.mqtt.encoding import SECOND, Encodings, Sent
from bussrv.plugin import OCTET_STREAM, DurableRetained, IBus, Publication, Wills
from bussrv.wire.mqtt.packets import NO_PROPERTIES, Properties, Publish, Will
from bussrv.wire.mqtt.reasons import ReasonCode

_PASSED_ON = ("payload_format_indicator", "content_type", "response_topic", "correlation_data", "user_properties")


class Clients:
    """The clients of one server.

    :ivar encodings: of messages for them.
    :ivar retaining: keeps retained messages on the disk; ``None``: they end with the server.
    :ivar durable: their durable sessions.
    :ivar wills: their wills.
    """

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self._bus = bus
        self.encodings = Encodings(bus.counters, bus.utc)
        self.retaining: DurableRetained[Sent] | None = None
        if bus.settings.mqtt_retain == "durable":
            self.retaining = DurableRetained(bus, "mqtt", Sent, expires=lambda sent: sent.expires)
        self.durable = MqttSessions(bus, reactor, self.encodings)
        self.wills: Wills[Will] = Wills(
            bus,
            reactor,
            "mqtt",
            Will,
            give=lambda session_id, will: self.give(session_id, will.topic, will),
            delay_of=lambda will: will.properties.will_delay_interval or 0,
            sessions=self.durable,
        )

    def recover(self) -> None:
        """At the start of the server: take up what earlier boots left."""
        self.durable.recover()
        self.wills.recover()

    # Their messages.

    def give(self, session_id: str, topic: str, message: Publish | Will) -> tuple[ReasonCode, Deferred[Any] | None]:
        """Give a message of a session to everybody who wants it.

        :returns: the reason code; and what fires when a retained message is durable, if its client waits for that.
        """
        properties, expires = message.properties, None
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
        session, kept = self._bus.registry.state.sessions.get(session_id), None
        if self.retaining is None or session is None:
            is_kept = self._bus.retained.put(publication, "" if session is None else session.peer)
        else:
            kept = self.retaining.put(publication, session)
            is_kept = kept is not None
        if kept is not None and not (isinstance(message, Publish) and message.qos):
            kept.addErrback(lambda _: None)  # The spool has counted it, and nobody is to be told.
            kept = None
        return ReasonCode.SUCCESS if is_kept else ReasonCode.QUOTA_EXCEEDED, kept

    def give_run(self, session_id: str, topic: str, run: list[Publish]) -> None:
        """Give messages to everybody who wants them; they differ in their payloads and identifiers only."""
        sent = Sent(session_id, run[0].qos)
        self._bus.publish_many(session_id, [Publication(topic, OCTET_STREAM, each.payload, own=sent) for each in run])
