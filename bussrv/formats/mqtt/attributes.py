"""Attributes of objects as properties of messages, and back. Pure.

=====================  =====================================================================================
property of a message  attribute of an object
=====================  =====================================================================================
Content Type           ``type``; see :func:`content_type_of`
user properties        ``user-properties``: an array of pairs of strings
=====================  =====================================================================================
"""

from __future__ import annotations

from typing import Any

from bussrv.plugin import OCTET_STREAM, UTF8_TEXT
from bussrv.wire.mqtt.packets import Properties
from bussrv.wire.mqtt.properties import MOST_REPEATED

ERROR = "error"
"""The user property of an answer that is an error: its value is the reason."""

LONGEST_TEXT = 0xFFFF
"""The most bytes of a text."""

_PAIRS = "user-properties"


def content_type_of(properties: Properties) -> str:
    """The content type of a message."""
    if properties.content_type is not None:
        return properties.content_type
    return UTF8_TEXT if properties.payload_format_indicator else OCTET_STREAM


def attributes_of(properties: Properties, payload: bytes) -> dict[str, Any]:
    """The attributes of the object that a message is. An empty one without a content type has none, so no ``type``."""
    fields: dict[str, Any] = {}
    if payload or properties.content_type is not None:
        fields["type"] = content_type_of(properties)
    pairs = [pair for pair in properties.user_properties if pair[0] != ERROR]
    if pairs:
        fields[_PAIRS] = pairs
    return fields


def error_of(properties: Properties) -> str | None:
    """The reason, if a message is an error."""
    return next((value for name, value in properties.user_properties if name == ERROR), None)


def pairs_of(fields: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The user properties that an object has. What cannot be one is left out."""
    pairs = fields.get(_PAIRS)
    if not isinstance(pairs, list) or len(pairs) > MOST_REPEATED:
        return ()
    sound = [tuple(pair) for pair in pairs if isinstance(pair, list) and len(pair) == 2 and all(map(is_text, pair))]
    return tuple((name, value) for name, value in sound if name != ERROR)


def is_text(value: object) -> bool:
    """Whether this can be a text of MQTT."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return len(value.encode()) <= LONGEST_TEXT
    except UnicodeEncodeError:
        return False
