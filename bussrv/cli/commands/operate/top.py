"""``bussrv top``: watch a server, or with ``--all`` all that it knows of."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count as count_up
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.parameters import whole

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from bussrv.cli.admin_client import AdminClient
    from bussrv.cli.show.figures import ServerFigures
    from bussrv.cli.show.screen import Screen


LISTED_EVERY = 2
"""Seconds between two requests for the lists."""

ROWS = 20


def _checked(sort: str | None, first: str) -> str | None:
    """:raises click.UsageError: the list has no such field."""
    from bussrv.cli.show.screen import FIRST

    columns = FIRST[first].columns
    if sort is not None and sort.removeprefix("-") not in columns:
        raise click.UsageError(f"--sort: there is no field {sort!r}; there are {', '.join(columns)}")
    return sort


@command(
    examples=(
        "bussrv top",
        "bussrv top --list sessions --sort -bytes_out --count 2",
        "bussrv top --called 'hall-*' --count 2",
        "bussrv top --all --count 2",
        "bussrv top --json --count 2",
    ),
    statuses={0: "figures were shown --count times"},
)
@click.option(
    "--list",
    "first",
    type=click.Choice(["slow", "sessions", "services"]),
    default="slow",
    help="The first list: sessions with most bytes waiting, or the busiest sessions or services.  [default: slow]",
)
@click.option("--sort", metavar="FIELD", help="Sort the first list by a field; with - before it downwards.")
@click.option(
    "--called",
    metavar="NAME",
    help="List only slow, closed and denied sessions that are called so: by a user, a claimed name, a service, an "
    "address or an id; * stands for any text.",
)
@click.option("--all", "of_all", is_flag=True, help="Watch all servers that this one knows of, as bussrv servers does.")
@click.option("-n", "--count", metavar="N", type=whole(1), help="Show figures so many times, then end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@connects
def top(
    connection: ConnectionOptions,
    first: str,
    sort: str | None,
    called: str | None,
    of_all: bool,
    count: int | None,
    as_json: bool,
) -> int:
    """Watch a server: sessions, throughput, times of delivery and of the journal, the sessions with most bytes waiting
    or the busiest ones, and the latest closed sessions and denials. The screen changes every second. Keys: q
    quits, l shows the next list, s sorts it by the next column, r turns its order around. Without a terminal,
    there is one line of figures a second. --all shows all servers, each with its health, sessions and traffic,
    and the links that are down.
    """
    from bussrv.cli.show import output

    sort = _checked(sort, first)
    client = admin(connection)
    if of_all:
        watch_all(client, count, as_json=as_json)
        return 0
    if output.is_terminal() and not as_json:
        from bussrv.cli.show.screen import Screen

        screen = Screen(client.get("/server"), first, sort)
        screen.called = called
        _live(client, count, screen)
        return 0
    for found in _looks(client, count):
        if as_json:
            output.json_line(found.as_json())
        else:
            output.line(str(found))
        output.flush()
    return 0


def _looks(client: AdminClient, count: int | None) -> Iterator[ServerFigures]:
    from bussrv.cli.show.figures import look

    last = None
    for event in islice(client.resuming("/live"), count):
        last = look(json.loads(event.data), last)
        yield last


def _live(client: AdminClient, count: int | None, screen: Screen) -> None:
    from rich.live import Live

    from bussrv.cli.show import output
    from bussrv.cli.show.screen import pressed

    quits, main = threading.Event(), threading.get_ident()
    with Live(screen, console=output.console(), screen=True, auto_refresh=False) as live:

        def take(key: str) -> None:
            if key == "q":
                quits.set()
                # Not interrupt_main(), which would wait for what the main thread waits for.
                signal.pthread_kill(main, signal.SIGINT)
            screen.press(key)
            live.refresh()

        try:
            with pressed(take):
                _show(client, count, screen, live)
        except KeyboardInterrupt:
            if not quits.is_set():
                raise


def _show(client: AdminClient, count: int | None, screen: Screen, live: Live) -> None:
    live.refresh()
    for index, found in enumerate(_looks(client, count)):
        screen.show(found)
        if index % LISTED_EVERY == 0:
            _list(client, screen)
        live.refresh()


def _list(client: AdminClient, screen: Screen) -> None:
    from bussrv.cli.admin_client import AdminError

    for each in screen.shown:
        with suppress(AdminError, ConnectionError, TimeoutError):
            # A list that this user may not see stays empty. If the server is gone, the stream of figures says so.
            sort = screen.sort if each.sort else None
            query = {**each.query, "called": screen.called} if each.is_by_name else each.query
            screen.lists[each.path] = list(client.items(f"/{each.path}", ROWS, sort=sort, **query))


EVERY = 2.0
"""Seconds between two looks: a server asks the others every five."""


def watch_all(client: AdminClient, most: int | None, *, as_json: bool) -> None:
    """Show all servers, again and again.

    :param most: how often; ``None``: until somebody interrupts it.
    """
    from bussrv.cli.show import output
    from bussrv.cli.show.servers import sentence

    if output.is_terminal() and not as_json:
        _live_nets(client, most)
        return
    for net in _nets(client, most):
        if as_json:
            output.json_line(net)
        else:
            output.line(sentence(net))
        output.flush()


def _nets(client: AdminClient, most: int | None) -> Iterator[Mapping[str, Any]]:
    for number in count_up(1):
        yield client.get("/net")
        if number == most:
            return
        time.sleep(EVERY)


def _live_nets(client: AdminClient, most: int | None) -> None:
    from rich.live import Live

    from bussrv.cli.show import output

    with Live(console=output.console(), screen=True, auto_refresh=False) as live:
        for net in _nets(client, most):
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
