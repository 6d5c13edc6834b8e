"""``bussrv session``: show one session, or the history of one that is closed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from bussrv.cli.asking import admin, age, as_json
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.statuses import NO

if TYPE_CHECKING:
    from bussrv.client.admin import AdminClient

DESCRIPTION = """
Show one session: its user and address, its services and subscriptions, and how much it has sent and received. --history
shows the records of the journal about it, also after it was closed: the last one has the reason.
"""


@click.command(
    cls=Command,
    name="session",
    help=DESCRIPTION,
    examples=("bussrv session 5f1c2ab94e07.3", "bussrv session 5f1c2ab94e07.3 --history"),
    statuses={0: "done", 1: "there is no such session"},
)
@click.argument("session", metavar="SESSION")
@click.option("--history", is_flag=True, help="Show the records of the journal about it.")
@connects
@as_json
def command(connection: Connection, session: str, history: bool, as_json: bool) -> int:
    """Show a session."""
    from bussrv.client.admin import AdminError

    client = admin(connection)
    try:
        shown = _history(client, session, as_json=as_json) if history else _session(client, session, as_json=as_json)
    except AdminError as error:
        if error.status != 404:
            raise
        shown = False
    if not shown:
        from bussrv.terminal import cleaned

        hint = "" if history else "; --history shows a closed one"
        print(f"bussrv session: there is no session '{cleaned(session)}'{hint}", file=sys.stderr)
    return 0 if shown else NO


def _session(client: AdminClient, session: str, *, as_json: bool) -> bool:
    from bussrv.cli.show import output
    from bussrv.client.admin import element

    found = client.get(f"/sessions/{element(session)}")
    if as_json:
        output.json_line(found)
    else:
        output.facts(dict(_facts(found)))
    return True


def _facts(found: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in found.items():
        if name == "services":
            yield name, [each.get("service") for each in value]
        elif name == "subscriptions":
            yield name, [each.get("service") or "(objects)" for each in value]
        elif name == "opened":
            yield name, f"{value} ({age(value)} ago)"
        elif value not in (None, [], ""):
            yield name.replace("_", " "), value


def _history(client: AdminClient, session: str, *, as_json: bool) -> bool:
    from bussrv.cli.show import output
    from bussrv.cli.show.records import in_words
    from bussrv.client.admin import element

    is_empty = True
    for record in client.items(f"/sessions/{element(session)}/history"):
        is_empty = False
        if as_json:
            output.json_line(record)
        else:
            output.line(in_words(record))
    return not is_empty
