"""``bussrv reload``: let a server read its files again."""

from __future__ import annotations

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects

DESCRIPTION = """
Let the server read its configuration, users, tokens, policy and certificates again, as SIGHUP does. If something in
them is wrong, it keeps what it has, and its log says what.
"""


@click.command(
    cls=Command,
    name="reload",
    help=DESCRIPTION,
    examples=("bussrv reload --token-file bussrv-journal.admin-token",),
    statuses={0: "done"},
)
@connects
def command(connection: Connection) -> int:
    """Ask for it."""
    admin(connection).call("POST", "/reload")
    return 0
