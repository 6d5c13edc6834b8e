"""``bussrv events``: show what happens in the registry, as it happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import Command
from bussrv.cli.connection import Connection, connects
from bussrv.cli.parameters import EVENTS, whole

if TYPE_CHECKING:
    from bussrv.client.admin import ServerSentEvent

DESCRIPTION = """
Show records of the journal as they are written: sessions, services, subscriptions, links, refusals. With --after, begin
with an earlier record, if the journal still has it. If the connection is lost, continue after the last record that was
shown.
"""

SKIPPED = "skipped"
"""The event of the server that says how many records it cannot send."""


@click.command(
    cls=Command,
    name="events",
    help=DESCRIPTION,
    examples=("bussrv events", "bussrv events --after 0 --event session.opened,session.closed --json --count 3"),
    statuses={0: "--count records were shown"},
)
@click.option("--after", metavar="SEQ", type=whole(0), help="Begin after this record; 0: with the first.")
@click.option("--event", "events", metavar="NAME[,NAME]", type=EVENTS, help="Only these events.")
@click.option("--session", metavar="ID", help="Only those about this session.")
@click.option("--service", metavar="NAME", help="Only those about this service.")
@click.option("--protocol", metavar="NAME", help="Only those of this wire format.")
@click.option("-n", "--count", metavar="N", type=whole(1), help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="The records as they stand in the journal.")
@connects
def command(
    connection: Connection,
    after: int | None,
    events: frozenset[str] | None,
    count: int | None,
    as_json: bool,
    **about: str | None,
) -> int:
    """Show records."""
    from bussrv.cli.show import output
    from bussrv.cli.show.records import in_words

    wanted = {name: value for name, value in about.items() if value is not None}
    left = count
    for event in admin(connection).resuming("/events", "" if after is None else str(after)):
        if event.event == SKIPPED:
            print(f"bussrv events: {_left_out(event)}", file=sys.stderr)
            continue
        if events is not None and event.event not in events:
            continue
        record: Mapping[str, Any] = json.loads(event.data)
        if any(record.get(name) != value for name, value in wanted.items()):
            continue
        if as_json:
            output.json_line(record)
        else:
            output.line(output.fitted(in_words(record, is_short=output.is_terminal())))
        output.flush()
        left = None if left is None else left - 1
        if left == 0:
            break
    return 0


def _left_out(event: ServerSentEvent) -> str:
    """Says which records the server cannot send."""
    last, count = int(event.id), int(json.loads(event.data)["count"])
    which = f"record {last} is" if count == 1 else f"records {last - count + 1} to {last} are"
    return f"{which} not in the journal any more, or cannot be read"
