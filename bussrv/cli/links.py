"""``bussrv links``: list the links to other servers, or forget one that is lost."""

from __future__ import annotations

import sys
from typing import Any

import click

from bussrv.cli.asking import admin, delete, field, lists, moment, show_list
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.statuses import NO

DESCRIPTION = """
List the links to other servers, each with its state, the time since which it is up, and the sessions that it leads to.
A link that was lost is down, with the time since and the reason, until it is back. With --forget, it is not missed any
more.
"""


@click.command(
    cls=Command,
    name="links",
    help=DESCRIPTION,
    examples=("bussrv links", "bussrv links --sort -sessions"),
    statuses={0: "done", 1: "no such link is lost"},
)
@click.option("--forget", metavar="ROUTING-ID", help="Forget a lost link: its server is gone for good.")
@connects
@lists
def command(connection: Connection, query: dict[str, Any], most: int | None, forget: str | None, as_json: bool) -> int:
    """List the links."""
    if forget is not None:
        return _forget(connection, forget)
    columns = {
        "ROUTING ID": field("routing_id"),
        "ADDRESS": field("address"),
        "STATE": field("state"),
        "DIALED": lambda each: {True: "by this server", False: "by the other one"}.get(each.get("dialed")),  # type: ignore[arg-type]
        "AGE": moment("since"),
        "LOST": moment("lost"),
        "REASON": field("reason"),
        "SESSIONS": field("sessions"),
        "NEIGHBORS": field("neighbors"),
    }
    found = list(admin(connection).items("/links", most, **query))
    less = ("AGE", "SESSIONS", "NEIGHBORS", "DIALED")
    show_list(found, columns, as_json=as_json, right=("SESSIONS",), less=less)
    return 0


def _forget(connection: Connection, server_id: str) -> int:
    from bussrv.client.admin import element
    from bussrv.terminal import cleaned

    if not delete(connection, f"/links/{element(server_id)}"):
        print(f"bussrv links: no link to '{cleaned(server_id)}' is lost", file=sys.stderr)
        return NO
    return 0
