"""The busiest of each interval: the sessions, or the services, with most traffic. Pure.

A ranking takes the traffic of ten seconds, and keeps the rows with the largest share of the objects or of the bytes.
Longer intervals are made from those rows. So a session that is not among the busiest of any ten seconds is in no
ranking; and memory is bounded, however many there are.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

MOST_ROWS = 100
"""How many rows an interval keeps."""

LEVELS = ((10, 60, MOST_ROWS), (300, 72, MOST_ROWS), (3600, 720, 25))
"""The seconds of an interval, how many intervals are kept, and how many rows of each."""

MOST_BYTES = 1 << 20
"""The most bytes of the intervals of a ranking. Beyond it the oldest of the longest intervals is forgotten."""

MANY = 8
"""An interval that has not ended holds at most so many times the rows that it will keep."""

LONGEST = 120
"""The most characters of a text that is kept."""

_FAST = 1

Numbers = tuple[int, ...]


class Row(NamedTuple):
    """The traffic of one session or service.

    :ivar about: texts that tell who it is. The first one identifies it.
    :ivar objects: numbers of objects, one for each direction. ``bytes``: the same of bytes.
    """

    about: tuple[str, ...]
    objects: Numbers
    bytes: Numbers

    def plus(self, later: Row) -> Row:
        """The traffic of the same one, with more of it."""
        return Row(later.about, _sum(self.objects, later.objects), _sum(self.bytes, later.bytes))


class Rate(NamedTuple):
    """Objects and bytes in a second, in all directions."""

    objects: float
    bytes: float


class Ranked(NamedTuple):
    """The busiest of an interval.

    :ivar time: its end, UTC microseconds.
    :ivar packed: the rows.
    """

    time: int
    seconds: float
    packed: bytes


_decode = msgspec.msgpack.Decoder(list[Row]).decode


def _cut(about: Iterable[str]) -> tuple[str, ...]:
    return tuple(each if len(each) <= LONGEST else f"{each[: LONGEST - 1]}…" for each in about)


def busiest(rows: Sequence[Row], most: int) -> list[Row]:
    """The rows with the largest shares of the objects or of the bytes, the largest first."""
    objects = sum(sum(each.objects) for each in rows) or 1
    size = sum(sum(each.bytes) for each in rows) or 1
    return sorted(rows, key=lambda each: -max(sum(each.objects) / objects, sum(each.bytes) / size))[:most]


def _sum(one: Numbers, other: Numbers) -> Numbers:
    return tuple(map(sum, zip(one, other, strict=True)))


class Sums:
    """The traffic of an interval that has not ended: bounded, so that what is rare may be forgotten.

    :param most: how many rows are of interest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[str, Row] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add some traffic."""
        for row in rows:
            key = row.about[0]
            before = self._rows.get(key)
            self._rows[key] = row if before is None else before.plus(row)
        if len(self._rows) > MANY * self._most:
            self._rows = {each.about[0]: each for each in self.busiest(MANY // 2 * self._most)}

    def busiest(self, most: int | None = None) -> list[Row]:
        """The busiest so far."""
        return busiest(tuple(self._rows.values()), self._most if most is None else most)


class _Level:
    """Intervals of one length."""

    def __init__(self, seconds: int, most: int, rows: int) -> None:
        self.seconds = seconds
        self.rows = rows
        self.kept: deque[Ranked] = deque(maxlen=most)
        self.is_whole = True
        self.begin_anew()

    def begin_anew(self) -> None:
        """An interval begins."""
        self.sums = Sums(self.rows)
        self.passed = 0.0

    def add(self, ranked: Ranked) -> None:
        """Keep an interval, in the place of those that end after it begins."""
        begin = ranked.time - ranked.seconds * 1_000_000
        while self.kept and self.kept[-1].time > begin + 500_000:
            self.kept.pop()
        self.is_whole = self.is_whole and len(self.kept) < (self.kept.maxlen or 0)
        self.kept.append(ranked)


class Ranking:
    """The busiest of a kind: of the last ten minutes, six hours, and thirty days.

    :ivar latest: the rows of the last ten seconds, all of them, by their first text.
    :ivar latest_seconds: how long these were.
    """

    def __init__(self) -> None:
        self._levels = [_Level(*each) for each in LEVELS]
        self.latest: Mapping[str, Row] = {}
        self.latest_seconds = 1.0

    def add(self, rows: Sequence[Row], time: int, seconds: float) -> None:
        """Add the traffic of the shortest interval, which ends now.

        :param time: UTC microseconds.
        :param seconds: its length.
        """
        self.latest, self.latest_seconds = {each.about[0]: each for each in rows}, seconds
        best = [Row(_cut(row.about), row.objects, row.bytes) for row in busiest(rows, MOST_ROWS)]
        for level in self._levels:
            level.sums.add(best)
            level.passed += seconds
            if level.passed >= level.seconds - 1:
                level.add(Ranked(time, level.passed, pack(level.sums.busiest())))
                level.begin_anew()
        self._cut_to_size()

    def _cut_to_size(self) -> None:
        size = sum(len(each.packed) for level in self._levels for each in level.kept)
        for level in reversed(self._levels):
            while size > MOST_BYTES and level.kept:
                size -= len(level.kept.popleft().packed)
                level.is_whole = False

    def rate(self, key: str) -> Rate:
        """The rate of a session or service in the last ten seconds."""
        row, seconds = self.latest.get(key), self.latest_seconds
        return Rate(0.0, 0.0) if row is None else Rate(sum(row.objects) / seconds, sum(row.bytes) / seconds)

    def between(self, begin: int, end: int) -> Iterator[Sequence[Row]]:
        """The rows of the intervals that end after ``begin``, and not after ``end``, in the finest level that has all
        of them; first those that have not ended yet.
        """
        level = self._level(begin)
        found = [each for each in level.kept if begin < each.time <= end]
        if not level.kept or end > level.kept[-1].time:
            yield level.sums.busiest()
        for each in found:
            yield unpack(each.packed)

    def series(self, key: str, begin: int, end: int) -> Iterator[tuple[Ranked, Row | None]]:
        """The intervals as :meth:`between` has them, each with the row of one session or service.

        ``None``: it was not among the busiest of the interval.
        """
        level = self._level(begin)
        for each in tuple(level.kept):
            if begin < each.time <= end:
                yield each, next((row for row in unpack(each.packed) if row.about[0] == key), None)

    def _level(self, begin: int) -> _Level:
        """The finest level that has all intervals since a time, UTC microseconds."""
        return next((each for each in self._levels if _reaches(each, begin)), self._levels[-1])

    def store(self, time: int) -> list[list[Ranked]]:
        """All levels for a file, with the intervals that have not ended yet: after a restart, nobody could end them.

        :param time: the present, UTC microseconds.
        """
        return [
            [*level.kept, *([Ranked(time, level.passed, pack(level.sums.busiest()))] if level.passed else [])]
            for level in self._levels
        ]

    def load(self, stored: Sequence[Sequence[Ranked]]) -> None:
        """Begin with the intervals of a file.

        :raises ValueError: it is not well-formed.
        """
        for level, kept in zip(self._levels, stored, strict=True):
            for each in kept:
                unpack(each.packed)
                level.add(each)
        self._cut_to_size()


def _reaches(level: _Level, begin: int) -> bool:
    if level.is_whole or not level.kept:
        return level.is_whole
    first = level.kept[0]
    return first.time - first.seconds * 1_000_000 <= begin


def pack(rows: Sequence[Row]) -> bytes:
    """Rows as few bytes."""
    return zlib.compress(msgspec.msgpack.encode(rows), _FAST)


def unpack(packed: bytes) -> list[Row]:
    """The rows. :raises ValueError: these are none."""
    try:
        return _decode(zlib.decompress(packed))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
