"""Answers to requests, before they are sent."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

JSON = "application/json"


class Answer(Struct, frozen=True):
    """An answer that is complete.

    :ivar headers: further ones, besides those that every answer has.
    """

    body: bytes
    media_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = {}
