"""Rings of intervals: a second each for ten minutes, ten seconds for six hours, five minutes for thirty days. Pure.

All levels look at the same samples. So each interval has its own growth of totals and its own quantiles, and none is
made from shorter ones.

Intervals are sorted by time. A time without samples leaves a gap. The clock of the machine may be set: an interval
takes the place of those that end after it begins, and then the ring has no time twice.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import nan
from typing import Any

from msgspec import Struct

from bussrv.admin.history.columns import COLUMNS, Point, Sample, between

LEVELS = ((1, 600), (10, 2160), (300, 8640))
"""The seconds of an interval, and how many intervals are kept."""

EARLY = 0.5
"""An interval may end so many seconds early: samples are not taken exactly every second."""

SPARE = 16
"""One of so many intervals is kept beyond the limit, so that the first ones need not be removed one by one."""

_NUMBERS, _TIMES = "f", "q"


class StoredLevel(Struct, frozen=True, omit_defaults=True):
    """A ring, as the file has it: arrays of numbers in the byte order of the machine.

    :ivar is_whole: whether it has every interval that there ever was.
    """

    seconds: int
    times: bytes
    spans: bytes
    columns: dict[str, bytes]
    is_whole: bool


class Level:
    """A ring of intervals of one length.

    :param seconds: the length of an interval.
    :param most: how many are kept.
    """

    def __init__(self, seconds: int, most: int) -> None:
        self.seconds = seconds
        self.most = most
        self._times: array[Any] = array(_TIMES)
        self._spans: array[Any] = array(_NUMBERS)
        self._columns: list[array[Any]] = [array(_NUMBERS) for _ in COLUMNS]
        self._is_whole = True
        self._before: Sample | None = None
        self._peaks: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self._times)

    def take(self, sample: Sample) -> bool:
        """Take a sample. :returns: whether an interval ends with it."""
        if self._before is None:
            self._before, self._peaks = sample, sample.gauges
            return False
        self._peaks = [max(both) for both in zip(self._peaks, sample.gauges, strict=True)]
        if sample.mono - self._before.mono < self.seconds - EARLY:
            return False
        self.append(between(self._before, sample, self._peaks))
        self._before, self._peaks = sample, sample.gauges
        return True

    def begun(self, sample: Sample) -> Point | None:
        """The interval that has not ended yet, until a sample; ``None``: it has just begun."""
        if self._before is None or sample.mono - self._before.mono < EARLY:
            return None
        return between(self._before, sample, self._peaks)

    def append(self, point: Point) -> None:
        """Add an interval, in the place of those that end after it begins."""
        # Intervals that touch each other may overlap by as much as the clock was corrected.
        keep = bisect_right(self._times, point.begin + int(min(1.0, point.seconds) * 500_000))
        if keep < len(self._times):
            for each in self._arrays():
                del each[keep:]
        self._times.append(point.time)
        self._spans.append(point.seconds)
        for column, value in zip(self._columns, point.values, strict=True):
            column.append(value)
        if len(self._times) > self.most + self.most // SPARE:
            self._is_whole = False
            for each in self._arrays():
                del each[: -self.most]

    def _arrays(self) -> Iterator[array[Any]]:
        yield self._times
        yield self._spans
        yield from self._columns

    def reaches(self, begin: int) -> bool:
        """Whether nothing is missing here that there was since a time, UTC microseconds."""
        return self._is_whole or self.point(0).begin <= begin

    def point(self, index: int) -> Point:
        """The interval with a number."""
        return Point(self._times[index], self._spans[index], [column[index] for column in self._columns])

    def range(self, begin: int, end: int) -> range:
        """The numbers of the intervals that end after ``begin``, and not after ``end``, UTC microseconds."""
        return range(bisect_right(self._times, begin), bisect_right(self._times, end))

    def store(self, begun: Point | None = None) -> StoredLevel:
        """The ring for a file.

        :param begun: the interval that has not ended yet. After a restart, nobody could end it.
        """
        whole = Level(self.seconds, self.most)
        whole._replace(self)
        if begun is not None:
            whole.append(begun)
        columns = {name: column.tobytes() for name, column in zip(COLUMNS, whole._columns, strict=True)}
        return StoredLevel(
            self.seconds, whole._times.tobytes(), whole._spans.tobytes(), columns, is_whole=self._is_whole
        )

    def _replace(self, other: Level) -> None:
        self._times, self._spans = other._times[:], other._spans[:]
        self._columns = [column[:] for column in other._columns]
        self._is_whole = other._is_whole

    def load(self, stored: StoredLevel, byte_order: str) -> None:
        """Begin with the intervals of a file. Columns that it does not have are without values.

        :raises ValueError: it is not well-formed.
        """
        times, spans = _array(_TIMES, stored.times, byte_order), _array(_NUMBERS, stored.spans, byte_order)
        count = len(times)
        nothing = array(_NUMBERS, [nan]) * count
        found = [
            _array(_NUMBERS, stored.columns[name], byte_order) if name in stored.columns else nothing[:]
            for name in COLUMNS
        ]
        if any(len(each) != count for each in (spans, *found)):
            raise ValueError("columns differ in length")
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise ValueError("times are not in order")
        self._times, self._spans = times[-self.most :], spans[-self.most :]
        self._columns = [column[-self.most :] for column in found]
        self._is_whole = stored.is_whole and count <= self.most


def _array(kind: str, data: bytes, byte_order: str) -> array[Any]:
    """:raises ValueError: the bytes are no whole numbers of this kind."""
    found: array[Any] = array(kind)
    found.frombytes(data)
    if byte_order != sys.byteorder:
        found.byteswap()
    return found
