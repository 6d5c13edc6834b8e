"""``bussrv request``: ask a service, and show its reply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.failure import NO
from bussrv.cli.parameters import exclude, format_option, type_option

if TYPE_CHECKING:
    from bussrv.client.events import Reply

FORMATS = ("objects", "business")


@command(
    examples=("bussrv request clock", "bussrv request tv 'which channel?' --json"),
    statuses={0: "a reply came", 1: "nobody provides the service, or it answered with an error"},
)
@click.argument("service", metavar="SERVICE")
@click.argument("payload", metavar="[PAYLOAD]", required=False)
@format_option(FORMATS)
@click.option(
    "--file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True), help="Send the content of a file."
)
@type_option
@click.option("--json", "as_json", is_flag=True, help="As JSON, with all attributes of the reply.")
@connects
def request(
    connection: ConnectionOptions,
    service: str,
    payload: str | None,
    wire_format: str,
    file: Path | None,
    content_type: str | None,
    as_json: bool,
) -> int:
    """Send a request to a service, and show the reply. The request has no payload, or PAYLOAD, or the content of a
    file; the file - is the standard input. On a terminal, text that would steer it is escaped; elsewhere the reply is
    written as it is.
    """
    from bussrv.cli.failure import NOT_YOU, Failure
    from bussrv.cli.traffic.joining import joined
    from bussrv.cli.traffic.payloads import type_of
    from bussrv.client.blocking import connect
    from bussrv.client.errors import BusError

    exclude(payload=payload, file=file)
    data = _payload(payload, file)
    with joined(connect, connection, wire_format) as bus:
        try:
            found = bus.request(service, data, type=content_type or type_of(data), timeout=connection.timeout)
        except BusError as error:
            # No answer is no answer. But a provider that goes is one.
            if error.reason in NOT_YOU or (isinstance(error, OSError) and error.reason != "provider-gone"):
                raise
            asked = f"; asked {connection.place(wire_format).address}" if error.reason == "no-such-service" else ""
            raise Failure(f"{error}{asked}", NO) from error
    _show(found, as_json=as_json)
    return 0


def _payload(payload: str | None, file: Path | None) -> bytes:
    if payload is not None:
        return payload.encode("utf-8", "surrogateescape")
    if file is None:
        return b""
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


def _show(found: Reply, *, as_json: bool) -> None:
    from bussrv.cli.show import output

    if as_json:
        output.json_line({"metadata": found.metadata, **output.payload_fields(found.payload)})
    elif not sys.stdout.isatty():
        sys.stdout.buffer.write(found.payload)
    else:
        from bussrv.cli.traffic.payloads import shown

        output.line(shown(found.payload, found.type))
