"""Payloads of clients."""

from __future__ import annotations


def as_payload(value: object) -> bytes:
    """The payload as bytes.

    :raises TypeError: says what to do.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    wanted = "encode it, such as with text.encode()" if isinstance(value, str) else "make bytes of it"
    raise TypeError(f"a payload is bytes, not {type(value).__name__}: {wanted}")
