"""Payloads for people: their content type, and a line that shows them."""

from __future__ import annotations

UTF8_TEXT, OCTET_STREAM = "text/plain; charset=UTF-8", "application/octet-stream"

MOST_SHOWN = 1000
"""The most characters of a payload in a line."""


def type_of(payload: bytes) -> str:
    """The content type of a payload: text if it is UTF-8, else bytes."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return OCTET_STREAM
    return UTF8_TEXT


def shown(payload: bytes, content_type: str | None, most: int = MOST_SHOWN) -> str:
    """A payload in a line: its text, or its size and type.

    :param most: the most characters.
    """
    import codecs

    head = payload[: most * 4]
    try:
        # The last character of a head may be cut.
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) == len(payload))
    except UnicodeDecodeError:
        return f"({len(payload)} bytes{f' of {content_type}' if content_type else ''})"
    return text if len(text) <= most else f"{text[:most]}… ({len(payload)} bytes)"
