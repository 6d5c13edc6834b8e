"""The geometry of charts: paths of an SVG drawing that is one unit wide for each step of the axis and 100 high.

The template ``charts.html`` writes the drawing, and the texts beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from bussrv.audit.report import text
from bussrv.audit.report.axis import CHARACTER, DAY, GAP, NARROW, WIDE, Axis

MOST_ROWS = 24
"""Rows of the table below a chart."""

_HIGHEST = 97.0
_LEAST_NOTCH = 0.15
_LEAST_BAR = 0.03


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
