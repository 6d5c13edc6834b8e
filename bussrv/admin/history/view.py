"""``/api/v1/history`` and ``/api/v1/busiest``: figures of the past, and the busiest sessions and services."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import isnan
from typing import TypeVar

from msgspec import Struct

from bussrv.admin.history.busiest import Ranking, Sums
from bussrv.admin.history.columns import COLUMNS, Point, together
from bussrv.admin.history.history import RANKED, History
from bussrv.admin.history.levels import Level
from bussrv.admin.history.packing import Interval, Row
from bussrv.admin.http.answers import Answer, Problem, encode
from bussrv.admin.http.routes import Call
from bussrv.admin.registry.collections import Page, in_steps, page_of
from bussrv.journal.moments import parse_instant
from bussrv.journal.record import format_time

HOUR = 3600
MOST_POINTS = 2_000
POINTS = 600
"""How many intervals an answer has, unless the request says otherwise."""

MANY = 1_000_000
"""How many rows are summed up: more than all intervals have."""

TOUCHING = 0.75
"""Intervals follow each other if no more time is between them than this share of one."""

_DIGITS = ".6g"

_DIRECTIONS = ("objects_in", "objects_out", "bytes_in", "bytes_out")
_PUBLISHED = ("objects", "bytes")

T = TypeVar("T")


class MarkView(Struct, frozen=True):
    """Something that happened: ``started``, ``reloaded``, ``reload-failed`` or ``clock-set``."""

    time: str
    kind: str


class HistoryView(Struct, frozen=True, kw_only=True):
    """Figures of intervals, the oldest first. A time that no interval covers is a gap: the server did not run then.

    :ivar until: the end of the range that the request asked for.
    :ivar interval: the seconds of the intervals that the server has of this range. Several may be put together.
    :ivar times: the end of each interval.
    :ivar seconds: the length of each interval.
    :ivar figures: for each figure its values, one for each interval. Objects, bytes, denials and lost objects are those
        of a second, and ``cpu`` is the seconds of CPU in a second. Others are the highest value of the interval, except
        that intervals that were put together have the mean of their medians. Of one session or service there are only
        objects and bytes; ``null``: it was not among the busiest.
    """

    since: str
    until: str
    interval: int
    times: list[str]
    seconds: list[float]
    figures: dict[str, list[float | None]]
    marks: list[MarkView]


class BusySession(Struct, frozen=True, kw_only=True):
    """The traffic of a session in a range of time.

    :ivar name: what a person calls it.
    :ivar objects: in both directions; ``bytes``: the same.
    """

    session: str
    name: str
    protocol: str
    routing_id: str
    objects: int
    bytes: int
    objects_in: int
    objects_out: int
    bytes_in: int
    bytes_out: int


class BusyService(Struct, frozen=True, kw_only=True):
    """The publications on a service in a range of time, and the bytes of their payloads."""

    service: str
    objects: int
    bytes: int


def _moment(text: str | None, now: int, otherwise: int) -> int:
    """The time that a text means.

    :param text: a time, or seconds before the present, such as ``-3600``.
    :raises Problem: ``bad-parameter``: there is no such time.
    """
    if text is None:
        return otherwise
    if text.startswith("-"):
        return max(0, now + int(text) * 1_000_000)
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Problem("bad-parameter", str(error)) from error


def _range(call: Call) -> tuple[int, int]:
    """The range that a request asks for.

    :raises Problem: ``bad-parameter``: it has no length.
    """
    now = call.server.bus.utc()
    until = _moment(call.query["until"], now, now)
    since = _moment(call.query["since"], now, until - HOUR * 1_000_000)
    if since >= until:
        raise Problem("bad-parameter", "since is before until")
    return since, until


async def show(call: Call) -> Answer:
    """Figures of the past, at most 30 days, in intervals of a second, ten seconds or five minutes.

    :raises Problem: ``bad-parameter``.
    """
    since, until = _range(call)
    history = call.shared.history
    session, service = call.query["session"], call.query["service"]
    if session is not None and service is not None:
        raise Problem("bad-parameter", "either session or service")
    if session is not None:
        return await _of_one(call, history.sessions, session, since, until, _DIRECTIONS)
    if service is not None:
        return await _of_one(call, history.services, service, since, until, _PUBLISHED)
    level = next((each for each in history.levels if each.reaches(since)), history.levels[-1])
    points: list[Point] = []
    await in_steps(_thinned(history, level, since, until, call.query["points"], points), call.server.bus.slices)
    columns = zip(*(each.values for each in points), strict=True) if points else ([] for _ in COLUMNS)
    view = HistoryView(
        since=format_time(since),
        until=format_time(until),
        interval=level.seconds,
        times=[format_time(each.time) for each in points],
        seconds=[round(each.seconds, 3) for each in points],
        figures={name: [*map(_plain, column)] for name, column in zip(COLUMNS, columns, strict=True)},
        marks=_marks(history, since, until),
    )
    return Answer(encode(view))


def _marks(history: History, since: int, until: int) -> list[MarkView]:
    return [MarkView(format_time(each.time), each.kind) for each in history.marks if since <= each.time <= until]


async def _of_one(call: Call, ranking: Ranking, key: str, since: int, until: int, names: Sequence[str]) -> Answer:
    """The traffic of one session or service, in the intervals in which it was among the busiest."""
    found: list[tuple[Interval, Row | None]] = []
    await in_steps(_collected(ranking.series(key, since, until), found), call.server.bus.slices)
    rates = [
        [None] * len(names) if row is None else [each / ranked.seconds for each in (*row.objects, *row.bytes)]
        for ranked, row in found
    ]
    view = HistoryView(
        since=format_time(since),
        until=format_time(until),
        interval=round(min((ranked.seconds for ranked, _ in found), default=RANKED)),
        times=[format_time(ranked.time) for ranked, _ in found],
        seconds=[round(ranked.seconds, 3) for ranked, _ in found],
        figures={name: [each[index] for each in rates] for index, name in enumerate(names)},
        marks=_marks(call.shared.history, since, until),
    )
    return Answer(encode(view))


def _collected(items: Iterator[T], found: list[T]) -> Iterator[None]:
    for each in items:
        found.append(each)
        yield


def _plain(value: float) -> float | None:
    """A number with as many digits as it is exact."""
    return None if isnan(value) else float(format(value, _DIGITS))


def _thinned(history: History, level: Level, since: int, until: int, most: int, found: list[Point]) -> Iterator[None]:
    """Put intervals together until there are no more than ``most``, not counting gaps; one per step."""
    numbers = level.range(since, until)
    size = -(-len(numbers) // most)
    begun = history.begun(level)
    last = [begun] if begun is not None and since < begun.time <= until else []
    some: list[Point] = []
    for point in chain(map(level.point, numbers), last):
        if some and (len(some) == size or not _touch(some[-1], point, level.seconds)):
            found.append(together(some))
            some = []
            yield
        some.append(point)
    if some:
        found.append(together(some))
    yield


def _touch(one: Point, other: Point, seconds: int) -> bool:
    return (other.begin - one.time) / 1_000_000 <= TOUCHING * seconds


async def sessions(call: Call) -> Page:
    """The busiest sessions of a range of time, as far as the last 30 days, closed ones included."""
    rows = await _busiest(call, call.shared.history.sessions)
    return await page_of(call, map(_session, rows))


async def services(call: Call) -> Page:
    """The busiest services of a range of time, as far as the last 30 days."""
    rows = await _busiest(call, call.shared.history.services)
    return await page_of(
        call, (BusyService(service=each.about[0], objects=each.objects[0], bytes=each.bytes[0]) for each in rows)
    )


async def _busiest(call: Call, ranking: Ranking) -> Sequence[Row]:
    since, until = _range(call)
    sums = Sums(MANY)
    await in_steps(_add_all(sums, ranking.between(since, until)), call.server.bus.slices)
    return sums.busiest()


def _add_all(sums: Sums, intervals: Iterator[Sequence[Row]]) -> Iterator[None]:
    for rows in intervals:
        sums.add(rows)
        yield


def _session(row: Row) -> BusySession:
    session, name, protocol, routing_id = row.about
    return BusySession(
        session=session,
        name=name,
        protocol=protocol,
        routing_id=routing_id,
        objects=sum(row.objects),
        bytes=sum(row.bytes),
        objects_in=row.objects[0],
        objects_out=row.objects[1],
        bytes_in=row.bytes[0],
        bytes_out=row.bytes[1],
    )
