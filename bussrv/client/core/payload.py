"""Payloads and attributes, as programs give them."""

from __future__ import annotations

from typing import Any

OWN_OF_PUBLICATION = frozenset({"event", "id", "in-reply-to", "route", "sender", "size", "to"})
"""Attributes that the client, or the server, writes into a publication: they say what the object is, and whose."""

OWN_OF_REQUEST = OWN_OF_PUBLICATION | {"name"}
"""The same of a request."""


def as_payload(value: object) -> bytes:
    """The payload as bytes.

    :raises TypeError: says what to do.
    """
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    wanted = "encode it, such as with text.encode()" if isinstance(value, str) else "make bytes of it"
    raise TypeError(f"a payload is bytes, not {type(value).__name__}: {wanted}")


def hyphenated(attributes: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments as attributes of metadata. ``receive_mode`` is the one that the seed spells with ``_``."""
    return {name if name == "receive_mode" else name.replace("_", "-"): value for name, value in attributes.items()}


def as_attributes(attributes: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    """Keyword arguments of a program as attributes of a publication or a request.

    :param own: the attributes that a program does not give.
    :raises ValueError: one of them would make another object of it, such as a publication that nobody receives.
    """
    found = hyphenated(attributes)
    if taken := sorted(own & found.keys()):
        raise ValueError(f"the client writes the attribute {', '.join(taken)} itself: use another name")
    return found
