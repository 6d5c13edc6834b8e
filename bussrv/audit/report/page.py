"""The report as one HTML file that needs nothing else: no other file, no network.

JavaScript is not needed, either; with it, long tables are paged. Their later rows are in ``template`` elements, which a
browser parses but does not lay out.

The files in ``templates`` say how it looks. Two rules hold for every value that they write:

1. It is escaped, unless a template made it (``autoescape``).
2. Invisible characters in it are spelled out (``finalize``).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from bussrv.audit import kinds
from bussrv.audit.report import charts, commands, text, verdict
from bussrv.audit.report.facts import Facts
from bussrv.incidents.amounts import length, many

PAGE = 20
"""The rows of a table that are shown at a time. Without JavaScript only the first ones are."""

TEMPLATES = Path(__file__).parent / "templates"


def render(facts: Facts) -> str:
    """The report. The same facts always give the same text."""
    script = _source("page.js")
    return (
        environment()
        .get_template("page.html")
        .render(
            facts=facts,
            integrity=verdict.integrity(facts),
            gravity=verdict.gravity(facts),
            title=verdict.headline(facts),
            counts=verdict.counts(facts),
            standing=verdict.first_screen(facts),
            incidents_left_out=verdict.left_out(facts),
            severities=verdict.severities(facts),
            bands=verdict.bands(facts),
            style=_source("page.css"),
            script=script,
            policy=_policy(script),
        )
    )


def write(path: Path, facts: Facts) -> None:
    """Write the report to a file.

    :raises OSError: if it cannot be written.
    """
    path.write_text(render(facts), encoding="utf-8", newline="\n")


def load_templates() -> None:
    """Compile all templates. Otherwise :func:`render` does."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


@cache
def environment() -> Environment:
    """The templates, with the filters and functions that they use."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "number": text.number,
        "many": many,
        "size": text.size,
        "length_of_time": length,
        "width": text.width,
        "share": text.share,
        "moment": text.moment,
        "machine_moment": text.machine_moment,
        "minutes": lambda moment: moment[:-3],
        "percent_of": _percent_of,
        "largest": _largest,
        "place": verdict.place,
        "shown": text.shown,
        "plain": text.plain,
        "extent": _extent,
        "filled": _filled,
        "ticks": charts.ticks,
    }
    made.globals |= {"column": Column, "draw": charts, "kinds": kinds, "commands": commands, "told": verdict}
    made.globals |= {"page_size": PAGE}
    return made


def _finalized(value: object) -> object:
    """A value with its invisible characters spelled out, before it is escaped."""
    return value if hasattr(value, "__html__") else text.clean(str(value))


def _source(name: str) -> Markup:
    """The text of a file, which is not escaped."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def _policy(script: str) -> str:
    """The content security policy: even injected markup could load nothing, and run nothing except our script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _percent_of(part: float, most: float) -> str:
    return f"{100 * part / most:.2f}%" if most else "0"


def _largest(rows: Iterable[Any], *fields: str) -> int:
    """The largest sum of some fields of a row; 0 if there is no row."""
    return max((sum(getattr(row, field) for field in fields) for row in rows), default=0)


_TEXTS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "number": text.number,
    "size": text.size,
    "length": length,
    "share": text.share,
}

_FEW, _MANY = 3, 9


class Column(Struct, frozen=True):
    """A column of a table.

    :ivar kind: how a value is written: ``name``, ``number``, ``size`` (bytes), ``length`` (seconds), ``share``,
        ``when`` (microseconds), ``bar``, ``lanes``, or ``text``.
    :ivar field: the attribute of a row that holds the value, or the index in a row that is a sequence.
    :ivar cell: a macro that writes the cell of a row instead.
    :ivar key: the sort key: an attribute of a row, or a macro. By default the value itself.
    :ivar class_name: the CSS class of its cells, if not that of its kind.
    :ivar head: whether its cells are the headers of the rows.
    :ivar longest: how many characters of a name are shown.
    :ivar most, second: for bars: the value of the longest bar, and the attribute of a second, hatched part.
    """

    title: str
    kind: str = "text"
    field: str | int | None = None
    cell: Callable[[Any], str] | None = None
    key: str | Callable[[Any], str] | None = None
    class_name: str | None = None
    head: bool = False
    longest: int = 60
    most: float = 0
    second: str | None = None

    @property
    def css(self) -> str:
        """The class of its cells."""
        if self.class_name is not None:
            return self.class_name
        return "" if self.kind == "text" else "number" if self.kind in _TEXTS else self.kind

    def value(self, row: Any, field: str | int | None = None) -> Any:
        """The value of a row, or another one of its fields."""
        field = self.field if field is None else field
        return row[field] if isinstance(field, int) else getattr(row, field or "")

    def text(self, row: Any) -> str:
        """The value as people read it."""
        return _TEXTS[self.kind](self.value(row))

    def sort_key(self, row: Any) -> str | int | float | None:
        """The sort key of a row, a number or a text. ``None``: the row comes last, or the column is not sorted."""
        if callable(self.key):
            return self.key(row)
        field = self.key or (None if self.kind == "bar" else self.field)
        value = None if field is None else self.value(row, field)
        if isinstance(value, bool):
            return int(value)
        return text.plain(value) if isinstance(value, str) else value

    def is_filled(self, rows: Iterable[Any]) -> bool:
        """Whether any row has a value."""
        return any(self.value(row) is not None for row in rows)


def _extent(columns: Sequence[Column]) -> str:
    """The CSS classes of a table by its width: it may stay a table on narrow screens, or be crowded on wide ones."""
    classes = ["full"] if any(each.kind in {"bar", "lanes"} for each in columns) else []
    if len(columns) > _FEW or not all(each.css in {"", "bar", "number"} for each in columns):
        classes.append("cards")
        if len(columns) >= _MANY:
            classes.append("crowded")
    return " ".join(classes)


def _filled(columns: Iterable[Column], rows: Sequence[Any]) -> list[Column]:
    """The columns that have a value in any row."""
    return [each for each in columns if each.is_filled(rows)]
