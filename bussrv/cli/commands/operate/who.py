"""``bussrv who``: show the providers and the subscribers of a service."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from bussrv.cli.asking import admin, as_json, field, moment, show_list, who
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.statuses import NO

DESCRIPTION = """
Show the providers and the subscribers of a service, over every wire format and on linked servers. Members of the object
network that receive everything are not subscribed to a service, and are not shown.
"""

NOT_SHOWN = " (members of the object network that receive everything, such as bussrv sub, are not shown)"

COLUMNS = {
    "SESSION": field("session"),
    "FORMAT": field("protocol"),
    "NAME": field("name"),
    "USER": who,
    "PEER": field("peer"),
    "ROUTING ID": field("routing_id"),
    "HOME": field("home"),
    "AGE": moment("since"),
}


@click.command(
    cls=Command,
    name="who",
    help=DESCRIPTION,
    examples=("bussrv who tv", "bussrv who tv --json"),
    statuses={0: "there is at least one", 1: "there is none"},
)
@click.argument("service", metavar="SERVICE")
@connects
@as_json
def command(connection: Connection, service: str, as_json: bool) -> int:
    """Show providers and subscribers."""
    from bussrv.cli.show import output
    from bussrv.client.admin import AdminError, element
    from bussrv.terminal import cleaned

    try:
        found = admin(connection).get(f"/services/{element(service)}")
    except AdminError as error:
        if error.status != 404:
            raise
        asked = connection.place("admin").address
        said = f"nobody provides '{cleaned(service)}' or is subscribed to it; asked {asked}"
        print(f"bussrv who: {said}{NOT_SHOWN}", file=sys.stderr)
        return NO
    if as_json:
        output.json_line(found)
        return 0
    _show("provider", found.get("providers", []), found.get("providers_count"), {})
    output.line("")
    _show("subscriber", found.get("subscribers", []), found.get("subscribers_count"), {"WANTS": _interest})
    return 0


def _show(what: str, sessions: Sequence[Mapping[str, Any]], count: int | None, further: Mapping[str, Any]) -> None:
    from bussrv.cli.show import output

    count = len(sessions) if count is None else count
    output.line(f"{count} {what}{'' if count == 1 else 's'}")
    if sessions:
        show_list(sessions, {**COLUMNS, **further}, as_json=False, less=("ROUTING ID", "AGE", "HOME", "NAME", "WANTS"))


def _interest(each: Mapping[str, Any]) -> str:
    return "all" if each.get("interest") is None else json.dumps(each["interest"])
