"""``bussrv drain``: let a server stop once its clients have gone."""

from __future__ import annotations

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects

DESCRIPTION = """
Let the server accept no more connections. It stops when its clients have gone, or when its time for that is over.
"""


@click.command(
    cls=Command,
    name="drain",
    help=DESCRIPTION,
    examples=("bussrv drain --token-file bussrv-journal.admin-token",),
    statuses={0: "done"},
)
@connects
def command(connection: Connection) -> int:
    """Ask the server to drain."""
    admin(connection).call("POST", "/drain")
    return 0
