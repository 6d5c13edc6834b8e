"""``bussrv links``: list the links to other servers, or forget one that is lost."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from bussrv.cli.asking import admin, delete, field, lists, moment, show_list
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.statuses import NO

DESCRIPTION = """
List the links to other servers, each with its state, the time since which it is up, and the sessions that it leads to.
A link that was lost is down, with the time since and the reason, until it is back. So is the link to a server of
--expect-link that was never linked. With --forget, a lost link is not missed any more.
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
        "DIALED": _dialed,
        "AGE": moment("since"),
        "LOST": lambda each: None if _is_new(each) else moment("lost")(each),
        "REASON": lambda each: "never linked" if _is_new(each) else each.get("reason"),
        "SESSIONS": field("sessions"),
        "NEIGHBORS": field("neighbors"),
    }
    found = list(admin(connection).items("/links", most, **query))
    less = ("AGE", "SESSIONS", "NEIGHBORS", "DIALED")
    show_list(found, columns, as_json=as_json, right=("SESSIONS",), less=less)
    return 0


def _dialed(each: Mapping[str, Any]) -> str | None:
    if each.get("dialed"):
        return "by this server"
    return "by the other one" if each.get("address") else None


def _is_new(each: Mapping[str, Any]) -> bool:
    """Whether the other server is expected, and was never linked."""
    return bool(each.get("lost")) and not each.get("reason")


def _forget(connection: Connection, server_id: str) -> int:
    from bussrv.client.admin import element
    from bussrv.terminal import cleaned

    if not delete(connection, f"/links/{element(server_id)}"):
        print(f"bussrv links: no link to '{cleaned(server_id)}' is lost", file=sys.stderr)
        return NO
    return 0
