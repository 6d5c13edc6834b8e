"""``bussrv top --all``: watch all servers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import count as count_up
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bussrv.cli.admin_client import AdminClient

EVERY = 2.0
"""Seconds between two looks: a server asks the others every five."""


def watch_all(client: AdminClient, most: int | None, *, as_json: bool) -> None:
    """Show all servers, again and again.

    :param most: how often; ``None``: until somebody interrupts it.
    """
    from bussrv.cli.show import output
    from bussrv.cli.show.servers import sentence

    if output.is_terminal() and not as_json:
        _live(client, most)
        return
    for net in _looks(client, most):
        if as_json:
            output.json_line(net)
        else:
            output.line(sentence(net))
        output.flush()


def _looks(client: AdminClient, most: int | None) -> Iterator[Mapping[str, Any]]:
    for number in count_up(1):
        yield client.get("/net")
        if number == most:
            return
        time.sleep(EVERY)


def _live(client: AdminClient, most: int | None) -> None:
    from rich.live import Live

    from bussrv.cli.show import output

    with Live(console=output.console(), screen=True, auto_refresh=False) as live:
        for net in _looks(client, most):
            live.update(screen(net), refresh=True)


def screen(net: Mapping[str, Any]) -> RenderableType:
    """All servers as a screen: a line for all, a row for each, and the links that are down."""
    from rich.console import Group
    from rich.text import Text

    from bussrv.cli.show.output import cell, rich_table
    from bussrv.cli.show.servers import COLUMNS, RIGHT, cells, lost, sentence

    rows = [[cell(value) for value in row] for row in cells(net.get("servers", []))]
    down = [Text(f"DOWN  {cell(each)}", style="bold red") for each in lost(net)]
    return Group(Text(sentence(net), style="bold"), Text(""), rich_table(list(COLUMNS), rows, RIGHT), Text(""), *down)
