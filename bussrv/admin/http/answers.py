"""Answers to requests, before they are sent. Those to requests that fail are problems (RFC 9457), with stable codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from bussrv.errors import BussrvError

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


MEDIA_TYPE = "application/problem+json"
URN = "urn:bussrv:problem:"


class Sort(Struct, frozen=True):
    """A sort of problem.

    :ivar status: the status code of HTTP.
    :ivar title: a sentence that is the same for each problem of the sort.
    """

    status: int
    title: str


PROBLEMS: dict[str, Sort] = {
    "bad-request": Sort(400, "the request is not well-formed HTTP, or its path is not UTF-8"),
    "bad-parameter": Sort(400, "a parameter of the query is unknown or has a wrong value"),
    "bad-body": Sort(400, "the body is not the JSON that the path takes"),
    "not-authenticated": Sort(401, "the request needs credentials"),
    "bad-credentials": Sort(401, "there is no such user, or the secret or the token is wrong"),
    "not-allowed": Sort(403, "the user may not do that"),
    "bad-origin": Sort(403, "the request comes from a page of another host"),
    "not-found": Sort(404, "there is nothing at this path"),
    "no-such-session": Sort(404, "there is no open session with this id"),
    "no-such-service": Sort(404, "nobody provides this service or is subscribed to it"),
    "no-such-subscription": Sort(404, "the session is not subscribed to this service"),
    "no-such-link": Sort(404, "no link to a server with this routing id was lost"),
    "no-such-part": Sort(404, "the log has no part with this name"),
    "no-report": Sort(404, "no audit that was asked for here has a report"),
    "no-such-incident": Sort(404, "no incident with this id is known"),
    "no-such-moment": Sort(404, "the journal has no such moment"),
    "no-journal": Sort(404, "this server has no journal"),
    "bad-method": Sort(405, "the path does not take this method"),
    "request-timeout": Sort(408, "the request did not arrive in time"),
    "body-too-large": Sort(413, "the body is larger than the limit"),
    "bad-content-type": Sort(415, "writes and streams need Content-Type: application/json"),
    "bad-host": Sort(421, "the Host header names another host than this server"),
    "too-many-requests": Sort(
        429, "there were more requests from one user or address in a second than the limit allows"
    ),
    "too-many-logins": Sort(429, "too many logins of the user wait at the same address, so this one was not checked"),
    "head-too-large": Sort(431, "the head of the request is larger than the limit"),
    "internal-error": Sort(500, "the server failed to answer; its log says more"),
    "bad-cursor": Sort(409, "`after` is not the `next` of a page that was sorted like this one"),
    "not-here": Sort(409, "only the server that a session belongs to can change it"),
    "link-wanted": Sort(409, "the link is up, or the configuration asks for it"),
    "reload-failed": Sort(409, "the configuration cannot be used, so nothing changed"),
    "journal-unreadable": Sort(409, "the journal is damaged, or does not reach as far back or forth"),
    "journal-unavailable": Sort(503, "the journal cannot be written, so nothing was done"),
    "seal-late": Sort(503, "the journal was not sealed in time; the log says why"),
    "journal-too-long": Sort(503, "reading so much of the journal takes too long"),
    "too-busy": Sort(503, "too many requests wait for the journal to be read"),
    "too-many-streams": Sort(503, "there are as many streams of events as the limit allows"),
}
"""Every sort of problem, by its code."""


class Details(Struct, frozen=True, omit_defaults=True, rename={"kind": "type"}):
    """The body of a problem, RFC 9457.

    :ivar kind: the code, as a URN.
    :ivar detail: a sentence about this problem.
    :ivar instance: the path of the request.
    """

    kind: str
    title: str
    status: int
    detail: str
    instance: str = ""


class Problem(BussrvError):
    """A request is answered with a problem.

    :param code: a code of :data:`PROBLEMS`.
    :param detail: one sentence about this problem.
    :param headers: further headers of the answer.
    """

    def __init__(self, code: str, detail: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail or PROBLEMS[code].title)
        self.code = code
        self.headers = headers or {}

    def answer(self, instance: str = "") -> Answer:
        """The answer to a request for the path ``instance``."""
        sort = PROBLEMS[self.code]
        details = Details(URN + self.code, sort.title, sort.status, str(self), instance)
        return Answer(encode(details), MEDIA_TYPE, sort.status, self.headers)


def encode(value: Any) -> bytes:
    """A value as JSON."""
    return msgspec.json.encode(value)
