"""The table of the properties of 5.0. Source: section 2.2.2.2, and those on the properties of each packet."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from bussrv.wire.mqtt.packets import PacketType

MOST_REPEATED = 128
"""The most properties of the two kinds that may repeat, in one packet or will. The standard has no limit."""


class ValueType(Enum):
    """How the value of a property is written. Integers: by their bytes."""

    BYTE = 1
    TWO_BYTES = 2
    FOUR_BYTES = 4
    VARIABLE = "a length, as of a packet"
    TEXT = "a text"
    TOPIC = "a text that is the name of a topic"
    BINARY = "binary data"
    PAIR = "two texts"


class PropertyRow(Struct, frozen=True, kw_only=True):
    """The rules of the standard for one property.

    :ivar name: its field in :class:`bussrv.wire.mqtt.packets.Properties`.
    :ivar packets: those that may have it.
    :ivar repeats: those that may have it more than once.
    :ivar least: the least integer that is allowed.
    :ivar most: the greatest one.
    :ivar fault: our code for an integer beyond these.
    """

    identifier: int
    name: str
    type: ValueType
    packets: frozenset[PacketType]
    repeats: frozenset[PacketType] = frozenset()
    least: int = 0
    most: int = 0xFFFFFFFF
    fault: str = "protocol-error"


def _row(identifier: int, name: str, kind: ValueType, packets: str, **more: int | str) -> PropertyRow:
    """A row. ``packets``: their types, divided by blanks; one that may have it more than once ends with ``*``."""
    types = packets.split()
    allowed = frozenset(PacketType[each.removesuffix("*")] for each in types)
    repeats = frozenset(PacketType[each[:-1]] for each in types if each.endswith("*"))
    return PropertyRow(identifier=identifier, name=name, type=kind, packets=allowed, repeats=repeats, **more)  # type: ignore[arg-type]


_ACKS = "PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK"
_ALL = " ".join(f"{each.name}*" for each in PacketType if each.name not in ("PINGREQ", "PINGRESP"))

TABLE: tuple[PropertyRow, ...] = (
    _row(0x01, "payload_format_indicator", ValueType.BYTE, "PUBLISH WILL", most=1),
    _row(0x02, "message_expiry_interval", ValueType.FOUR_BYTES, "PUBLISH WILL"),
    _row(0x03, "content_type", ValueType.TEXT, "PUBLISH WILL"),
    _row(0x08, "response_topic", ValueType.TOPIC, "PUBLISH WILL"),
    _row(0x09, "correlation_data", ValueType.BINARY, "PUBLISH WILL"),
    _row(0x0B, "subscription_identifiers", ValueType.VARIABLE, "PUBLISH* SUBSCRIBE", least=1),
    _row(0x11, "session_expiry_interval", ValueType.FOUR_BYTES, "CONNECT CONNACK DISCONNECT"),
    _row(0x12, "assigned_client_identifier", ValueType.TEXT, "CONNACK"),
    _row(0x13, "server_keep_alive", ValueType.TWO_BYTES, "CONNACK"),
    _row(0x15, "authentication_method", ValueType.TEXT, "CONNECT CONNACK AUTH"),
    _row(0x16, "authentication_data", ValueType.BINARY, "CONNECT CONNACK AUTH"),
    _row(0x17, "request_problem_information", ValueType.BYTE, "CONNECT", most=1),
    _row(0x18, "will_delay_interval", ValueType.FOUR_BYTES, "WILL"),
    _row(0x19, "request_response_information", ValueType.BYTE, "CONNECT", most=1),
    _row(0x1A, "response_information", ValueType.TEXT, "CONNACK"),
    _row(0x1C, "server_reference", ValueType.TEXT, "CONNACK DISCONNECT"),
    _row(0x1F, "reason_string", ValueType.TEXT, f"CONNACK {_ACKS} DISCONNECT AUTH"),
    _row(0x21, "receive_maximum", ValueType.TWO_BYTES, "CONNECT CONNACK", least=1),
    _row(0x22, "topic_alias_maximum", ValueType.TWO_BYTES, "CONNECT CONNACK"),
    _row(0x23, "topic_alias", ValueType.TWO_BYTES, "PUBLISH", least=1, fault="bad-topic-alias"),
    _row(0x24, "maximum_qos", ValueType.BYTE, "CONNACK", most=1),
    _row(0x25, "retain_available", ValueType.BYTE, "CONNACK", most=1),
    _row(0x26, "user_properties", ValueType.PAIR, _ALL),
    _row(0x27, "maximum_packet_size", ValueType.FOUR_BYTES, "CONNECT CONNACK", least=1),
    _row(0x28, "wildcard_subscription_available", ValueType.BYTE, "CONNACK", most=1),
    _row(0x29, "subscription_identifiers_available", ValueType.BYTE, "CONNACK", most=1),
    _row(0x2A, "shared_subscription_available", ValueType.BYTE, "CONNACK", most=1),
)
"""The 27 properties."""

ALLOWED: dict[PacketType, dict[int, PropertyRow]] = {
    packet: {row.identifier: row for row in TABLE if packet in row.packets} for packet in PacketType
}
"""The properties that each packet may have, by identifier."""
