"""The busiest of each interval: the sessions, or the services, with most traffic. Pure.

A ranking takes the traffic of ten seconds, and keeps the rows with the largest share of the objects or of the bytes.
Longer intervals are made from those rows. So a session that is not among the busiest of any ten seconds is in no
ranking; and memory is bounded, however many there are. If there are ever others, whose names take room, the oldest
hours keep fewer rows, and only then are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bussrv.admin.history.packing import Block, Interval, Row, block_of, intervals_of

MOST_ROWS = 100
"""How many rows an interval keeps."""

LEAST_ROWS = 25
"""How many rows the intervals of old blocks keep if there is no room for all."""

LEVELS = ((10, 60, 6), (300, 72, 12), (3600, 720, 24))
"""The seconds of an interval, how many intervals are kept, and how many are packed together."""

SESSIONS_BYTES, SERVICES_BYTES = 1_300_000, 550_000
"""The most bytes of the intervals of a ranking: of the sessions, and of the services."""

MANY = 4
"""An interval that has not ended holds at most so many times the rows that it will keep."""

LONGEST = 120
"""The most characters of a text that is kept."""


class Rate(NamedTuple):
    """Objects and bytes in a second, in all directions."""

    objects: float
    bytes: float


def _cut(about: Iterable[str]) -> tuple[str, ...]:
    return tuple(each if len(each) <= LONGEST else f"{each[: LONGEST - 1]}…" for each in about)


def busiest(rows: Sequence[Row], most: int) -> list[Row]:
    """The rows with the largest shares of the objects or of the bytes, the largest first."""
    objects = sum(sum(each.objects) for each in rows) or 1
    size = sum(sum(each.bytes) for each in rows) or 1
    return sorted(rows, key=lambda each: -max(sum(each.objects) / objects, sum(each.bytes) / size))[:most]


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
    """Intervals of one length.

    :param most: how many are kept, and perhaps those that are packed with the oldest one.
    :param together: how many are packed together.
    :ivar is_whole: whether nothing was forgotten.
    """

    def __init__(self, seconds: int, most: int, together: int) -> None:
        self.seconds = seconds
        self._most = most
        self._together = together
        self.blocks: deque[Block] = deque()
        self.is_whole = True
        self.begin_anew()

    def begin_anew(self) -> None:
        """An interval begins."""
        self.sums = Sums(MOST_ROWS)
        self.passed = 0.0

    def begun(self, time: int) -> list[Block]:
        """The interval that has not ended yet."""
        return [block_of([Interval(time, self.passed, self.sums.busiest())])] if self.passed else []

    def add(self, block: Block) -> None:
        """Keep intervals, in the place of those that end after the first one begins."""
        self._make_way(block.begin + 500_000)
        self.blocks.append(block)
        while sum(each.length for each in self.blocks) - self.blocks[0].length >= self._most:
            self.forget_oldest()
        last = [*self.blocks][-self._together :]
        if len(last) == self._together and all(each.length == 1 for each in last):
            for _ in last:
                self.blocks.pop()
            self.blocks.append(block_of([interval for each in last for interval in intervals_of(each)]))

    def _make_way(self, begin: float) -> None:
        while self.blocks and self.blocks[-1].end > begin:
            earlier = [each for each in intervals_of(self.blocks.pop()) if each.time <= begin]
            if earlier:
                self.blocks.append(block_of(earlier))

    def forget_oldest(self) -> None:
        """Forget the oldest intervals."""
        self.blocks.popleft()
        self.is_whole = False

    def thin_oldest(self) -> int:
        """Halve the rows of the oldest intervals that have more than ``LEAST_ROWS``. :returns: the bytes won."""
        for index, block in enumerate(self.blocks):
            if block.rows > LEAST_ROWS:
                most = max(LEAST_ROWS, block.rows // 2)
                thin = block_of([each._replace(rows=each.rows[:most]) for each in intervals_of(block)])
                self.blocks[index] = thin
                return len(block.packed) - len(thin.packed)
        return 0


class Ranking:
    """The busiest of a kind: of the last ten minutes, six hours, and thirty days.

    :param most_bytes: how many the packed intervals take at most.
    :ivar latest: the rows of the last ten seconds, all of them, by their first text.
    :ivar latest_seconds: how long these were.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
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
                for each in level.begun(time):
                    level.add(each)
                level.begin_anew()
        self._cut_to_size()

    def _cut_to_size(self) -> None:
        size = sum(len(each.packed) for level in self._levels for each in level.blocks)
        longest = self._levels[-1]
        while size > self._most_bytes and (won := longest.thin_oldest()):
            size -= won
        for level in reversed(self._levels):
            while size > self._most_bytes and level.blocks:
                size -= len(level.blocks[0].packed)
                level.forget_oldest()

    def rate(self, key: str) -> Rate:
        """The rate of a session or service in the last ten seconds."""
        row, seconds = self.latest.get(key), self.latest_seconds
        return Rate(0.0, 0.0) if row is None else Rate(sum(row.objects) / seconds, sum(row.bytes) / seconds)

    def between(self, begin: int, end: int) -> Iterator[Sequence[Row]]:
        """The rows of the intervals that end after ``begin``, and not after ``end``, in the finest level that has all
        of them; first those that have not ended yet.
        """
        level = self._level(begin)
        if not level.blocks or end > level.blocks[-1].end:
            yield level.sums.busiest()
        for each in _within(level, begin, end):
            yield each.rows

    def series(self, key: str, begin: int, end: int) -> Iterator[tuple[Interval, Row | None]]:
        """The intervals as :meth:`between` has them, each with the row of one session or service.

        ``None``: it was not among the busiest of the interval.
        """
        for each in _within(self._level(begin), begin, end):
            yield each, next((row for row in each.rows if row.about[0] == key), None)

    def _level(self, begin: int) -> _Level:
        """The finest level that has all intervals since a time, UTC microseconds."""
        return next((each for each in self._levels if _reaches(each, begin)), self._levels[-1])

    def store(self, time: int) -> list[list[Block]]:
        """All levels for a file, with the intervals that have not ended yet: after a restart, nobody could end them.

        :param time: the present, UTC microseconds.
        """
        return [[*level.blocks, *level.begun(time)] for level in self._levels]

    def load(self, stored: Sequence[Sequence[Block]]) -> None:
        """Begin with the intervals of a file.

        :raises ValueError: it is not well-formed.
        """
        for level, blocks in zip(self._levels, stored, strict=True):
            for each in blocks:
                level.add(block_of(intervals_of(each)))
        self._cut_to_size()


def _within(level: _Level, begin: int, end: int) -> Iterator[Interval]:
    """The intervals of a level that end after ``begin``, and not after ``end``."""
    for block in tuple(level.blocks):
        if block.end > begin and block.begin < end:
            yield from (each for each in intervals_of(block) if begin < each.time <= end)


def _reaches(level: _Level, begin: int) -> bool:
    return level.is_whole or (bool(level.blocks) and level.blocks[0].begin <= begin)
