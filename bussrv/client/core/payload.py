"""Payloads and attributes, as programs give them."""

from __future__ import annotations

from typing import Any, TypeAlias

from bussrv.client.errors import ServiceError
from bussrv.values import OCTET_STREAM, UTF8_TEXT

_MAX_WORDS = 200

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


Answer: TypeAlias = bytes | str | tuple[bytes, str] | None
"""The answer of a handler of requests: bytes, text, bytes with their content type, or nothing."""


def as_answer(answer: Answer) -> tuple[bytes, str]:
    """The payload of an answer, and its content type.

    :raises TypeError, ValueError: it cannot be sent.
    """
    if answer is None:
        return b"", OCTET_STREAM
    if isinstance(answer, str):
        return answer.encode(), UTF8_TEXT
    if isinstance(answer, tuple):
        payload, content_type = answer
        if not isinstance(content_type, str):
            raise TypeError(f"a content type is a str, not {type(content_type).__name__}")
        content_type.encode()
        return as_payload(payload), content_type
    return as_payload(answer), OCTET_STREAM


def refusal(error: Exception) -> tuple[str, str]:
    """The reason and the message that an asker gets for the exception of a handler."""
    if isinstance(error, ServiceError):
        return _words(error.reason), _words(error.message)
    return "service-error", _words(f"{type(error).__name__}: {error}"[:_MAX_WORDS])


def _words(text: object) -> str:
    """Text that can be sent, whatever it was: a file name in an error may be no Unicode."""
    return str(text).encode(errors="backslashreplace").decode()


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
