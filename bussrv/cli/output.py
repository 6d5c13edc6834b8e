"""What commands print: lines, JSON and tables. Text of strangers is cleaned here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bussrv.terminal import cleaned

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NOTHING = "-"


def line(text: str) -> None:
    """Print a line. It is UTF-8, whatever the locale says: so are the names of services."""
    sys.stdout.buffer.write(f"{cleaned(text)}\n".encode("utf-8", "backslashreplace"))


def flush() -> None:
    """Show what was printed, also if nobody sits at a terminal."""
    sys.stdout.flush()


def json_line(value: Any) -> None:
    """Print a value as JSON in one line. What is not printable is escaped: the text is still the same."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not text.isprintable():
        text = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    sys.stdout.buffer.write(f"{text}\n".encode())


def payload_fields(payload: bytes) -> dict[str, Any]:
    """A payload in JSON: as text if it is UTF-8, else in base64."""
    import base64

    try:
        return {"bytes": len(payload), "payload": payload.decode()}
    except UnicodeDecodeError:
        return {"bytes": len(payload), "payload_base64": base64.b64encode(payload).decode()}


def is_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def console() -> Console:
    """A console of rich. It shows text as it is, without markup, emoji or highlights."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def cell(value: object) -> str:
    """A value in a table or a list."""
    if value in (None, "", [], ()):
        return NOTHING
    if isinstance(value, (list, tuple)):
        return ", ".join(map(cell, value))
    return cleaned(str(value))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Print a table. On a terminal it fits the width; elsewhere columns are as wide as they need.

    :param right: headings of columns of numbers.
    """
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        line("none")
        return
    if is_terminal():
        console().print(rich_table(headings, cells, right))
        return
    wide = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in (headings, *cells):
        shown = [
            f"{text:>{width}}" if heading in right else f"{text:{width}}"
            for text, width, heading in zip(row, wide, headings, strict=True)
        ]
        line("  ".join(shown).rstrip())


def rich_table(headings: Sequence[str], cells: Iterable[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """The same, for a console of rich. The cells are clean."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        shown.add_column(
            Text(heading), justify="right" if heading in right else "left", overflow="ellipsis", no_wrap=True
        )
    for row in cells:
        shown.add_row(*map(Text, row))
    return shown


def facts(pairs: Mapping[str, object]) -> None:
    """Print names and values, one pair on a line."""
    wide = max(map(len, pairs))
    for name, value in pairs.items():
        line(f"{name:{wide}}  {cell(value)}")
