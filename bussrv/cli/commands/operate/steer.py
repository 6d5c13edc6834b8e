"""``bussrv close``, ``reload`` and ``drain``: let a server do something."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from bussrv.cli.asking import admin, existing
from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import LATE, NO, Failure
from bussrv.cli.parameters import json_option
from bussrv.terminal import cleaned

if TYPE_CHECKING:
    from bussrv.cli.admin_client import AdminClient

STOP = 30.0
"""Seconds that a server has for its stop, after the sessions have ended."""

PAUSE = 0.2


@command(
    examples=(
        "bussrv close 5f1c2ab94e07.3 --token-file bussrv-journal.admin-token",
        "bussrv close hall-tv --token-file bussrv-journal.admin-token",
        "bussrv close 'kiosk-*' --all --token-file bussrv-journal.admin-token",
    ),
    statuses={0: "done", 1: "there is no such session, or there are several and --all is missing"},
)
@click.argument("name", metavar="NAME")
@click.option("--all", "of_all", is_flag=True, help="Close all sessions that are called so.")
@connects
def close(connection: ConnectionOptions, name: str, of_all: bool) -> int:
    """Close a session: its client is disconnected; over Inbus, its subscriptions end. The client may come back
    immediately. The journal has the user who closed it. NAME is the id of the session, or what a person calls it: the
    user, a claimed name, a service that it provides, its address, or its routing id.
    """
    from bussrv.cli.admin_client import element
    from bussrv.cli.asking import session_called, sessions_called

    client = admin(connection)
    for session in sessions_called(client, name) if of_all else [session_called(client, name)]:
        with existing(f"there is no session '{cleaned(session)}'"):
            client.call("DELETE", f"/sessions/{element(session)}")
    return 0


@command(
    examples=("bussrv reload --token-file bussrv-journal.admin-token",),
    statuses={0: "done", 1: "something is wrong in a file, and nothing changed"},
)
@connects
@json_option
def reload(connection: ConnectionOptions, as_json: bool) -> int:
    """Let the server read its configuration, users, tokens, policy and certificates again, as SIGHUP does. If there is
    a fault, nothing changes, and the command shows it.
    """
    from bussrv.cli.admin_client import AdminError
    from bussrv.cli.show import output

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


@command(
    examples=("bussrv drain --wait --token-file bussrv-journal.admin-token",),
    statuses={0: "done"},
)
@click.option("--wait", is_flag=True, help="Wait until the server has stopped.")
@connects
def drain(connection: ConnectionOptions, wait: bool) -> int:
    """Let the server accept no more connections, end its sessions one after the other within its --drain-seconds, and
    stop. Members of the object network hear the reason. The command prints how many sessions end, and returns at once.
    With --wait it returns when the server has closed its admin interface, which is right before it closes the journal.
    """
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
