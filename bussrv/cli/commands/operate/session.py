"""``bussrv session``: show one session, or the history of one that is closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from bussrv.cli.asking import admin, age, existing, session_called
from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import NO, Failure
from bussrv.cli.parameters import json_option
from bussrv.registry.state.naming import called
from bussrv.terminal import cleaned


@command(
    examples=(
        "bussrv session hall-tv",
        "bussrv session 5f1c2ab94e07.3",
        "bussrv session 5f1c2ab94e07.3 --history",
    ),
    statuses={0: "done", 1: "there is no such session, or several are called so"},
)
@click.argument("name", metavar="NAME")
@click.option("--history", is_flag=True, help="Show the records of the journal about it.")
@connects
@json_option
def session(connection: ConnectionOptions, name: str, history: bool, as_json: bool) -> int:
    """Show one session: its user and address, its services and subscriptions, and how much it has sent and received.
    NAME is its id, or what a person calls it: the user, a claimed name, a service, the address, or the routing id.
    --history shows the records of the journal about it, also after it was closed: the last one has the reason.
    """
    from bussrv.cli.admin_client import element
    from bussrv.cli.show import output

    client = admin(connection)
    session = session_called(client, name)
    path = f"/sessions/{element(session)}"
    missing = f"there is no session '{cleaned(session)}'{'' if history else '; --history shows a closed one'}"
    with existing(missing):
        if history:
            if not _show_all(client.items(f"{path}/history"), as_json=as_json):
                raise Failure(missing, NO)
            return 0
        found = client.get(path)
    if as_json:
        output.json_line(found)
    else:
        output.facts({"client": called(found), **dict(_facts(found))})
    return 0


def _facts(found: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in found.items():
        if name == "services":
            yield name, [each.get("service") for each in value]
        elif name == "subscriptions":
            yield name, [each.get("service") or "(objects)" for each in value]
        elif name in ("opened", "away_since") and value is not None:
            yield name.replace("_", " "), f"{value} ({age(value)} ago)"
        elif value not in (None, [], ""):
            yield name.replace("_", " "), value


def _show_all(records: Iterable[Mapping[str, Any]], *, as_json: bool) -> bool:
    """Print records. :returns: whether there are any."""
    from bussrv.cli.show import output
    from bussrv.cli.show.records import in_words

    is_empty = True
    for record in records:
        is_empty = False
        if as_json:
            output.json_line(record)
        else:
            output.line(in_words(record))
    return not is_empty
