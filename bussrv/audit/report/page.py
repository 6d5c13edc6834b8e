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
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bussrv.audit.report import charts, commands, explain, standing, text
from bussrv.audit.report.columns import Column, extent
from bussrv.audit.report.model import Facts

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
            verdict=standing.verdict(facts),
            title=standing.verdict_in_words(facts),
            counts=standing.counts(facts),
            standing=standing.first_screen(facts),
            incidents_left_out=standing.left_out(facts),
            severities=standing.severities(facts),
            bands=standing.bands(facts),
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
        "many": text.many,
        "size": text.size,
        "length_of_time": text.length,
        "width": text.width,
        "share": text.share,
        "moment": text.moment,
        "machine_moment": text.machine_moment,
        "minutes": lambda moment: moment[:-3],
        "percent_of": _percent_of,
        "largest": _largest,
        "place": standing.place,
        "shown": text.shown,
        "plain": text.plain,
        "extent": extent,
        "filled": _filled,
        "ticks": charts.ticks,
    }
    made.globals |= {"column": Column, "draw": charts, "explain": explain, "commands": commands, "told": standing}
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


def _filled(columns: Iterable[Column], rows: Sequence[Any]) -> list[Column]:
    """The columns that have a value in any row."""
    return [each for each in columns if each.is_filled(rows)]
