"""The time axis that all charts share: equal steps of a length that people use, UTC microseconds since 1970."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

MOST_STEPS = 240
"""About as many as can be told apart on a screen or on paper."""

MOST_TICKS = 7

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_FRACTIONS = tuple(factor * 10**power for power in range(6) for factor in (1, 2, 5))
_WIDTHS = (
    *_FRACTIONS,
    *(factor * SECOND for factor in (1, 2, 5, 10, 15, 30)),
    *(factor * MINUTE for factor in (1, 2, 5, 10, 15, 30)),
    *(factor * HOUR for factor in (1, 2, 3, 6, 12)),
)


class Axis(Struct, frozen=True):
    """What is looked at, in steps. Steps begin at round times, so the first and the last one may be seen in part only.

    :ivar begin: the first moment that is looked at.
    :ivar end: the last one.
    :ivar width: how long a step is.
    """

    begin: int
    end: int
    width: int

    @property
    def origin(self) -> int:
        """When the first step begins."""
        return self.begin // self.width * self.width

    @property
    def steps(self) -> int:
        """How many there are."""
        return (self.end - self.origin) // self.width + 1

    def starts(self, step: int) -> int:
        """When a step begins."""
        return self.origin + step * self.width

    def place(self, moment: int) -> float:
        """Where a moment is, 0 to 1."""
        return (moment - self.origin) / (self.steps * self.width)

    def seen(self, step: int, first: int, last: int) -> int:
        """How long of a step lies between two moments and is looked at."""
        begin = max(self.starts(step), self.begin, first)
        return max(0, min(self.starts(step + 1), self.end, last) - begin)

    def ticks(self) -> tuple[int, int, tuple[int, ...]]:
        """Round moments to write below a chart.

        :returns: how far they are apart, and the moments.
        """
        until = self.origin + self.steps * self.width
        width = next(each for each in _widths() if (until - 1) // each - (self.origin - 1) // each <= MOST_TICKS)
        first = -(-self.origin // width) * width
        return width, until, tuple(range(first, until, width))


def axis_between(begin: int, end: int) -> Axis:
    """The axis with the shortest steps that are not too many."""
    return next(axis for axis in (Axis(begin, end, width) for width in _widths()) if axis.steps <= MOST_STEPS)


def _widths() -> Iterator[int]:
    days = (factor * 10**power * DAY for power in range(9) for factor in (1, 2, 5))
    return chain(_WIDTHS, days)
