"""``bussrv close``: close a session."""

from __future__ import annotations

import sys

import click

from bussrv.cli.asking import delete
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.statuses import NO

DESCRIPTION = """
Close a session: its client is disconnected; over Inbus, its subscriptions end. The client may come back immediately.
The journal has the user who closed it.
"""


@click.command(
    cls=Command,
    name="close",
    help=DESCRIPTION,
    examples=("bussrv close 5f1c2ab94e07.3 --token-file bussrv-journal.admin-token",),
    statuses={0: "done", 1: "there is no such session"},
)
@click.argument("session", metavar="SESSION")
@connects
def command(connection: Connection, session: str) -> int:
    """Close a session."""
    from bussrv.client.admin import element
    from bussrv.terminal import cleaned

    if not delete(connection, f"/sessions/{element(session)}"):
        print(f"bussrv close: there is no session '{cleaned(session)}'", file=sys.stderr)
        return NO
    return 0
