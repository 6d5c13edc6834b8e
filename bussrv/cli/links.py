"""``bussrv links``: list the links to other servers."""

from __future__ import annotations

from typing import Any

import click

from bussrv.cli.asking import admin, field, lists, moment, show_list
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects

DESCRIPTION = """
List the links to other servers, each with its state, the time since which it is up, and the sessions that it leads to.
"""


@click.command(
    cls=Command,
    name="links",
    help=DESCRIPTION,
    examples=("bussrv links", "bussrv links --sort -sessions"),
    statuses={0: "done"},
)
@connects
@lists
def command(connection: Connection, query: dict[str, Any], most: int | None, as_json: bool) -> int:
    """List the links."""
    columns = {
        "ROUTING ID": field("routing_id"),
        "ADDRESS": field("address"),
        "STATE": field("state"),
        "DIALED": lambda each: {True: "by this server", False: "by the other one"}.get(each.get("dialed")),  # type: ignore[arg-type]
        "AGE": moment("since"),
        "SESSIONS": field("sessions"),
        "NEIGHBORS": field("neighbors"),
    }
    found = list(admin(connection).items("/links", most, **query))
    show_list(found, columns, as_json=as_json, right=("SESSIONS",), less=("AGE", "SESSIONS", "NEIGHBORS", "DIALED"))
    return 0
