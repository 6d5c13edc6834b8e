"""Charts, as SVG that stretches: only shapes are in it, and what is written stands beside it, so it stays legible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from bussrv.audit.html import text
from bussrv.audit.html.axis import DAY, Axis
from bussrv.audit.html.markup import Content, Html, element, html

_HIGHEST = 97.0
_LEAST_NOTCH = 0.15
_MANY_DAYS = 2


def curves(axis: Axis, most: Sequence[int], last: Sequence[int], label: str, *, is_last: bool = True) -> Html:
    """The most in each step as a line, and what there was at its end as an area.

    :param label: what there is to see, in words.
    :param is_last: whether it is the last one of several, below which the times stand.
    """
    scale = max(most, default=0) or 1
    shapes = (
        grid(axis),
        element("path", class_="area", d=_area([value / scale for value in last])),
        element("path", class_="line", d=_line([value / scale for value in most])),
    )
    values = f"{_joined(most)};{_joined(last)}"
    names, top = "at most;at the end", text.number(max(most, default=0))
    return plot(axis, shapes, label, values, names, top=top, bottom="0", has_times=is_last)


def mirrored(axis: Axis, above: Sequence[int], below: Sequence[int], label: str, names: tuple[str, str]) -> Html:
    """One number in each step as bars upwards, another one as bars downwards, on the same scale."""
    most = max((*above, *below), default=0)
    shapes = (
        grid(axis),
        element("path", class_="above", d=_bars([value / (most or 1) for value in above], 50, -48)),
        element("path", class_="below", d=_bars([value / (most or 1) for value in below], 50, 48)),
        element("path", class_="middle", d=f"M0 50H{axis.steps}"),
    )
    values = f"{_joined(above)};{_joined(below)}"
    top, bottom = (html(element("span", text.number(most)), element("small", each)) for each in names)
    return plot(axis, shapes, label, values, ";".join(names), top=top, bottom=bottom, class_="mirrored")


def lane(axis: Axis, shares: Sequence[float | None], label: str, marks: Html | None = None) -> Html:
    """Which share of each step something was there. It was not where the hatching shows, and nobody knows where it is
    blank. What is missing is never too thin to be seen.
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
    shapes = (
        element("path", class_="there", d="".join(there)) if there else None,
        element("path", class_="blank", d="".join(blank)) if blank else None,
    )
    percents = ",".join("" if value is None else f"{_percent(value)}" for value in shares)
    return element(
        "div",
        _svg(axis, html(shapes), label),
        marks,
        class_="lane plot",
        data_values=percents,
        data_names="% of the time",
    )


def marks(axis: Axis, counts: dict[int, int], glyph: str) -> Html:
    """A mark in the middle of each step that something happened in."""
    return html(
        element("span", glyph, class_="mark", style=f"left:{100 * (step + 0.5) / axis.steps:.2f}%", aria_hidden="true")
        for step in sorted(counts)
    )


def plot(
    axis: Axis,
    shapes: Sequence[Html],
    label: str,
    values: str,
    names: str,
    *,
    top: Content,
    bottom: Content,
    class_: str = "",
    has_times: bool = True,
) -> Html:
    """A chart over the axis, with its times below it."""
    drawn = element("div", _svg(axis, html(shapes), label), class_="plot", data_values=values, data_names=names)
    edges = element("div", element("div", top), element("div", bottom), class_="edges", aria_hidden="true")
    return element("div", edges, drawn, times(axis) if has_times else None, class_=f"chart {class_}".strip())


def grid(axis: Axis) -> Html:
    """A line at each time that is written."""
    _, _, ticks = axis.ticks()
    lines = "".join(f"M{axis.place(tick) * axis.steps:.2f} 0V100" for tick in ticks)
    return element("path", class_="grid", d=lines or "M0 0")


def times(axis: Axis) -> Html:
    """The times, and the day where a new one begins."""
    width, _, ticks = axis.ticks()
    written, day_before, days = [], "", len({text.day(tick) for tick in ticks})
    for at, tick in enumerate(ticks):
        date, _, year = text.day(tick).rpartition(" ")
        clock, below = (text.clock(tick, width), date) if width < DAY else (date, year)
        shown = below if below != day_before else None
        day_before = below
        place = axis.place(tick)
        # What stands at an edge must not stick out.
        edge = " start" if place < 0.06 else " end" if place > 0.94 else ""
        # Narrow screens leave out some of them.
        minor = " minor" if (not shown if days > _MANY_DAYS else at % 2 and not shown) else ""
        content = (clock, element("small", shown) if shown else None)
        written.append(element("span", *content, class_=f"tick{edge}{minor}", style=f"left:{100 * place:.2f}%"))
    return element("div", *written, class_="times", aria_hidden="true")


def _svg(axis: Axis, shapes: Html, label: str) -> Html:
    box = {"viewBox": f"0 0 {axis.steps} 100", "preserveAspectRatio": "none"}
    return element("svg", shapes, role="img", aria_label=label, **box)


def _line(shares: Sequence[float]) -> str:
    return "M0 " + "".join(f"{'V' if at else ''}{y}H{end}" for at, (y, end) in enumerate(_runs(shares)))


def _area(shares: Sequence[float]) -> str:
    return "M0 100" + "".join(f"V{y}H{end}" for y, end in _runs(shares)) + "V100z"


def _runs(shares: Sequence[float]) -> list[tuple[str, int]]:
    runs, x = [], 0
    for y, group in groupby(f"{100 - _HIGHEST * share:.1f}" for share in shares):
        x += len(list(group))
        runs.append((y, x))
    return runs


def _bars(shares: Sequence[float], zero: float, height: float) -> str:
    """What is not nothing can be seen."""
    visible = ((x, share and max(share, 0.03)) for x, share in enumerate(shares))
    return "".join(f"M{x}.1 {zero}V{zero + height * share:.1f}h.8V{zero}z" for x, share in visible if share) or "M0 50"


def _joined(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def _percent(value: float) -> str:
    """Only what is whole is 100, and only nothing is 0."""
    percent = min(max(100 * value, 0.1), 99.9) if 0 < value < 1 else 100 * value
    return f"{percent:.1f}".removesuffix(".0")
