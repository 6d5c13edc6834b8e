"""``bussrv services``: list the services."""

from __future__ import annotations

from typing import Any

import click

from bussrv.cli.asking import admin, field, lists, show_list
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects

DESCRIPTION = """
List the services, each with the numbers and the wire formats of its providers and of its subscribers.
"""


@click.command(
    cls=Command,
    name="services",
    help=DESCRIPTION,
    examples=("bussrv services", "bussrv services --where service='hall/*' --sort -subscribers --json"),
    statuses={0: "done"},
)
@connects
@lists
def command(connection: Connection, query: dict[str, Any], most: int | None, as_json: bool) -> int:
    """List the services."""
    columns = {
        "SERVICE": field("service"),
        "PROVIDERS": field("providers"),
        "SUBSCRIBERS": field("subscribers"),
        "PROVIDED OVER": lambda each: (each.get("formats") or {}).get("providers"),
        "SUBSCRIBED OVER": lambda each: (each.get("formats") or {}).get("subscribers"),
    }
    found = list(admin(connection).items("/services", most, **query))
    show_list(
        found, columns, as_json=as_json, right=("PROVIDERS", "SUBSCRIBERS"), less=("SUBSCRIBED OVER", "PROVIDED OVER")
    )
    return 0
