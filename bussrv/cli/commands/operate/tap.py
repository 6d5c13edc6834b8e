"""``bussrv tap``: show objects that go through the server."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.parameters import whole

DESCRIPTION = """
Show objects that go through the server, of every wire format: time, sender, number of receivers, event, service and
type. The server journals the user of the tap, its start and its end. It shows at most --rate objects a second, and
counts those that it left out. It shows payloads only with --payload.
"""

MOST_SHOWN = 200
"""The most characters of a payload in a line."""


@click.command(
    cls=Command,
    name="tap",
    help=DESCRIPTION,
    examples=("bussrv tap", "bussrv tap --service 'hall/*' --payload --count 5", "bussrv tap --format inbus --json"),
    statuses={0: "--count objects were shown"},
)
@click.option("--service", metavar="NAME", help="Only this service; * stands for any text.")
@click.option("--session", metavar="ID", help="Only objects that this session sent.")
@click.option("--type", "content_type", metavar="TYPE", help="Only this content type; * stands for any text.")
@click.option("--format", "wire_format", metavar="NAME", help="Only objects that came over this wire format.")
@click.option("--sample", metavar="N", type=whole(1), help="Only every Nth.")
@click.option("--rate", metavar="N", type=whole(1), help="At most so many a second.")
@click.option("--payload", is_flag=True, help="Show payloads, too.")
@click.option("-n", "--count", metavar="N", type=whole(1), help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; payloads are in base64.")
@connects
def command(
    connection: Connection,
    content_type: str | None,
    wire_format: str | None,
    payload: bool,
    count: int | None,
    as_json: bool,
    **query: Any,
) -> int:
    """Show objects."""
    from bussrv.cli.show import output

    query |= {"type": content_type, "format": wire_format, "payload": "1" if payload else None}
    left = count
    for event in admin(connection).resuming("/tap", **query):
        found: Mapping[str, Any] = json.loads(event.data)
        if as_json:
            output.json_line({"kind": event.event, **found})
        else:
            output.line(_in_words(event.event, found))
        output.flush()
        left = left - 1 if left is not None and event.event == "object" else left
        if left == 0:
            break
    return 0


def _in_words(kind: str, found: Mapping[str, Any]) -> str:
    if kind != "object":
        return f"… {found.get('count', 'some')} more were left out"
    sender = found.get("from") or {}
    what = [found.get("event"), found.get("service"), found.get("type")]
    parts = [str(found.get("time", ""))[11:23], f"{sender.get('protocol', '?')}:{sender.get('routing_id', '?')}"]
    parts += [
        f"-> {found.get('to_count', '?')}",
        *(str(each) for each in what if each),
        f"{found.get('bytes', 0)} bytes",
    ]
    if found.get("payload"):
        from bussrv.cli.traffic.payloads import shown

        parts.append(shown(base64.b64decode(found["payload"]), None, MOST_SHOWN))
    return "  ".join(parts)
