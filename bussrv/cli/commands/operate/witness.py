"""``bussrv witness``: cosign the checkpoints of journals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bussrv.cli.command import command
from bussrv.cli.failure import explained

ENDPOINT = "tcp:7281:interface=127.0.0.1"


@command(
    examples=('bussrv witness --name attic.example/w1 --key witness.key --log "$(cat hall.vkey)"',),
    statuses={0: "a signal came"},
)
@click.option("--name", required=True, metavar="NAME", help="The name of the witness, like attic.example/w1.")
@click.option(
    "--key",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Its private key, which `bussrv journal keygen` makes. No journal may have the same one.",
)
@click.option(
    "--log",
    "logs",
    required=True,
    metavar="KEY",
    multiple=True,
    help="The verifier key of a log to cosign: `bussrv journal checkpoint --key` prints it; may be repeated.",
)
@click.option(
    "--listen", metavar="ENDPOINT", default=ENDPOINT, show_default=True, help="The server endpoint of the witness."
)
@click.option(
    "--state",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    default=Path("bussrv-witness"),
    show_default=True,
    help="The directory of what it has cosigned. If it is lost, the witness may cosign an older journal.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE",
    multiple=True,
    help="A limit of its port, such as witness-max-body=9000; it is an option of the server, too. May be repeated.",
)
@click.option("--ml-dsa", is_flag=True, help="Cosign with a key that withstands quantum computers, too (ML-DSA-44).")
def witness(**given: Any) -> int:
    """Cosign the checkpoints of journals until SIGTERM or Ctrl-C: each only if it has everything that was cosigned
    before. Servers send them with --witness. The protocol is tlog-witness of C2SP, so other logs may send theirs, too.
    The command prints the verifier keys of the witness, which servers and auditors need.
    """
    from bussrv.witness.program import WitnessSettings, limits_of, run

    with explained():
        limits = limits_of(given.pop("limits"))
        run(WitnessSettings(**{**given, "logs": tuple(given["logs"]), "limits": limits}), click.echo)
    return 0
