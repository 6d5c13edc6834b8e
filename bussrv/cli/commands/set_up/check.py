"""``bussrv check``: check a configuration file before a server starts with it or reloads it."""

from __future__ import annotations

import os
import sys

import click

from bussrv.cli.command import Command
from bussrv.cli.show import output

DESCRIPTION = """
Check everything that `twistd bussrv --config FILE` checks: names and values of options, endpoints, links, files of
users, the policy, certificates and keys. Environment variables such as BUSSRV_MAX_SESSIONS override the file, as in the
server. The command opens no port and writes no file. Run it as the user of the server. Standard error has a line for
each fault.
"""


@click.command(
    cls=Command,
    name="check",
    help=DESCRIPTION,
    examples=("bussrv check bussrv.toml",),
    statuses={0: "the server can use it", 1: "it cannot"},
)
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the faults.")
def command(file: str, as_json: bool) -> int:
    """Check a configuration file."""
    from twisted.internet import reactor

    from bussrv.errors import ConfigError
    from bussrv.server.configuration.check import check
    from bussrv.server.configuration.option_table import BUILT_IN, table
    from bussrv.server.configuration.options import NO_SERVER
    from bussrv.server.configuration.plugins import installed
    from bussrv.server.configuration.sources import of_command_line, of_environment, unknown_variables
    from bussrv.terminal import one_line

    found = installed({*NO_SERVER, *(each.name for each in BUILT_IN)})
    rows = table(found.formats, found.services)
    given = {**of_environment(os.environ, rows), **of_command_line({"config": file})}
    notes = [*found.left_out]
    notes += [f"{name}: has no effect: there is no such option" for name in unknown_variables(os.environ, rows)]
    faults: list[str] = []
    try:
        notes += check(given, found.formats, found.services, reactor).without_effect
    except ConfigError as error:
        faults += error.sentences
    if as_json:
        output.json_line({"usable": not faults, "faults": faults, "notes": notes})
        return 1 if faults else 0
    for sentence in (*notes, *faults):
        print(f"bussrv check: {one_line(sentence)}", file=sys.stderr)
    if not faults:
        print(f"{file}: the server can use it")
    return 1 if faults else 0
