"""Messages of clients as the spool has them: their wills, and with ``--mqtt-retain durable`` what they retain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.formats.mqtt.encoding import Sent
from bussrv.plugin import DurableRetained, IBus, Publication, Wills
from bussrv.wire.mqtt.packets import Properties, Will

log = Logger()

_encode = msgspec.json.Encoder().encode


class _WillHead(Struct, frozen=True, omit_defaults=True):
    """The part before the payload of a will."""

    topic: str
    qos: int
    retain: bool
    properties: Properties


class _RetainedHead(Struct, frozen=True, omit_defaults=True):
    """The part before the payload of a retained message."""

    content_type: str
    sent: Sent


_decode_will = msgspec.json.Decoder(_WillHead).decode
_decode_retained = msgspec.json.Decoder(_RetainedHead).decode


def packed(head: Struct, payload: bytes) -> bytes:
    """A head as JSON, a NUL and a payload."""
    return _encode(head) + b"\0" + payload


class MqttWills(Wills[Will]):
    """The wills of all clients.

    :param give: gives a message of a session to everybody who wants it.
    :param clients: finds clients by their ids; see :class:`Wills`.
    """

    FORMAT = "mqtt"
    OWNER = "mqtt-will "

    def __init__(self, bus: IBus, reactor: Any, give: Callable[[str, str, Will], object], **clients: Any) -> None:
        super().__init__(bus, reactor, **clients)
        self._give = give

    def give(self, session_id: str, will: Will) -> None:
        """See :class:`Wills`, as for the others."""
        self._give(session_id, will.topic, will)

    def packed(self, will: Will) -> bytes:
        """Its payload comes last."""
        return packed(_WillHead(will.topic, will.qos, will.retain, will.properties), will.payload)

    def unpacked(self, packed: bytes) -> Will:
        """The same again."""
        head, _, payload = packed.partition(b"\0")
        found = _decode_will(head)
        return Will(found.topic, payload, found.qos, found.retain, found.properties)

    def delay_of(self, will: Will) -> float:
        """The Will Delay Interval."""
        return will.properties.will_delay_interval or 0

    def unread(self, failure: Failure) -> None:
        """Say so in the log."""
        why = failure.getErrorMessage()
        log.error("mqtt: wills of the last boot cannot be read: {why}", event="mqtt.wills-unread", why=why)


class MqttRetained(DurableRetained):
    """What clients retain."""

    OWNER = "mqtt-retained "

    def packed(self, publication: Publication) -> bytes:
        """Its payload comes last."""
        sent = publication.own
        assert isinstance(sent, Sent)
        return packed(_RetainedHead(publication.content_type, sent), publication.payload)

    def unpacked(self, service: str, packed: bytes) -> Publication:
        """The same again."""
        head, _, payload = packed.partition(b"\0")
        found = _decode_retained(head)
        return Publication(service, found.content_type, payload, own=found.sent)

    def expires(self, publication: Publication) -> int | None:
        """The end of the Message Expiry Interval."""
        return publication.own.expires if isinstance(publication.own, Sent) else None

    def unread(self, failure: Failure) -> None:
        """Say so in the log."""
        why = failure.getErrorMessage()
        log.error("mqtt: what was retained cannot be read: {why}", event="mqtt.retained-unread", why=why)
