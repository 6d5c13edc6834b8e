"""The reason codes that tell clients why they are refused something. Source: MQTT 5.0, sections 3.2 to 3.11."""

from __future__ import annotations

from bussrv.wire.mqtt.packets import PacketType
from bussrv.wire.mqtt.reasons import CODES, ReasonCode

REASONS: dict[ReasonCode, tuple[str, ...]] = {
    ReasonCode.NOT_AUTHORIZED: ("not-allowed", "not-authenticated"),
    ReasonCode.CLIENT_ID_NOT_VALID: ("bad-client-id", "client-id-taken"),
    ReasonCode.BAD_AUTHENTICATION_METHOD: ("bad-auth-method",),
    ReasonCode.BAD_CREDENTIALS: ("bad-credentials", "actor-fixed"),
    ReasonCode.SERVER_BUSY: ("too-many-logins",),
    ReasonCode.SERVER_UNAVAILABLE: ("journal-unavailable", "spool-unavailable"),
    ReasonCode.TOPIC_INVALID: ("bad-service-name", "reserved-name"),
    ReasonCode.FILTER_INVALID: ("bad-service-name", "reserved-name"),
    ReasonCode.NO_MATCHING_SUBSCRIBERS: ("no-such-service",),
    ReasonCode.NO_SUBSCRIPTION_EXISTED: ("no-such-subscription",),
    ReasonCode.QUOTA_EXCEEDED: (
        *("too-many-durable-sessions", "spool-full", "too-many-subscriptions", "too-many-services"),
        *("too-many-services-in-all", "too-many-requests", "correlation-too-long", "metadata-too-large"),
    ),
}
"""The reasons for which something is refused, by the code that says so in the packets that may have it."""


def code_of(reason: str, packet: PacketType) -> ReasonCode:
    """The reason code of a packet that refuses something."""
    told = (code for code, reasons in REASONS.items() if reason in reasons and code in CODES[packet])
    return next(told, ReasonCode.UNSPECIFIED_ERROR)
