"""Answers to requests, before they are sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus

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


def phrase(status: int) -> str:
    """The reason phrase of a status."""
    return HTTPStatus(status).phrase


def date(utc: int) -> str:
    """A time as in the header ``Date``; RFC 9110, 5.6.7.

    :param utc: UTC microseconds.
    """
    return formatdate(utc // 1_000_000, usegmt=True)


_TAG = re.compile(r'(?:W/)?("[^"]*")')


def is_known(tag: str, if_none_match: str) -> bool:
    """Whether the client has the answer with this ``ETag``; RFC 9110, 13.1.2.

    :param if_none_match: the header ``If-None-Match``; ``*`` stands for any answer.
    """
    return is_any(if_none_match) or tag in _TAG.findall(if_none_match)


def is_any(if_none_match: str) -> bool:
    """Whether the client wants an answer only if there is nothing at the path."""
    return if_none_match.strip() == "*"
