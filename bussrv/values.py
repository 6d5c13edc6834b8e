"""Frozen values that every layer shares."""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from bussrv.errors import Refused

MAX_SERVICE_NAME = 255
"""The longest service name, in bytes of UTF-8."""

MAX_ROUTING_ID = 255
"""The longest routing id, in bytes of UTF-8."""

RESERVED_PREFIX = "bus/"
"""Service names that begin so are provided by the server itself."""

OCTET_STREAM = "application/octet-stream"
UTF8_TEXT = "text/plain; charset=UTF-8"

# Control characters, and halves of surrogate pairs, which no UTF-8 has.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

ReceiveMode = Literal["none", "all", "no_echo", "events_only"]
Vocabulary = Literal["objects", "business", "rules"]


class ModeInterest(Struct, frozen=True, tag_field="kind", tag="modes"):
    """The interest of a member that subscribed with a receive mode and content types (seeds 000 and 002).

    ``types`` holds lower-case patterns without parameters; ``None`` means all types, an empty tuple none.
    """

    receive: ReceiveMode = "all"
    types: tuple[str, ...] | None = None


class RuleInterest(Struct, frozen=True, tag_field="kind", tag="rules"):
    """The interest of a member that subscribed with an ordered list of rules (the deployed dialect).

    A nested tuple is a nested array of the rule list: a match inside it decides at once.
    """

    rules: tuple[str | tuple[str, ...], ...]


Interest = ModeInterest | RuleInterest


class Publication(Struct, frozen=True):
    """A payload with a content type on a service name: what crosses from one wire format to another.

    :ivar service: the service it was published on.
    :ivar content_type: the content type as the publisher wrote it.
    :ivar payload: the bytes.
    :ivar app_type: the Inbus application type.
    """

    service: str
    content_type: str
    payload: bytes
    app_type: int = 1


class Traffic(Struct):
    """What one session sent and was sent: objects (messages) and bytes, counted per chunk."""

    objects_in: int = 0
    objects_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


MAX_QUOTED = 60


def quoted(value: Any) -> str:
    """What a message quotes of something that a client sent: not much, however much that was."""
    text = repr(value[: MAX_QUOTED + 1] if isinstance(value, (str, bytes, list)) else value)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def excerpt(name: Any) -> str:
    """What is written down of a name that is none: it need not be text, and may be long."""
    text = name if isinstance(name, str) else repr(name)
    return text.encode("utf-8", "replace").decode()[:MAX_SERVICE_NAME]


def check_routing_id(value: Any, name: str) -> str:
    """Return ``value`` if it can be a routing id.

    :param name: what it is called, for the message.
    :raises Refused: ``bad-subscription``.
    """
    if not isinstance(value, str) or not 0 < len(value.encode("utf-8", "replace")) <= MAX_ROUTING_ID:
        raise Refused("bad-subscription", f"{name} is a string of 1 to {MAX_ROUTING_ID} bytes")
    return value


def check_service_name(name: Any) -> str:
    """Return ``name`` if it can be the name of a service.

    :raises Refused: ``bad-service-name``.
    """
    if not isinstance(name, str):
        raise Refused("bad-service-name", f"a service name is a string, not {type(name).__name__}")
    if not name:
        raise Refused("bad-service-name", "a service name is not empty")
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > MAX_SERVICE_NAME:
        raise Refused("bad-service-name", f"a service name has at most {MAX_SERVICE_NAME} bytes, this one has {size}")
    unfit = _UNFIT.search(name)
    if unfit is not None:
        raise Refused("bad-service-name", f"a service name holds no {unfit[0]!r} (character {unfit.start()})")
    return name
