"""Columns of the report's tables. The template ``macros.html`` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from bussrv.audit.report import text
from bussrv.audit.report.text import plain

_CLASSES = {"number": "number", "size": "number", "length": "number", "share": "number"}

_TEXTS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "number": text.number,
    "size": text.size,
    "length": text.length,
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
        return "" if self.kind == "text" else _CLASSES.get(self.kind, self.kind)

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
        return plain(value) if isinstance(value, str) else value

    def is_filled(self, rows: Iterable[Any]) -> bool:
        """Whether any row has a value."""
        return any(self.value(row) is not None for row in rows)


def extent(columns: Sequence[Column]) -> str:
    """The CSS classes of a table by its width: it may stay a table on narrow screens, or be crowded on wide ones."""
    classes = ["full"] if any(each.kind in {"bar", "lanes"} for each in columns) else []
    if len(columns) > _FEW or not all(each.css in {"", "bar", "number"} for each in columns):
        classes.append("cards")
        if len(columns) >= _MANY:
            classes.append("crowded")
    return " ".join(classes)
