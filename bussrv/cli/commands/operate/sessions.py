"""``bussrv sessions``: list the sessions, or show one of them."""

from __future__ import annotations

from typing import Any

import click

from bussrv.cli.asking import admin, field, lists, moment, show_list, who
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects

DESCRIPTION = """
List the sessions, of this server and of linked ones. A user in brackets is a name that the client merely claims.
bussrv session SESSION shows one of them.
"""


@click.command(
    cls=Command,
    name="sessions",
    help=DESCRIPTION,
    examples=("bussrv sessions", "bussrv sessions --where protocol=spp --sort -opened --limit 20"),
    statuses={0: "done"},
)
@connects
@lists
def command(connection: Connection, query: dict[str, Any], most: int | None, as_json: bool) -> int:
    """List the sessions."""
    columns = {
        "SESSION": field("session"),
        "FORMAT": field("protocol"),
        "ROUTING ID": field("routing_id"),
        "USER": who,
        "PEER": field("peer"),
        "AGE": moment("opened"),
        "HOME": field("home"),
        "SERVICES": field("services"),
        "SUBSCRIPTIONS": field("subscriptions"),
    }
    found = list(admin(connection).items("/sessions", most, **{**query, "sort": query["sort"] or "opened"}))
    less = ("USER", "PEER", "AGE", "ROUTING ID", "HOME", "SUBSCRIPTIONS", "SERVICES")
    show_list(found, columns, as_json=as_json, right=("SERVICES", "SUBSCRIPTIONS"), less=less)
    return 0
