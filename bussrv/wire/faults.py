"""Sentences for faulty metadata: not JSON, or not as its reader wants it. Pure."""

from __future__ import annotations

import re
from typing import Any

import simplejson

from bussrv.errors import RemoteProtocolError


def check_text(metadata: bytes, max_nesting: int) -> None:
    """Check that metadata may be decoded.

    :raises RemoteProtocolError: ``bad-utf8`` or ``nesting-too-deep``.
    """
    if not metadata.isascii():
        _check_utf8(metadata)
    # Finding no further bracket takes a tenth of the time of counting all of them.
    may_nest = metadata.find(b"{", 1) >= 0 or b"[" in metadata
    position = too_deep(metadata, max_nesting) if may_nest else None
    if position is not None:
        raise RemoteProtocolError(
            "nesting-too-deep", f"metadata nests deeper than {max_nesting} levels at byte {position}", position
        )


def _check_utf8(metadata: bytes) -> None:
    try:
        metadata.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(
            "bad-utf8", f"metadata is not UTF-8: {error.reason} at byte {error.start}", error.start
        ) from error


# The closing quotation mark may be missing: a pattern that requires it takes quadratic time without one.
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _is_shallow(metadata: bytes, max_nesting: int) -> bool:
    """Whether brackets are balanced and nest no deeper. It takes far less time than to look at each bracket."""
    brackets = _STRING.sub(b"", metadata).translate(_ALIKE, _NO_BRACKETS)
    for _ in range(max_nesting):
        before = len(brackets)
        brackets = brackets.replace(b"[]", b"")  # one level: the innermost
        if len(brackets) == before:
            break
    return not brackets


def too_deep(text: bytes, max_nesting: int) -> int | None:
    """The place of the first bracket that nests deeper than so many levels; ``None``: there is none."""
    if text.count(b"{") + text.count(b"[") <= max_nesting or _is_shallow(text, max_nesting):
        return None
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        first = text[match.start()]
        if first in b"[{":
            depth += 1
            if depth > max_nesting:
                return match.start()
        elif first in b"]}":
            depth -= 1
    return None


class VeryLarge(float):
    """An integer of so many digits that Python refuses to convert it, because that would take long."""


def parse_int(digits: str) -> int | float:
    """An integer of JSON, however many digits it has."""
    try:
        return int(digits)
    except ValueError:
        return VeryLarge(digits)


def bad_json(text: str, error: Exception, what: str = "metadata is not JSON") -> RemoteProtocolError:
    """The error for text that a decoder refused with ``error``; ``what`` begins the sentence."""
    if not isinstance(error, simplejson.JSONDecodeError):
        return RemoteProtocolError("bad-json", f"{what}: {error}")
    position = len(text[: error.pos].encode())
    message = error.msg.removesuffix(" at").replace("%r", ascii(text[error.pos : error.pos + 1]))
    return RemoteProtocolError("bad-json", f"{what}: {message} at byte {position}", position)


_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F])|.)", re.DOTALL)


def half_of_a_pair(metadata: bytes) -> RemoteProtocolError | None:
    """The error for JSON that escapes half of a surrogate pair: simplejson takes it, yet it is no text."""
    position = next((escape.start() for escape in _ESCAPE.finditer(metadata) if escape["half"]), None)
    if position is None:
        return None
    return RemoteProtocolError("bad-utf8", f"metadata holds half of a surrogate pair at byte {position}", position)


def brief(value: Any) -> str:
    """A value of JSON as a sentence shows it: itself if short, otherwise its kind."""
    text = simplejson.dumps(value, allow_nan=True)
    if len(text) <= 40 and "Infinity" not in text:
        return text
    return "a very large number" if isinstance(value, (int, float)) else json_kind(value)


def json_kind(value: Any) -> str:
    """The kind of a JSON value."""
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
