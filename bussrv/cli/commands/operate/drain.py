"""``bussrv drain``: let a server end its sessions one after the other, and stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.failure import Failure
from bussrv.cli.statuses import LATE

if TYPE_CHECKING:
    from bussrv.client.admin import AdminClient

STOP = 30.0
"""Seconds that a server has for its stop, after the sessions have ended."""

PAUSE = 0.2

DESCRIPTION = """
Let the server accept no more connections, end its sessions one after the other within its --drain-seconds, and stop.
Members of the object network hear the reason. The command prints how many sessions end, and returns at once. With
--wait it returns when the server has closed its admin interface, which is right before it closes the journal.
"""


@click.command(
    cls=Command,
    name="drain",
    help=DESCRIPTION,
    examples=("bussrv drain --wait --token-file bussrv-journal.admin-token",),
    statuses={0: "done"},
)
@click.option("--wait", is_flag=True, help="Wait until the server has stopped.")
@connects
def command(connection: Connection, wait: bool) -> int:
    """Ask the server to drain."""
    from bussrv.cli.show import output

    client = admin(connection)
    boot = _boot(client)
    found = client.call("POST", "/drain")
    seconds, sessions = float(found.get("seconds", 0)), found.get("sessions", "all")
    output.line(f"draining: sessions that end within {seconds:g} s: {sessions}; then the server stops")
    if wait:
        _wait(client, boot, seconds + STOP)
        output.line("the server has stopped")
    return 0


def _boot(client: AdminClient) -> str | None:
    """The id of the boot of a server; ``None``: it does not answer any more."""
    try:
        return str(client.get("/server").get("boot"))
    except (ConnectionError, TimeoutError):
        return None


def _wait(client: AdminClient, boot: str | None, seconds: float) -> None:
    """Wait until a server has stopped. It may have been started again already.

    :raises Failure: it takes too long.
    """
    end = time.monotonic() + seconds
    while _boot(client) == boot is not None:
        if time.monotonic() >= end:
            raise Failure(f"the server has not stopped within {seconds:g} s; its log says why", LATE)
        time.sleep(PAUSE)
