"""``bussrv sub``: show publications on services."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import LATE
from bussrv.cli.parameters import exclude, format_option, seconds, whole
from bussrv.cli.traffic.payloads import shown

if TYPE_CHECKING:
    from bussrv.cli.traffic.receiving import ReceivedPublication

FORMATS = ("objects", "business", "inbus", "spp")
MEMBERS = ("objects", "business")
"""Formats of the object network. Its members get no updates of the services of the server itself."""


@command(
    examples=("bussrv sub tv", "bussrv sub 'hall/*' --json --count 2", "bussrv sub tv --format spp --count 1 --raw"),
    statuses={0: "done", 5: "--for was over before --count publications came"},
)
@click.argument("services", nargs=-1, required=True, metavar="SERVICE...")
@format_option(FORMATS)
@click.option("-n", "--count", metavar="N", type=whole(1), help="End after so many.")
@click.option("--for", "seconds", metavar="S", type=seconds(0.0), help="End after so many seconds.")
@click.option("--raw", is_flag=True, help="Payloads as they are, with nothing between them; not to a terminal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@connects
def sub(
    connection: ConnectionOptions,
    services: Sequence[str],
    wire_format: str,
    count: int | None,
    seconds: float | None,
    raw: bool,
    as_json: bool,
) -> int:
    """Show publications on services, one line each: the service and the payload. A SERVICE may have * and ?, except
    over Inbus; quote them. Over SPP, the last value of each service comes first. The services of the server itself,
    bus/…, have updates over SPP and Inbus only. Text that would steer the terminal is escaped, and a long payload is
    cut; --json and --raw have all of it.
    """
    from bussrv.cli.traffic.members import EventTimeout
    from bussrv.cli.traffic.receiving import receiving

    exclude(raw=raw, json=as_json)
    if wire_format in MEMBERS:
        _check_updates(services)
    if raw and sys.stdout.isatty():
        raise click.UsageError("--raw would let payloads steer the terminal: send the output to a file or a program")
    with receiving(connection, wire_format, services) as receiver:
        patience, left = EventTimeout(seconds), count
        while left is None or left > 0:
            if patience.is_over:
                return 0 if left is None else LATE
            try:
                found = receiver.receive(patience.left())
            except TimeoutError:
                continue
            _show(found, raw=raw, as_json=as_json)
            left = None if left is None else left - 1
    return 0


def _check_updates(services: Sequence[str]) -> None:
    """Refuse to wait for updates that never come.

    :raises click.UsageError: one of the services is of the server itself.
    """
    from bussrv.cli.traffic.receiving import has_wildcard
    from bussrv.values import is_reserved

    for name in filter(is_reserved, services):
        ask = "" if has_wildcard(name) else f", or ask for its present state: bussrv request {name}"
        raise click.UsageError(f"{name!r} has no updates over objects and business: use --format spp{ask}")


def _show(found: ReceivedPublication, *, raw: bool, as_json: bool) -> None:
    from bussrv.cli.show import output

    if raw:
        sys.stdout.buffer.write(found.payload)
    elif as_json:
        output.json_line(found.as_json())
    else:
        output.line(f"{found.service}  {shown(found.payload, found.type)}")
    output.flush()
