"""Reason codes of 5.0 and return codes of 3.1.1, and the code that answers each fault. Source: section 2.4."""

from __future__ import annotations

from enum import IntEnum

from bussrv.wire.mqtt.packets import PacketType


class ReasonCode(IntEnum):
    """A result, as one byte; from 0x80 on, a failure.

    0 is called by other names in some packets: normal disconnection, or granted QoS 0; 1 and 2 are granted QoS.
    """

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_CREDENTIALS = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    FILTER_INVALID = 0x8F
    TOPIC_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDS_NOT_SUPPORTED = 0xA1
    WILDCARDS_NOT_SUPPORTED = 0xA2


_PUBLISHED = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
_RELEASED = frozenset({0x00, 0x92})

CODES: dict[PacketType, frozenset[int]] = {
    PacketType.CONNACK: frozenset(
        {0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F},
    ),
    PacketType.PUBACK: _PUBLISHED,
    PacketType.PUBREC: _PUBLISHED,
    PacketType.PUBREL: _RELEASED,
    PacketType.PUBCOMP: _RELEASED,
    PacketType.SUBACK: frozenset({0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}),
    PacketType.UNSUBACK: frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    PacketType.DISCONNECT: frozenset(
        {0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)},
    ),
    PacketType.AUTH: frozenset({0x00, 0x18, 0x19}),
}
"""The codes that a packet of 5.0 may have: the tables of sections 3.2 to 3.15."""

ACCEPTED, BAD_VERSION, BAD_CLIENT_ID, UNAVAILABLE, BAD_LOGIN, NOT_AUTHORIZED = range(6)
"""Return codes: those that CONNACK of 3.1.1 may have."""

SUBACK_FAILED = 0x80
"""The only failure in a SUBACK of 3.1.1."""

SUBACK_CODES = frozenset({0, 1, 2, SUBACK_FAILED})
"""The codes that a SUBACK of 3.1.1 may have."""

RETURN_CODES: dict[int, int] = {
    ReasonCode.SUCCESS: ACCEPTED,
    ReasonCode.UNSUPPORTED_VERSION: BAD_VERSION,
    ReasonCode.CLIENT_ID_NOT_VALID: BAD_CLIENT_ID,
    ReasonCode.BAD_CREDENTIALS: BAD_LOGIN,
    ReasonCode.BAD_AUTHENTICATION_METHOD: BAD_LOGIN,
    ReasonCode.NOT_AUTHORIZED: NOT_AUTHORIZED,
    ReasonCode.BANNED: NOT_AUTHORIZED,
}
"""The return code of 3.1.1 for a reason code of CONNACK. For others it is :data:`UNAVAILABLE`."""

ANSWERS: dict[str, ReasonCode] = {
    "bad-utf8": ReasonCode.MALFORMED_PACKET,
    "packet-too-short": ReasonCode.MALFORMED_PACKET,
    "malformed-packet": ReasonCode.MALFORMED_PACKET,
    "protocol-error": ReasonCode.PROTOCOL_ERROR,
    "unsupported-version": ReasonCode.UNSUPPORTED_VERSION,
    "bad-topic-alias": ReasonCode.TOPIC_ALIAS_INVALID,
    "packet-too-large": ReasonCode.PACKET_TOO_LARGE,
    "too-many-parts": ReasonCode.QUOTA_EXCEEDED,
    "inbound-full": ReasonCode.SERVER_BUSY,
    "not-binary": ReasonCode.PROTOCOL_ERROR,
    "bad-frame": ReasonCode.PROTOCOL_ERROR,
}
"""The reason code of 5.0 that answers each fault of what a client sends, by our code. The last two are of WebSocket."""
