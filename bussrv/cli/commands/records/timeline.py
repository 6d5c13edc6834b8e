"""``bussrv timeline``: the history of one client or service, from the journals of one or more servers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from bussrv.audit.arguments import INSTANT
from bussrv.cli.command import command
from bussrv.cli.failure import DONE, FAILED, NO
from bussrv.errors import BussrvError
from bussrv.terminal import word

if TYPE_CHECKING:
    from bussrv.audit.timeline.source import TimelineRecords


@command(
    examples=("bussrv timeline doorbell bussrv-journal",),
    statuses={0: "done", 1: "no record concerns that name", 2: "failed"},
)
@click.argument("name", metavar="NAME")
@click.argument("journals", nargs=-1, required=True, metavar="JOURNAL...")
@click.option("--since", metavar="TIME", type=INSTANT, help="Leave out records before this time.")
@click.option("--until", metavar="TIME", type=INSTANT, help="Leave out records at or after this time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def timeline(name: str, journals: Sequence[str], since: int | None, until: int | None, as_json: bool) -> int:
    """Show every record that concerns one client or service, in order, each with its cause. Reads the journals of one
    or more servers, also large ones. Needs PySpark (pip install 'bussrv[audit]', in a checkout: pip install -e
    '.[audit]') and Java 17 or newer. NAME is a service, or the session, routing id, user, program or MQTT client id,
    address or peer of a client. JOURNAL is a journal directory, or its URL.
    """
    from bussrv.audit.timeline.source import open_source

    try:
        with open_source(journals) as source:
            if _write_timeline(source, name, since, until, as_json=as_json):
                sys.stdout.flush()
                return DONE
            from bussrv.audit.timeline.query import similar_names

            similar = similar_names(source.records, name)
        _complain(_nothing_found(name, similar))
        return NO
    except BussrvError as error:
        said = str(error)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    _complain(said)
    return FAILED


def _write_timeline(source: TimelineRecords, name: str, since: int | None, until: int | None, *, as_json: bool) -> bool:
    """Print it, and return whether there was anything to print."""
    from bussrv.audit.fold.stripe import Period
    from bussrv.audit.timeline.query import timeline, with_microseconds
    from bussrv.inspection.words import write

    is_empty = True
    for row in with_microseconds(
        timeline(source.records, name, source.store.keep, Period(since, until))
    ).toLocalIterator():
        is_empty = False
        write(_line(row.asDict(recursive=True), as_json) + b"\n")
    return not is_empty


def _line(row: Mapping[str, Any], as_json: bool) -> bytes:
    import msgspec

    from bussrv.audit.timeline.narration import sentences
    from bussrv.journal.record import format_time

    said = sentences(row, word)
    if not as_json:
        return f"{format_time(row['moment'])} {word(row['server'])} {row['seq']} {said}".encode()
    shown = {name: value for name, value in row.items() if value is not None}
    return msgspec.json.encode({**shown, "sentence": said})


def _nothing_found(name: str, similar: Sequence[str]) -> str:
    if name in similar:
        return f"no record concerns {word(name)} in that time"
    if similar:
        return f"no record concerns {word(name)}; similar names are {', '.join(map(word, similar))}"
    return f"no record concerns {word(name)}"


def _complain(message: str) -> None:
    print(f"bussrv timeline: {message}", file=sys.stderr)
