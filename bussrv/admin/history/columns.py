"""What is kept of each interval, and how intervals are put together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import NamedTuple

from bussrv.counts.histogram import quantile

RATES = ("objects_in", "objects_out", "bytes_in", "bytes_out", "denials", "lost_objects", "cpu")
"""Totals that grow. An interval keeps the growth in a second. ``cpu`` is seconds of CPU in a second."""

GAUGES = ("sessions", "services", "subscriptions", "links", "waiting_bytes", "memory_bytes", "descriptors")
"""Values of a moment. An interval keeps the highest one."""

MEDIANS = ("delivery_p50", "sync_p50")
TAILS = ("delivery_p99", "sync_p99")
"""Times in seconds; ``nan``: nothing was delivered, or written, in the interval."""

COLUMNS = (*RATES, *GAUGES, *MEDIANS, *TAILS)


class Sample(NamedTuple):
    """The server at a moment.

    :ivar utc: the time of day, microseconds.
    :ivar mono: seconds of a clock that is never set.
    :ivar totals: a value for each of :data:`RATES`, since the start.
    :ivar gauges: a value for each of :data:`GAUGES`.
    :ivar histograms: the counts of the times of delivery and of the journal, since the start.
    """

    utc: int
    mono: float
    totals: tuple[float, ...]
    gauges: tuple[float, ...]
    histograms: tuple[tuple[int, ...], tuple[int, ...]]


class Point(NamedTuple):
    """The figures between two moments.

    :ivar time: its end, UTC microseconds.
    :ivar seconds: its length.
    :ivar values: one for each of :data:`COLUMNS`; ``nan``: there is none.
    """

    time: int
    seconds: float
    values: Sequence[float]

    @property
    def begin(self) -> int:
        """Its beginning, UTC microseconds."""
        return self.time - round(self.seconds * 1_000_000)


def between(before: Sample, now: Sample, peaks: Sequence[float]) -> Point:
    """The interval between two samples.

    :param peaks: the highest value of each of :data:`GAUGES` in it.
    """
    seconds = now.mono - before.mono
    # A count may get less for a moment; see bussrv.bus.sessions.totals.
    rates = [max(0.0, later - earlier) / seconds for later, earlier in zip(now.totals, before.totals, strict=True)]
    grown = [
        [later - earlier for later, earlier in zip(*both, strict=True)]
        for both in zip(now.histograms, before.histograms, strict=True)
    ]
    times = [quantile(counts, share) for share in (0.5, 0.99) for counts in grown]
    return Point(now.utc, seconds, (*rates, *peaks, *(nan if each is None else each for each in times)))


def together(points: Sequence[Point]) -> Point:
    """Some intervals, one after the other, as one: the mean of rates and medians, and the highest of all others."""
    if len(points) == 1:
        return points[0]
    seconds = sum(each.seconds for each in points)
    columns = zip(*(each.values for each in points), strict=True)
    spans = [each.seconds for each in points]
    means = frozenset((*RATES, *MEDIANS))
    values = [
        _mean(column, spans) if name in means else _highest(column)
        for name, column in zip(COLUMNS, columns, strict=True)
    ]
    return Point(points[-1].time, seconds, values)


def _mean(values: Iterable[float], weights: Iterable[float]) -> float:
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if not isnan(value)]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else nan


def _highest(values: Iterable[float]) -> float:
    return max((each for each in values if not isnan(each)), default=nan)
