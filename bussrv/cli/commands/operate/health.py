"""``bussrv health``: show whether a server is ready, and its checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import NO
from bussrv.cli.parameters import json_option

SERVING = ("ready", "degraded")


@command(
    examples=("bussrv health", "bussrv health --strict", "bussrv health --json"),
    statuses={0: "it is ready; something may be degraded", 1: "it is not ready, or with --strict refuses clients"},
)
@connects
@click.option("--strict", is_flag=True, help="Fail as well if clients are refused that are within their limits.")
@json_option
def health(connection: ConnectionOptions, strict: bool, as_json: bool) -> int:
    """Show whether a server takes clients, and the result of each of its checks. It asks the admin interface. bussrv
    alive asks the ports of a server on this machine instead.
    """
    from bussrv.cli.show import output

    found: Mapping[str, Any] = admin(connection).call("GET", "/readyz", {"strict": 1} if strict else {}, also=503)
    status = str(found.get("status"))
    if as_json:
        output.json_line(found)
    else:
        output.line(status.replace("-", " "))
        for name, check in found.get("checks", {}).items():
            because = f": {check['message']}" if check.get("message") else ""
            output.line(f"  {name:12}  {check.get('status')}{because}")
    return 0 if status in SERVING else NO
