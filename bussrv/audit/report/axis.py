"""The time axis of all charts: equal steps of a round length. Times are UTC microseconds since 1970."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

MOST_STEPS = 240
"""About as many steps as can be told apart on a screen or on paper."""

MOST_TICKS = 7

WIDE, NARROW = 34.0, 21.0
"""The least width of an axis on wide screens and paper, and on narrow screens. Unit: the height of its text."""

CHARACTER = 0.64
"""The most width of a digit, in the same unit."""

GAP = 0.9
"""The least distance between two labels, in the same unit."""

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
    """A period in steps. Steps begin at round times, so only a part of the first and the last one may be in the period.

    :ivar begin: the first moment of the period.
    :ivar end: the last one.
    :ivar width: how long a step is.
    """

    begin: int
    end: int
    width: int

    @property
    def origin(self) -> int:
        """The beginning of the first step."""
        return self.begin // self.width * self.width

    @property
    def steps(self) -> int:
        """The number of steps."""
        return (self.end - self.origin) // self.width + 1

    def starts(self, step: int) -> int:
        """The beginning of a step."""
        return self.origin + step * self.width

    def place(self, moment: int) -> float:
        """The place of a moment on the axis, 0 to 1."""
        return (moment - self.origin) / (self.steps * self.width)

    def seen(self, step: int, first: int, last: int) -> int:
        """The part of a step that is in the period and between two moments, in microseconds."""
        begin = max(self.starts(step), self.begin, first)
        return max(0, min(self.starts(step + 1), self.end, last) - begin)

    def ticks(self) -> tuple[int, int, tuple[int, ...]]:
        """Round moments for the labels below a chart.

        :returns: their distance, the end of the last step, and the moments.
        """
        until = self.origin + self.steps * self.width
        width = next(each for each in _widths() if (until - 1) // each - (self.origin - 1) // each <= _most(each))
        first = -(-self.origin // width) * width
        return width, until, tuple(range(first, until, width))


def axis_between(begin: int, end: int) -> Axis:
    """The axis with the shortest steps, at most ``MOST_STEPS``."""
    return next(axis for axis in (Axis(begin, end, width) for width in _widths()) if axis.steps <= MOST_STEPS)


def _most(width: int) -> int:
    """The number of labels that fit, for moments at that distance."""
    return min(MOST_TICKS, int(WIDE / (CHARACTER * _characters(width) + GAP)))


def _characters(width: int) -> int:
    """The number of characters of a label, for moments at that distance."""
    if width >= DAY:
        return len("21 Nov")
    if width >= MINUTE:
        return len("14:02")
    fraction = f"{width % SECOND:06}".rstrip("0")
    return len("14:02:03") + (1 + len(fraction) if fraction else 0)


def _widths() -> Iterator[int]:
    days = (factor * 10**power * DAY for power in range(9) for factor in (1, 2, 5))
    return chain(_WIDTHS, days)


class Label(Struct, frozen=True):
    """A label below an axis, in one or two lines.

    :ivar place: its place on the axis, 0 to 1.
    """

    place: float
    above: str
    below: str | None

    @property
    def width(self) -> float:
        """Unit: the height of a line."""
        return CHARACTER * max(len(self.above), len(self.below or ""))

    def span(self, length: float) -> tuple[float, float]:
        """Its left and right edge on an axis of that length: centred on its place, within the ends."""
        left = max(0.0, min(self.place * length - self.width / 2, length - self.width))
        return left, left + self.width


def fitting(labels: Sequence[Label], length: float) -> list[Label]:
    """The labels that do not overlap on an axis of that length or longer. Those of two lines are preferred."""
    chosen: list[Label] = []
    for label in sorted(labels, key=lambda each: each.below is None):
        left, right = label.span(length)
        others = (each.span(length) for each in chosen)
        if all(right + GAP <= begin or end + GAP <= left for begin, end in others):
            chosen.append(label)
    return chosen
