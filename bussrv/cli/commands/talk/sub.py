"""``bussrv sub``: show publications on services."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import LATE
from bussrv.cli.parameters import exclude, format_option, reconnect_option, seconds, whole
from bussrv.cli.traffic.payloads import shown

if TYPE_CHECKING:
    from bussrv.cli.traffic.receiving import ReceivedPublication
    from bussrv.client.events import Gap

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
@reconnect_option
@click.option("--raw", is_flag=True, help="Payloads as they are, with nothing between them; not to a terminal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@connects
def sub(
    connection: ConnectionOptions,
    *,
    services: Sequence[str],
    wire_format: str,
    count: int | None,
    seconds: float | None,
    reconnect: bool,
    raw: bool,
    as_json: bool,
) -> int:
    """Show publications on services, one line each: the service and the payload. A SERVICE may have * and ?, except
    over Inbus; quote them. Over SPP, the last value of each service comes first. The services of the server itself,
    bus/…, have updates over SPP and Inbus only. Text that would steer the terminal is escaped, and a long payload is
    cut; --json and --raw have all of it. Where publications may be missing, because the connection ended or too many
    came, a line on standard error says so; with --json there is an object with "gap", the reason, and "lost", their
    number, null if nobody knows it.
    """
    from bussrv.cli.traffic.receiving import ReceivedPublication, receiving

    exclude(raw=raw, json=as_json)
    if wire_format in MEMBERS:
        _check_updates(services)
    if raw and sys.stdout.isatty():
        raise click.UsageError("--raw would let payloads steer the terminal: send the output to a file or a program")
    with receiving(connection, wire_format, services, reconnect=reconnect) as receiver:
        end, left = None if seconds is None else time.monotonic() + seconds, count
        while left is None or left > 0:
            found = receiver.receive(None if end is None else end - time.monotonic())
            if found is None:
                return 0 if left is None else LATE
            if isinstance(found, ReceivedPublication):
                _show(found, raw=raw, as_json=as_json)
                left = None if left is None else left - 1
            else:
                _show_gap(found, as_json=as_json)
    return 0


def _check_updates(services: Sequence[str]) -> None:
    """Refuse to wait for updates that never come.

    :raises click.UsageError: one of the services is of the server itself.
    """
    from bussrv.client.core.names import is_wide
    from bussrv.values import is_reserved

    for name in filter(is_reserved, services):
        ask = "" if is_wide(name) else f", or ask for its present state: bussrv request {name}"
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


def _show_gap(gap: Gap, *, as_json: bool) -> None:
    from bussrv.cli.show import output
    from bussrv.cli.traffic.joining import speaker

    missing = "publications may be" if gap.lost is None else f"{gap.lost} publications are"
    speaker()(f"{missing} missing here: {gap.reason}")
    if as_json:
        output.json_line({"gap": gap.reason, "lost": gap.lost})
        output.flush()
