"""Publications as records of Kafka, and back. Pure.

| part of a record | in a publication |
|---|---|
| topic | the prefix and the service: :mod:`bussrv.uplink.kafka.topics` |
| key | the routing id of the publisher, so that records of one publisher stay in order |
| value | the payload |
| header ``content-type`` | ``type`` |
| header ``bussrv-id`` | ``id`` |
| header ``bussrv-uplink`` | the id of the uplink that sent the record |

A publication that an uplink takes from Kafka has the attribute ``kafka-uplink``, the id of that uplink. No uplink sends
such a publication to Kafka, and no uplink takes a record that it has sent itself.
"""

from __future__ import annotations

from aiokafka.structs import ConsumerRecord
from msgspec import Struct

from bussrv.client.core.names import matches
from bussrv.client.events import Message
from bussrv.uplink.kafka.topics import service_of, topic_of
from bussrv.values import OCTET_STREAM

FROM_KAFKA = "kafka-uplink"
CONTENT_TYPE, OBJECT_ID, UPLINK = "content-type", "bussrv-id", "bussrv-uplink"


class Outbound(Struct, frozen=True):
    """A record to send."""

    topic: str
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


class Inbound(Struct, frozen=True):
    """A publication to make."""

    service: str
    payload: bytes
    type: str


class Wanted(Struct, frozen=True):
    """The publications that an uplink forwards.

    :ivar uplink: the id of the uplink.
    :ivar services: names of services, and patterns.
    :ivar prefix: the beginning of the names of topics.
    """

    uplink: str
    services: tuple[str, ...]
    prefix: str

    def outbound(self, message: Message) -> Outbound | None:
        """The record of a publication; ``None``: it came from Kafka.

        :raises NoTopic: its service has no topic.
        """
        metadata = message.metadata
        if FROM_KAFKA in metadata:
            return None
        headers = [(CONTENT_TYPE, (message.type or OCTET_STREAM).encode())]
        if isinstance(metadata.get("id"), str):
            headers.append((OBJECT_ID, metadata["id"].encode()))
        headers.append((UPLINK, self.uplink.encode()))
        origin = message.provider
        topic = topic_of(self.prefix, message.service)
        return Outbound(topic, None if origin is None else origin.encode(), message.payload, headers)

    def inbound(self, record: ConsumerRecord) -> Inbound | None:
        """The publication of a record; ``None``: this uplink has sent it, or its service is not wanted."""
        headers = dict(record.headers)
        service = service_of(self.prefix, record.topic)
        if service is None or headers.get(UPLINK) == self.uplink.encode() or not matches(service, self.services):
            return None
        return Inbound(service, record.value or b"", _type_of(headers))


def _type_of(headers: dict[str, bytes]) -> str:
    try:
        return headers[CONTENT_TYPE].decode() or OCTET_STREAM
    except (KeyError, UnicodeDecodeError):
        return OCTET_STREAM
