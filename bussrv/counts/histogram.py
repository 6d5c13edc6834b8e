"""How long something took, counted by size: cheap to count, and good enough for quantiles. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (*(digit * 10.0**power for power in range(-5, 1) for digit in (1, 2.5, 5)), 10.0)
"""The upper bounds of the buckets, from 10 microseconds to 10 seconds."""


class Histogram:
    """Counts of times. One thread counts; another one may read.

    :ivar counts: how many were in each bucket; the last one has those above all bounds.
    :ivar total: all of them together, in seconds.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds


def quantile(counts: Sequence[int], share: float) -> float | None:
    """The time that a share of those in the buckets did not exceed; ``None``: there are none.

    Within a bucket, times count as evenly spread. Above all bounds, the last bound is returned.
    """
    wanted = share * sum(counts)
    if not wanted:
        return None
    passed, lower = 0, 0.0
    for count, upper in zip(counts, SECONDS, strict=False):
        if count and passed + count >= wanted:
            return lower + (upper - lower) * (wanted - passed) / count
        passed += count
        lower = upper
    return SECONDS[-1]
