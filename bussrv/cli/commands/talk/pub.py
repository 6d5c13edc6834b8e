"""``bussrv pub``: publish on a service."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.parameters import exclude, format_option, type_option
from bussrv.cli.traffic.payloads import type_of

if TYPE_CHECKING:
    from bussrv.client.aio import Bus

FORMATS = ("objects", "business", "inbus")

_CHUNK = 64 << 10
_BATCH = 1000


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
    batches = _lines(cast(BufferedIOBase, sys.stdin.buffer)) if lines else iter([[_payload(payload, file)]])
    import asyncio

    from bussrv.cli.traffic.joining import joined
    from bussrv.client.blocking import connect

    attributes = {} if app_type is None else {"app_type": app_type}

    async def publish(batch: Sequence[bytes], bus: Bus) -> None:
        """Publish in order, without a round trip for each. :raises BusError: that of the first that failed."""
        confirm = wire_format != "inbus"
        outcomes = await asyncio.gather(
            *(
                bus.publish(service, each, type=content_type or type_of(each), confirm=confirm, **attributes)
                for each in batch
            ),
            return_exceptions=True,
        )
        for error in filter(None, outcomes):
            raise error

    with joined(connect, connection, wire_format) as bus:
        for batch in batches:
            bus.run(partial(publish, batch))
    return 0


def _payload(payload: str | None, file: Path | None) -> bytes:
    if payload is not None:
        return payload.encode("utf-8", "surrogateescape")
    return sys.stdin.buffer.read() if file is None else file.read_bytes()


def _lines(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """Lines as they come: those that have come together, up to a limit."""
    pieces: list[bytes] = []
    while piece := stream.read1(_CHUNK):
        pieces.append(piece)
        if b"\n" in piece:
            *lines, rest = b"".join(pieces).split(b"\n")
            pieces = [rest]
            for begin in range(0, len(lines), _BATCH):
                yield [each.rstrip(b"\r") for each in lines[begin : begin + _BATCH]]
    if last := b"".join(pieces):
        yield [last.rstrip(b"\r")]
