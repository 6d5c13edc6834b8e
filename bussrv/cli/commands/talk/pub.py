"""``bussrv pub``: publish on a service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.parameters import exclude, format_option, type_option
from bussrv.cli.traffic.payloads import type_of

if TYPE_CHECKING:
    from bussrv.cli.traffic.members import Member

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
    if wire_format == "inbus":
        from bussrv.client.inbus import publish

        address = connection.place("inbus").address
        for each in payloads:
            publish(service, each, 1 if app_type is None else app_type, server=(address.host, address.port))
        return 0
    from bussrv.cli.traffic.members import NOTHING, joined

    with joined(connection, wire_format, NOTHING) as member:
        member.register(service)
        for each in payloads:
            _publish(member, service, each, content_type, app_type, connection.timeout)
        _decline(member)
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


def _publish(
    member: Member, service: str, payload: bytes, content_type: str | None, app_type: int | None, timeout: float
) -> None:
    from bussrv.client._framed import new_id

    fields: dict[str, Any] = {"type": content_type or type_of(payload), "sender": service, "id": new_id()}
    if app_type is not None:
        fields["app-type"] = app_type
    member.client.send(fields, payload)
    member.settle(fields["id"], timeout)


def _decline(member: Member) -> None:
    """Refuse the requests that came meanwhile: this client cannot answer them."""
    while (asked := member.taken(lambda each: each.metadata.get("event") == "services/request")) is not None:
        member.refuse(asked, "no-such-service", "this client only publishes")
