"""Charts: their time axis, in equal steps of a round length, and their geometry, as paths of an SVG drawing that is one
unit wide for each step and 100 high. The macros of ``macros.html`` write the drawing, and the texts beside it.

Times are UTC microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby

from msgspec import Struct

from bussrv.audit.report import text

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

MOST_ROWS = 24
"""Rows of the table below a chart."""

_HIGHEST = 97.0
_LEAST_NOTCH = 0.15
_LEAST_BAR = 0.03


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


class Shape(Struct, frozen=True):
    """A path, and the CSS class that it is drawn with."""

    kind: str
    path: str


class Chart(Struct, frozen=True):
    """A drawing.

    :ivar values: the numbers of each step, for the script: those of a series parted by commas, series by semicolons.
    :ivar names: what each series counts, parted by semicolons.
    :ivar most: the number at the top of the drawing.
    """

    shapes: tuple[Shape, ...]
    values: str
    names: str
    most: int = 0


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


class Tick(Struct, frozen=True):
    """A label below a chart. Minor ones are hidden on narrow screens."""

    label: Label
    is_minor: bool


class StepTable(Struct, frozen=True):
    """The numbers of a chart.

    :ivar width: how long a row is, in microseconds.
    """

    width: int
    rows: list[tuple[int, ...]]


def curves(axis: Axis, most: Sequence[int], last: Sequence[int]) -> Chart:
    """The most in each step as a line, and the number at its end as an area."""
    scale = max(most, default=0) or 1
    shapes = (
        _grid(axis),
        Shape("area", _area([value / scale for value in last])),
        Shape("line", _line([value / scale for value in most])),
    )
    return Chart(shapes, _joined(most, last), "at most;at the end", max(most, default=0))


def mirrored(axis: Axis, above: Sequence[int], below: Sequence[int], names: Sequence[str]) -> Chart:
    """One number in each step as a bar upwards, another one as a bar downwards, on the same scale."""
    most = max((*above, *below), default=0)
    shapes = (
        _grid(axis),
        Shape("above", _bars([value / (most or 1) for value in above], 50, -48)),
        Shape("below", _bars([value / (most or 1) for value in below], 50, 48)),
        Shape("middle", f"M0 50H{axis.steps}"),
    )
    return Chart(shapes, _joined(above, below), ";".join(names), most)


def lane(shares: Sequence[float | None]) -> Chart:
    """The share of each step in which something was there. ``None``: not known.

    The hatched background shows the rest. Short gaps are drawn wide enough to be seen.
    """
    there, blank = [], []
    x = 0
    for value, group in groupby(shares):
        begin, x = x, x + len(list(group))
        if value is None:
            blank.append(f"M{begin} 0H{x}V100H{begin}z")
        elif value > 0:
            height = 1.0 if value >= 1 else min(max(value, _LEAST_NOTCH), 1 - _LEAST_NOTCH)
            there.append(f"M{begin} 100V{100 - 100 * height:.0f}H{x}V100z")
    shapes = tuple(Shape(kind, "".join(paths)) for kind, paths in (("there", there), ("blank", blank)) if paths)
    values = ",".join("" if value is None else _percent(value) for value in shares)
    return Chart(shapes, values, "% of the time")


def ticks(axis: Axis) -> Iterator[Tick]:
    """The times below a chart, with the day where a new one begins. Those that would overlap are left out."""
    width, _, moments = axis.ticks()
    labels, before = [], ""
    for moment in moments:
        date, _, year = text.day(moment).rpartition(" ")
        clock, below = (text.clock(moment, width), date) if width < DAY else (date, year)
        labels.append(Label(axis.place(moment), clock, None if below == before else below))
        before = below
    on_wide = fitting(labels, WIDE)
    on_narrow = fitting(on_wide, NARROW)
    return (Tick(label, label not in on_narrow) for label in labels if label in on_wide)


def fitting(labels: Sequence[Label], length: float) -> list[Label]:
    """The labels that do not overlap on an axis of that length or longer. Those of two lines are preferred."""
    chosen: list[Label] = []
    for label in sorted(labels, key=lambda each: each.below is None):
        left, right = label.span(length)
        others = (each.span(length) for each in chosen)
        if all(right + GAP <= begin or end + GAP <= left for begin, end in others):
            chosen.append(label)
    return chosen


def in_rows(axis: Axis, series: Sequence[Sequence[int]], take: str) -> StepTable:
    """The numbers of a chart, several steps in a row, which begins with a moment.

    :param take: ``most`` or ``sum`` of these steps.
    """
    together: Callable[[Sequence[int]], int] = max if take == "most" else sum
    at_once = -(-axis.steps // MOST_ROWS)
    rows = [
        (axis.starts(step), *(together(values[step : step + at_once]) for values in series))
        for step in range(0, axis.steps, at_once)
    ]
    return StepTable(axis.width * at_once, rows)


def _grid(axis: Axis) -> Shape:
    """A line at each label."""
    _, _, moments = axis.ticks()
    return Shape("grid", "".join(f"M{axis.place(each) * axis.steps:.2f} 0V100" for each in moments) or "M0 0")


def _line(shares: Sequence[float]) -> str:
    return "M0 " + "".join(f"{'V' if at else ''}{y}H{end}" for at, (y, end) in enumerate(_levels(shares)))


def _area(shares: Sequence[float]) -> str:
    return "M0 100" + "".join(f"V{y}H{end}" for y, end in _levels(shares)) + "V100z"


def _levels(shares: Sequence[float]) -> list[tuple[str, int]]:
    """Each height, and the step at which it ends."""
    levels, x = [], 0
    for y, group in groupby(f"{100 - _HIGHEST * share:.1f}" for share in shares):
        x += len(list(group))
        levels.append((y, x))
    return levels


def _bars(shares: Sequence[float], zero: float, height: float) -> str:
    """A bar for each step. Numbers other than 0 are high enough to be seen."""
    visible = ((x, share and max(share, _LEAST_BAR)) for x, share in enumerate(shares))
    return "".join(f"M{x}.1 {zero}V{zero + height * share:.1f}h.8V{zero}z" for x, share in visible if share) or "M0 50"


def _joined(*series: Sequence[int]) -> str:
    return ";".join(",".join(map(str, values)) for values in series)


def _percent(value: float) -> str:
    """A percentage that is never rounded to 0 or 100."""
    percent = min(max(100 * value, 0.1), 99.9) if 0 < value < 1 else 100 * value
    return f"{percent:.1f}".removesuffix(".0")
