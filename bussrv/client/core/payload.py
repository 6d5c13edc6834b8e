"""Payloads and attributes, as programs give them."""

from __future__ import annotations

from typing import Any


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
