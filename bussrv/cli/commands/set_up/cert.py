"""``bussrv cert``: the certificate of a server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from bussrv.cli.command import CommandGroup
from bussrv.cli.show import output
from bussrv.errors import ConfigError

FILE = click.Path(path_type=Path)

cert = CommandGroup(
    name="cert",
    help="Renew the certificate of a server that `bussrv init` made. A running server reads it at `bussrv reload`.",
)


@cert.command(
    short_help="make a new certificate in the place of one",
    examples=("bussrv cert renew hall/server.pem", "bussrv cert renew hall/server.pem --name hall.example"),
    statuses={0: "done", 1: "it could not be done, and nothing was changed"},
)
@click.argument("certificate", metavar="FILE", type=FILE)
@click.option(
    "--ca", metavar="FILE", type=FILE, help="The certificate of the authority.  [default: ca.pem beside FILE]"
)
@click.option("--ca-key", metavar="FILE", type=FILE, help="Its private key.  [default: ca.key beside FILE]")
@click.option(
    "--name", "names", metavar="NAME", multiple=True, help="A name instead of those in FILE; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def renew(certificate: Path, ca: Path | None, ca_key: Path | None, names: Sequence[str], as_json: bool) -> int:
    """Sign a new certificate for the same private key and the same names, and put it in the place of FILE, at once. It
    is valid for 825 days, or until its authority ends. The private key of the server is not needed. So this can be done
    on another machine, where the key of the authority is: copy FILE there, and back.
    """
    from bussrv.starter.directory import renew_certificate

    try:
        end = renew_certificate(
            certificate,
            ca or certificate.with_name("ca.pem"),
            ca_key or certificate.with_name("ca.key"),
            datetime.now(timezone.utc),
            names,
        )
    except ConfigError as error:
        print(f"bussrv cert: {error}", file=sys.stderr)
        return 1
    if as_json:
        output.json_line({"certificate": str(certificate), "ends": f"{end:%Y-%m-%dT%H:%M:%SZ}"})
    else:
        print(f"{certificate} is valid until {end:%Y-%m-%d}. Reload the server.")
    return 0
