"""Tables of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bussrv.audit.html import text
from bussrv.audit.html.markup import Content, Html, element, html
from bussrv.audit.html.model import Listing

T = TypeVar("T")

_FEW = 3

_WIDE = ("bar", "lanes")


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table.

    :ivar cell: what stands in it.
    :ivar key: what it is sorted by when a reader asks; a number, or text. ``None``: it is not sorted.
    :ivar kind: a class: ``number``, ``when``, ``bar``, ``wide``, ``name`` or nothing.
    :ivar is_head: whether it says what the row is about.
    """

    title: str
    cell: Callable[[T], Content]
    key: Callable[[T], Any] | None = None
    kind: str = ""
    is_head: bool = False


def number(title: str, value: Callable[[T], int | None]) -> Column[T]:
    """A column of numbers."""
    return Column(title, lambda row: text.number(value(row)), value, "number")


def size(title: str, value: Callable[[T], int | None]) -> Column[T]:
    """A column of bytes."""
    return Column(title, lambda row: text.size(value(row)), value, "number")


def length(title: str, value: Callable[[T], float | None]) -> Column[T]:
    """A column of lengths of time, in seconds."""
    return Column(title, lambda row: text.length(value(row)), value, "number")


def when(title: str, value: Callable[[T], int | None]) -> Column[T]:
    """A column of moments."""
    return Column(title, lambda row: moment(value(row)), value, "when")


def bar(
    title: str, value: Callable[[T], float], most: float, *, second: Callable[[T], float] | None = None
) -> Column[T]:
    """A column of bars, as a part of the longest one; with two parts, the second one is hatched."""

    def drawn(row: T) -> Html:
        parts = [value(row)] + ([second(row)] if second else [])
        kinds = ("one", "two")
        return html(
            element("span", class_=f"part {kind}", style=f"width:{_percent(part, most)}")
            for kind, part in zip(kinds, parts, strict=False)
            if part > 0
        )

    return Column(title, drawn, None, "bar")


def moment(micros: int | None) -> Html:
    """A moment, UTC."""
    if micros is None:
        return element("span", "–", class_="none")
    return element("time", text.moment(micros), datetime=text.machine_moment(micros))


def table(caption: str, columns: Sequence[Column[T]], rows: Sequence[T], *, class_: str = "") -> Html:
    """A table. On narrow screens each row is a card, unless it is short, whose lines are named by ``data-label``."""
    if any(each.kind in _WIDE for each in columns):
        class_ = f"{class_} full"
    head = element("tr", *[element("th", each.title, scope="col", class_=each.kind or None) for each in columns])
    return element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *[element("tr", *[_cell(each, row) for each in columns]) for row in rows]),
        class_=" ".join(filter(None, ("rows", None if _is_slim(columns) else "cards", class_.strip()))),
    )


def listed(caption: str, columns: Sequence[Column[T]], listing: Listing[T], nothing: str, stored: str) -> Html:
    """A table of the first rows, and where the others are; or a sentence, if there are none.

    :param stored: the name of the Parquet table that has all of them.
    """
    if not listing.rows:
        return element("p", nothing, class_="nothing")
    more = listing.total - len(listing.rows)
    rest = (
        element("p", f"And {more:,} more, in the table ", element("code", stored), ".", class_="more")
        if more > 0
        else None
    )
    return html(table(caption, columns, listing.rows), rest)


def _is_slim(columns: Sequence[Column[T]]) -> bool:
    """Whether it is a table on narrow screens, too."""
    return len(columns) <= _FEW and all(each.kind in {"", "bar", "number"} for each in columns)


def _cell(column: Column[T], row: T) -> Html:
    content = html(column.cell(row))
    key = column.key(row) if column.key else None
    is_empty = content in {"", "–"} or content.startswith('<span class="none">–')
    return element(
        "th" if column.is_head else "td",
        content,
        class_=" ".join(filter(None, (column.kind, "empty" if is_empty else ""))) or None,
        scope="row" if column.is_head else None,
        data_label=column.title or None,
        data_key=key,
    )


def _percent(part: float, most: float) -> str:
    return f"{100 * part / most:.2f}%" if most else "0"
