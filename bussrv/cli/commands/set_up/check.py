"""``bussrv check``: check a configuration file before a server starts with it or reloads it."""

from __future__ import annotations

import os
import sys

import click

from bussrv.cli.command import command
from bussrv.cli.show import output


@command(
    examples=("bussrv check bussrv.toml",),
    statuses={0: "the server can use it", 1: "it cannot"},
)
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the faults.")
def check(file: str, as_json: bool) -> int:
    """Check everything that `twistd bussrv --config FILE` checks: names and values of options, endpoints, links, files
    of users, the policy, certificates and keys. Environment variables such as BUSSRV_MAX_SESSIONS override the file, as
    in the server. The command opens no port and writes no file. Run it as the user of the server. Standard error has a
    line for each fault.
    """
    from twisted.internet import reactor

    from bussrv.errors import ConfigError
    from bussrv.server.configuration.check import check
    from bussrv.server.configuration.option_table import table
    from bussrv.server.configuration.options import plugins, values_given
    from bussrv.server.configuration.sources import unknown_variables
    from bussrv.terminal import one_line

    found = plugins()
    rows = table(found.formats, found.services)
    given = values_given({"config": file}, rows)
    notes = [*found.left_out]
    notes += [f"{name}: has no effect: there is no such option" for name in unknown_variables(os.environ, rows)]
    faults: list[str] = []
    try:
        notes += check(given, found.formats, found.services, reactor).without_effect
    except ConfigError as error:
        faults += error.sentences
    if as_json:
        output.json_line({"usable": not faults, "faults": faults, "notes": notes})
    else:
        for sentence in (*notes, *faults):
            print(f"bussrv check: {one_line(sentence)}", file=sys.stderr)
        if not faults:
            print(f"{file}: the server can use it")
    return 1 if faults else 0
