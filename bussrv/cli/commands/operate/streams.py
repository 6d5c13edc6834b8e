"""``bussrv events`` and ``tap``: show what happens in a server, as it happens."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from bussrv.cli.asking import admin
from bussrv.cli.command import command
from bussrv.cli.connection import ConnectionOptions, connects
from bussrv.cli.parameters import EVENTS, whole
from bussrv.registry.state.naming import called as called_by
from bussrv.registry.state.naming import is_called

if TYPE_CHECKING:
    from bussrv.cli.admin_client import ServerSentEvent

SKIPPED = "skipped"
"""The event of the server that says how many records it cannot send."""

MOST_SHOWN = 200
"""The most characters of a payload in a line."""


@command(
    examples=("bussrv events", "bussrv events --after 0 --event session.opened,session.closed --json --count 3"),
    statuses={0: "--count records were shown"},
)
@click.option("--after", metavar="SEQ", type=whole(0), help="Begin after this record; 0: with the first.")
@click.option("--event", "events", metavar="NAME[,NAME]", type=EVENTS, help="Only these events.")
@click.option("--session", metavar="ID", help="Only those about this session.")
@click.option(
    "--called",
    metavar="NAME",
    help="Only those with this user, claimed name, service, address or id; * stands for any text.",
)
@click.option("--service", metavar="NAME", help="Only those about this service.")
@click.option("--protocol", metavar="NAME", help="Only those of this wire format.")
@click.option("-n", "--count", metavar="N", type=whole(1), help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="The records as they stand in the journal.")
@connects
def events(
    connection: ConnectionOptions,
    after: int | None,
    events: frozenset[str] | None,
    count: int | None,
    as_json: bool,
    called: str | None,
    **about: str | None,
) -> int:
    """Show records of the journal as they are written: sessions, services, subscriptions, links, refusals. With
    --after, begin with an earlier record, if the journal still has it. If the connection is lost, continue after the
    last record that was shown.
    """
    from bussrv.cli.show import output
    from bussrv.cli.show.records import in_words

    wanted = {name: value for name, value in about.items() if value is not None}
    stream = admin(connection).resuming("/events", "" if after is None else str(after))
    records = _records(stream, events, wanted)
    for record in islice((each for each in records if called is None or is_called(each, called)), count):
        if as_json:
            output.json_line(record)
        else:
            output.line(output.fitted(in_words(record, is_short=output.is_terminal())))
        output.flush()
    return 0


def _records(
    stream: Iterable[ServerSentEvent], events: frozenset[str] | None, wanted: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    """The records of a stream that pass the filters. Standard error has those that the server cannot send."""
    for event in stream:
        if event.event == SKIPPED:
            print(f"bussrv events: {_left_out(event)}", file=sys.stderr)
        elif events is None or event.event in events:
            record: Mapping[str, Any] = json.loads(event.data)
            if all(record.get(name) == value for name, value in wanted.items()):
                yield record


def _left_out(event: ServerSentEvent) -> str:
    """Says which records the server cannot send."""
    last, count = int(event.id), int(json.loads(event.data)["count"])
    which = f"record {last} is" if count == 1 else f"records {last - count + 1} to {last} are"
    return f"{which} not in the journal any more, or cannot be read"


@command(
    examples=(
        "bussrv tap",
        "bussrv tap --service 'hall/*' --payload --count 5",
        "bussrv tap --format inbus --json",
        "bussrv tap --payload -w tapped.pcapng --count 5",
    ),
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
@click.option(
    "-w",
    "--write",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write a packet capture (pcapng) for Wireshark instead, which its owner alone may read; -: to the output.",
)
@connects
def tap(
    connection: ConnectionOptions,
    content_type: str | None,
    wire_format: str | None,
    payload: bool,
    count: int | None,
    as_json: bool,
    file: Path | None,
    **query: Any,
) -> int:
    """Show objects that go through the server, of every wire format: time, sender, number of receivers, event, service
    and type. The server journals the user of the tap, its start and its end. It shows at most --rate objects a second,
    and counts those that it left out. It shows payloads only with --payload.
    """
    if as_json and file is not None:
        raise click.UsageError("--json and --write exclude each other.")
    query |= {"type": content_type, "format": wire_format, "payload": "1" if payload else None}
    client = admin(connection)
    with ExitStack() as opened:
        show = _shown(as_json) if file is None else _captured(file, client.where, opened)
        left = count
        for event in client.resuming("/tap", **query):
            show(event)
            left = left - 1 if left is not None and event.event == "object" else left
            if left == 0:
                break
    return 0


def _shown(as_json: bool) -> Callable[[ServerSentEvent], None]:
    """Shows events in lines."""
    from bussrv.cli.show import output

    def show(event: ServerSentEvent) -> None:
        found: Mapping[str, Any] = json.loads(event.data)
        if as_json:
            output.json_line({"kind": event.event, **found})
        else:
            output.line(_object_in_words(event.event, found))
        output.flush()

    return show


def _captured(file: Path, server: str, opened: ExitStack) -> Callable[[ServerSentEvent], None]:
    """Writes events to a capture. :param opened: closes its file."""
    from bussrv.cli.traffic.capture import Capture

    stream = sys.stdout.buffer
    if str(file) != "-":
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        stream = os.fdopen(descriptor, "wb")
        opened.callback(_close, stream)

    def write(data: bytes) -> None:
        try:
            stream.write(data)
            stream.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file)) from error

    capture = Capture(write, server)
    return lambda event: capture.add(event.event, event.data)


def _close(stream: BinaryIO) -> None:
    """Close a file that was flushed after each packet: whatever failed was told then."""
    with suppress(OSError):
        stream.close()


def _object_in_words(kind: str, found: Mapping[str, Any]) -> str:
    if kind != "object":
        return f"… {found.get('count', 'some')} more were left out"
    sender = found.get("from") or {}
    what = [found.get("event"), found.get("service"), found.get("type")]
    parts = [str(found.get("time", ""))[11:23], sender.get("protocol") or "?", called_by(sender)]
    parts += [
        f"-> {found.get('to_count', '?')}",
        *(str(each) for each in what if each),
        f"{found.get('bytes', 0)} bytes",
    ]
    if found.get("payload"):
        from bussrv.cli.traffic.payloads import shown

        parts.append(shown(base64.b64decode(found["payload"]), None, MOST_SHOWN))
    return "  ".join(parts)
