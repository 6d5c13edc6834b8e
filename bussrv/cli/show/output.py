"""The output of commands: lines, JSON and tables. Text of strangers is made fit for a terminal here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bussrv.terminal import cleaned

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table

NOTHING = "-"
GAP = "  "
MOST_OF_FIRST = 40
"""The first column of a table is as wide as its content, up to so many characters."""
MOST_OF_OTHERS = 24
"""Cells of the other columns are cut at so many characters if the table does not fit. A routing id fits."""


def line(text: str) -> None:
    """Print a line. It is UTF-8 in every locale, because the names of services are."""
    sys.stdout.buffer.write(f"{cleaned(text)}\n".encode("utf-8", "backslashreplace"))


def flush() -> None:
    """Send the output so far to its reader, also if that is not a terminal."""
    sys.stdout.flush()


def json_line(value: Any) -> None:
    """Print a value as JSON in one line. Unprintable characters are escaped; a parser of JSON gets the same text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not text.isprintable():
        text = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    sys.stdout.buffer.write(f"{text}\n".encode())


def payload_fields(payload: bytes) -> dict[str, Any]:
    """The fields of a payload in JSON: its text if it is UTF-8, else base64."""
    import base64

    try:
        return {"bytes": len(payload), "payload": payload.decode()}
    except UnicodeDecodeError:
        return {"bytes": len(payload), "payload_base64": base64.b64encode(payload).decode()}


def is_terminal() -> bool:
    """Whether the standard output is a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def console() -> Console:
    """A console of rich. It shows text as it is, without markup, emoji or highlights."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def fitted(text: str) -> str:
    """A line that fits the width of the terminal; elsewhere the whole line."""
    return _cut(text, console().width) if is_terminal() else text


def cell(value: object) -> str:
    """A value as the text of a cell."""
    if value in (None, "", [], ()):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(cell, value))
    return cleaned(str(value))


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = (), less: Sequence[str] = ()
) -> None:
    """Print a table. On a terminal it fits the width; elsewhere columns are as wide as their content.

    :param right: headings of columns of numbers.
    :param less: headings of columns that a narrow terminal may do without, the least important last.
    """
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        line("none")
    elif is_terminal():
        _on_terminal(headings, cells, right, less)
    else:
        wide = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
        for row in (headings, *cells):
            shown = [
                f"{text:>{width}}" if heading in right else f"{text:{width}}"
                for text, width, heading in zip(row, wide, headings, strict=True)
            ]
            line(GAP.join(shown).rstrip())


def _on_terminal(
    headings: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[str], less: Sequence[str]
) -> None:
    from rich.text import Text

    found = console()
    if _width(headings, cells) > found.width:
        # The long name of one client does not push out the columns of all.
        cells = [
            [_cut(text, MOST_OF_OTHERS if index else MOST_OF_FIRST) for index, text in enumerate(row)] for row in cells
        ]
    left_out: list[str] = []
    for heading in (*_empty(headings, cells), *reversed(less)):
        if _width(headings, cells) <= found.width:
            break
        if heading in headings:
            left_out.append(heading)
            headings, cells = _without(headings, cells, headings.index(heading))
    found.print(rich_table(headings, cells, right))
    if left_out:
        found.print(Text(f"Not shown: {', '.join(left_out)}. A wider terminal and --json have all.", style="dim"))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _width(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + len(GAP) for column in zip(headings, *cells, strict=True)) - len(GAP)


def _empty(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [heading for index, heading in enumerate(headings) if all(row[index] == NOTHING for row in cells)]


def _without(
    headings: Sequence[str], cells: Sequence[Sequence[str]], index: int
) -> tuple[list[str], list[Sequence[str]]]:
    return [*headings[:index], *headings[index + 1 :]], [[*row[:index], *row[index + 1 :]] for row in cells]


def rich_table(headings: Sequence[str], cells: Iterable[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """A table for a console of rich. The cells are already fit for a terminal."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, len(GAP), 0, 0))
    rows = list(cells)
    for index, heading in enumerate(headings):
        justify: JustifyMethod = "right" if heading in right else "left"
        # The first column names the row: a person copies it.
        least = None if index else min(MOST_OF_FIRST, max(map(len, [heading, *(row[0] for row in rows)])))
        shown.add_column(Text(heading), justify=justify, overflow="ellipsis", no_wrap=True, min_width=least)
    for row in rows:
        shown.add_row(*map(Text, row))
    return shown


def facts(pairs: Mapping[str, object]) -> None:
    """Print names and values, one pair on a line."""
    wide = max(map(len, pairs))
    for name, value in pairs.items():
        line(f"{name:{wide}}  {cell(value)}")
