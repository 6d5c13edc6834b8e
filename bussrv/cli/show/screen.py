"""The screen of ``bussrv top``, which fits the size of the terminal, and the keys that a person presses meanwhile."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from bussrv.cli.show.figures import ServerFigures, amount, duration
from bussrv.cli.show.output import cell, rich_table
from bussrv.registry.state.naming import called

BARS, PLAIN_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*%#"
KEPT = 200
"""The seconds of figures that the curves keep."""

FEW = 3
"""The fewest rows of a table, however low the terminal is."""


class ShownList(NamedTuple):
    """A table.

    :ivar path: the collection of the admin interface.
    :ivar columns: the field of each column.
    :ivar sort: how it is sorted at first; empty: as the server does, and a person cannot change it.
    :ivar query: what the server is asked for.
    :ivar is_by_name: whether it can be of sessions that are called so only.
    """

    title: str
    path: str
    columns: tuple[str, ...]
    sort: str = ""
    query: Mapping[str, Any] = MappingProxyType({})
    is_by_name: bool = False


_LAST_MINUTE = MappingProxyType({"since": "-60"})
_TRAFFIC = ("objects", "bytes", "objects_in", "objects_out", "bytes_in", "bytes_out")

FIRST = {
    "slow": ShownList(
        "Most bytes waiting",
        "slow",
        ("called", "session", "protocol", "peer", "waiting_bytes"),
        "-waiting_bytes",
        is_by_name=True,
    ),
    "sessions": ShownList(
        "Busiest sessions of the last minute",
        "busiest/sessions",
        ("name", "session", "protocol", *_TRAFFIC),
        "-bytes",
        _LAST_MINUTE,
    ),
    "services": ShownList(
        "Busiest services of the last minute",
        "busiest/services",
        ("service", "objects", "bytes"),
        "-bytes",
        _LAST_MINUTE,
    ),
}
"""The tables of which a person chooses the first one. It may be sorted by each column."""

OTHERS = (
    ShownList("Lately closed", "closed", ("time", "called", "session", "protocol", "peer", "reason"), is_by_name=True),
    ShownList("Lately denied", "denied", ("time", "called", "event", "peer", "action", "target"), is_by_name=True),
)

HEADINGS = {"called": "CLIENT", "name": "CLIENT", "protocol": "FORMAT", "waiting_bytes": "BYTES"}
"""The headings of columns that do not have the name of their field."""

_NUMBERS = ("waiting_bytes", *_TRAFFIC)


class Screen:
    """The screen: figures, curves and lists.

    :param server: the answer of ``/api/v1/server``.
    :ivar lists: the rows of each list, by its path.
    :ivar first: the name of the first list, of :data:`FIRST`.
    :ivar sort: the field that the first list is sorted by; with ``-`` before it downwards.
    :ivar called: what sessions that are listed are called; ``None``: anything.
    :ivar note: a sentence, such as that the connection is lost.
    """

    def __init__(self, server: Mapping[str, Any], first: str = "slow", sort: str | None = None) -> None:
        self._server = server
        self._look: ServerFigures | None = None
        self._curves: dict[str, deque[float]] = {name: deque(maxlen=KEPT) for name in ("objects_in", "objects_out")}
        self.lists: dict[str, Sequence[Mapping[str, Any]]] = {}
        self.first = first
        self.sort = sort or FIRST[first].sort
        self.called: str | None = None
        self.note = ""

    def press(self, key: str) -> None:
        """A person pressed a key: ``l`` shows the next list, ``s`` sorts by the next column, ``r`` turns the order
        around.
        """
        field, columns = self.sort.removeprefix("-"), FIRST[self.first].columns
        if key == "l":
            names = list(FIRST)
            self.first = names[(names.index(self.first) + 1) % len(names)]
            self.sort = FIRST[self.first].sort
        elif key == "s":
            self.sort = columns[(columns.index(field) + 1) % len(columns)]
        elif key == "r":
            self.sort = field if self.sort.startswith("-") else f"-{field}"

    @property
    def shown(self) -> tuple[ShownList, ...]:
        """The lists that are shown."""
        return (FIRST[self.first], *OTHERS)

    def _rows(self, each: ShownList) -> Sequence[Mapping[str, Any]]:
        """The rows of a list, sorted as they are to be now: the server sorts those that it sends next."""
        rows = self.lists[each.path]
        if not each.sort:
            return rows
        field = self.sort.removeprefix("-")
        missing = 0 if field in _NUMBERS else ""
        return sorted(rows, key=lambda each: each.get(field) or missing, reverse=self.sort.startswith("-"))

    def show(self, look: ServerFigures) -> None:
        """Take new figures."""
        self._look = look
        for name, curve in self._curves.items():
            if look.rates is not None:
                curve.append(look.rates[name])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        yield self._title(options.max_width)
        if self._look is None:
            yield Text(self.note or "Waiting for the first figures…", style="dim")
            return
        bars = BARS if options.encoding.startswith("utf") else PLAIN_BARS
        yield from self._figures(self._look, options.max_width, bars)
        left = height - 9
        shown = [each for each in self.shown if self.lists.get(each.path)]
        for index, found in enumerate(shown):
            rows = self._rows(found)[: max(FEW, left // (len(shown) - index) - 3)]
            left -= len(rows) + 3
            heading = Text(found.title, style="bold")
            if found.sort:
                heading.append(f"  by {_heading(self.sort.removeprefix('-'))}", style="dim")
            yield Group(Text(""), heading, _table(rows, found.columns))

    def _title(self, width: int) -> RenderableType:
        server = self._server
        title = Text(f"bussrv {cell(server.get('version'))}  {cell(server.get('server'))}", style="bold", no_wrap=True)
        title.append(f"  since {cell(str(server.get('started', ''))[:19])}Z", style="dim")
        title.append("  q l s r", style="dim")
        if self.note:
            title.append(f"  {cell(self.note)}", style="bold red")
        elif self._look is not None and self._look.figures.get("degraded"):
            title.append(f"  DEGRADED: {cell(self._look.figures['degraded'])}", style="bold red")
        title.truncate(width, overflow="ellipsis")
        return title

    def _figures(self, look: ServerFigures, width: int, bars: str) -> RenderResult:
        figures, rates = look.figures, look.rates
        sessions = figures.get("sessions") or {}
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True, min_width=len("registry"))
        grid.add_column(no_wrap=True, overflow="ellipsis")
        by_format = ", ".join(f"{cell(name)} {count}" for name, count in sorted(sessions.items()))
        away = sum((figures.get("away") or {}).values())
        grid.add_row("sessions", f"{sum(sessions.values())}{f', {away} away' if away else ''}  ({by_format})")
        counts = (_counted(figures.get(f"{name}s", 0), name) for name in ("service", "subscription", "link"))
        grid.add_row("registry", "   ".join(counts))
        room = max(10, width - 38)
        for name, title in (("objects_in", "in"), ("objects_out", "out")):
            if rates is None:
                grid.add_row(title, "-")
                continue
            size = rates[name.replace("objects", "bytes")]
            text = f"{amount(rates[name]):>7} objects/s {amount(size, 'B'):>8}/s  "
            grid.add_row(title, Text(text).append(curve(self._curves[name], room, bars), style="cyan"))
        times = (("delivery", "delivery_seconds"), ("journal sync", "journal_sync_seconds"))
        grid.add_row("time", "   ".join(f"{title} {_percentiles(figures.get(key) or {})}" for title, key in times))
        grid.add_row("waiting", amount(figures.get("waiting_bytes", 0), "B"))
        yield grid


def curve(values: Sequence[float], width: int, bars: str = BARS) -> str:
    """The last values as bars. The highest value has a full bar."""
    shown = list(values)[-width:]
    highest = max(shown, default=0.0)
    if not highest:
        return ""
    return "".join(bars[round(each / highest * (len(bars) - 1))] for each in shown)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _percentiles(found: Mapping[str, Any]) -> str:
    return f"p50 {duration(found.get('p50'))}, p99 {duration(found.get('p99'))}"


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    cells = [[_cell(row, name) for name in columns] for row in rows]
    return rich_table(list(map(_heading, columns)), cells, [_heading(each) for each in _NUMBERS])


def _heading(field: str) -> str:
    return HEADINGS.get(field) or field.replace("_", " ").upper()


def _cell(row: Mapping[str, Any], name: str) -> str:
    if name == "called":
        return cell(called(row))
    if name == "time":
        return cell(str(row.get("time", ""))[11:19])
    return cell(row.get(name))


@contextmanager
def pressed(take: Callable[[str], None]) -> Iterator[None]:
    """Give each key to ``take``, in a thread, until the end of the block. Without a terminal there are no keys.

    Ctrl-C interrupts as always. The terminal is afterwards as it was before.
    """
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    ended, end = os.pipe()
    thread = threading.Thread(target=_read, args=(terminal, ended, take), daemon=True)
    try:
        tty.setcbreak(terminal)
        thread.start()
        yield
    finally:
        os.close(end)
        thread.join()
        os.close(ended)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read(terminal: int, ended: int, take: Callable[[str], None]) -> None:
    while True:
        ready, _, _ = select.select([terminal, ended], [], [])
        found = os.read(terminal, 1) if ended not in ready else b""
        if not found:
            return
        take(found.decode("ascii", "replace"))
