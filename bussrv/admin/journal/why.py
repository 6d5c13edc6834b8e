"""Why a session was given an object, or was not: the decisions of a moment, made again from the journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bussrv.admin.http.answers import Problem
from bussrv.admin.http.routes import Call
from bussrv.admin.journal.past import REGISTRY_TIME
from bussrv.admin.journal.reading import Pace, TooLong
from bussrv.errors import JournalError
from bussrv.journal.moments import END, Moment, parse_moment
from bussrv.values import OCTET_STREAM
from bussrv.why.answer import Answer, answer
from bussrv.why.past import past_of
from bussrv.why.question import NobodyFound, Question, about_object, about_publication, about_request


async def show(call: Call) -> Answer:
    """Whether each session was given an object, a publication or a request at a moment, and why. One of `object`,
    `service` and `request` says what is asked about.

    :raises Problem: ``bad-parameter``, ``no-such-moment``, ``no-journal``, ``journal-unreadable``, ``journal-too-long``
        or ``too-busy``.
    """
    directory, query = call.journal.directory, call.query
    try:
        moment = END if query["at"] is None else parse_moment(query["at"])
    except ValueError as error:
        raise Problem("no-such-moment", str(error)) from error
    question = _question(call)
    pace = Pace(REGISTRY_TIME * call.server.bus.settings.admin_read_timeout)
    try:
        return await call.shared.reading.do(_answer, directory, moment, question, query["to"], pace)
    except TooLong:
        raise Problem("journal-too-long") from None
    except NobodyFound as error:
        raise Problem("bad-parameter", str(error)) from error
    except JournalError as error:
        raise Problem("journal-unreadable", str(error)) from error


def _question(call: Call) -> Question:
    query = call.query
    try:
        return _asked(query).knowing(query["turn"], query["asker"])
    except ValueError as error:
        raise Problem("bad-parameter", str(error)) from error


def _asked(query: Mapping[str, Any]) -> Question:
    given = [name for name in ("object", "service", "request") if query[name] is not None]
    if len(given) != 1:
        raise Problem("bad-parameter", "give one of object, service and request")
    if query["type"] is not None and given != ["service"]:
        raise Problem("bad-parameter", "type goes with service")
    if given == ["service"]:
        return about_publication(query["service"], query["type"] or OCTET_STREAM, query["from"])
    if given == ["request"]:
        return about_request(query["request"], query["from"])
    try:
        return about_object(query["object"], query["from"])
    except ValueError as error:
        raise Problem("bad-parameter", f"object: {error}") from error


def _answer(directory: Path, moment: Moment, question: Question, to: str | None, pace: Pace) -> Answer:
    def step() -> None:
        if pace.step():
            raise TooLong

    return answer([past_of(directory, moment, pause=step)], question, to, step)
