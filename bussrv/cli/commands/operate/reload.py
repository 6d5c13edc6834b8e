"""``bussrv reload``: let a server read its files again."""

from __future__ import annotations

import click

from bussrv.cli.asking import admin, as_json
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.failure import Failure
from bussrv.cli.statuses import NO

DESCRIPTION = """
Let the server read its configuration, users, tokens, policy and certificates again, as SIGHUP does. If there is a
fault, nothing changes, and the command shows it.
"""


@click.command(
    cls=Command,
    name="reload",
    help=DESCRIPTION,
    examples=("bussrv reload --token-file bussrv-journal.admin-token",),
    statuses={0: "done", 1: "something is wrong in a file, and nothing changed"},
)
@connects
@as_json
def command(connection: Connection, as_json: bool) -> int:
    """Reload the configuration of a server."""
    from bussrv.cli.show import output
    from bussrv.client.admin import AdminError

    try:
        found = admin(connection).call("POST", "/reload")
    except AdminError as error:
        if error.reason == "reload-failed":
            raise Failure(f"nothing changed: {error.message}", NO) from error
        raise
    if as_json:
        output.json_line(found)
    else:
        changed, restart = (found.get(name) or "no option" for name in ("changed", "restart"))
        effects = {"took effect": "; ".join(found["effects"])} if found.get("effects") else {}
        output.facts({"changed": changed, **effects, "only at a restart": restart})
    return 0
