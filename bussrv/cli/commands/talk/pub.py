"""``bussrv pub``: publish on a service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.parameters import exclude, format_option, type_option
from bussrv.cli.traffic.payloads import type_of

FORMATS = ("objects", "business", "inbus")


@command(
    examples=(
        "bussrv pub tv 'channel 5'",
        "echo 21.5 | bussrv pub thermometer --format inbus",
        "bussrv pub log --lines < notes.txt",
    ),
    statuses={0: "it was published"},
)
@click.argument("service", metavar="SERVICE")
@click.argument("payload", metavar="[PAYLOAD]", required=False)
@format_option(FORMATS)
@click.option("--file", metavar="FILE", type=click.Path(path_type=Path), help="Publish the content of a file.")
@click.option("--lines", is_flag=True, help="Publish each line of the standard input, when it comes.")
@type_option
@click.option("--app-type", metavar="N", type=int, help="The kind of message, for devices of Inbus.")
@connects
def pub(
    connection: ConnectionOptions,
    *,
    service: str,
    payload: str | None,
    wire_format: str,
    file: Path | None,
    lines: bool,
    content_type: str | None,
    app_type: int | None,
) -> int:
    """Publish a payload on a service: PAYLOAD, the content of a file, or the standard input. The service is registered
    while the command runs. Over Inbus it stays registered for the time of a lease, and the server does not confirm that
    the datagram arrived. SPP cannot publish. The command receives nothing that others send. A program of your own that
    only publishes subscribes with types="none" for the same.
    """
    exclude(payload=payload, file=file, lines=lines)
    payloads = _payloads(payload, file, lines=lines)
    from bussrv.cli.traffic.joining import joined
    from bussrv.client.blocking import connect

    attributes = {} if app_type is None else {"app_type": app_type}
    with joined(connect, connection, wire_format) as bus:
        for each in payloads:
            kind, confirm = content_type or type_of(each), wire_format != "inbus"
            bus.publish(service, each, type=kind, confirm=confirm, **attributes)
    return 0


def _payloads(payload: str | None, file: Path | None, *, lines: bool) -> Iterator[bytes]:
    if payload is not None:
        yield payload.encode("utf-8", "surrogateescape")
    elif file is not None:
        yield file.read_bytes()
    elif lines:
        for each in sys.stdin.buffer:
            yield each.rstrip(b"\r\n")
    else:
        yield sys.stdin.buffer.read()
