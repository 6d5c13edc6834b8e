"""``bussrv timeline``: the history of one client or service, from the journals of one or more servers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bussrv.audit.arguments import INSTANT
from bussrv.cli.command import Command
from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from bussrv.audit.timeline.source import Source

DESCRIPTION = """
Show every record that concerns one client or service, in order, each with its cause. Reads the journals of one or more
servers, also large ones. Needs PySpark (pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]') and Java
17 or newer. NAME is a service, or the session, routing id, user, address or peer of a client. JOURNAL is a journal
directory, or its URL.
"""

DONE, NOTHING_FOUND, FAILED = 0, 1, 2


class Asked(NamedTuple):
    """The question. Times are UTC microseconds."""

    name: str
    journals: Sequence[str]
    since: int | None
    until: int | None
    as_json: bool


@click.command(
    cls=Command,
    name="timeline",
    help=DESCRIPTION,
    examples=("bussrv timeline doorbell bussrv-journal",),
    statuses={0: "done", 1: "no record concerns that name", 2: "failed"},
)
@click.argument("name", metavar="NAME")
@click.argument("journals", nargs=-1, required=True, metavar="JOURNAL...")
@click.option("--since", metavar="TIME", type=INSTANT, help="Leave out records before this time.")
@click.option("--until", metavar="TIME", type=INSTANT, help="Leave out records at or after this time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def command(**given: Any) -> int:
    """Show the timeline."""
    asked = Asked(**given)
    try:
        status = _show(asked)
        sys.stdout.flush()
        return status
    except BussrvError as error:
        said = str(error)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    _complain(said)
    return FAILED


def _show(asked: Asked) -> int:
    from bussrv.audit.timeline.source import open_source

    with open_source(asked.journals) as source:
        if _write_timeline(source, asked):
            return DONE
        from bussrv.audit.timeline.query import similar_names

        similar = similar_names(source.records, asked.name)
    _complain(_nothing_found(asked.name, similar))
    return NOTHING_FOUND


def _write_timeline(source: Source, asked: Asked) -> bool:
    """Print it, and return whether there was anything to print."""
    from bussrv.audit.fold.stripe import Period
    from bussrv.audit.timeline.query import timeline, with_microseconds

    period = Period(asked.since, asked.until)
    rows = with_microseconds(timeline(source.records, asked.name, source.store.keep, period))
    is_empty = True
    for row in rows.toLocalIterator():
        is_empty = False
        _write(_line(row.asDict(recursive=True), asked.as_json))
    return not is_empty


def _line(row: Mapping[str, Any], as_json: bool) -> bytes:
    import msgspec

    from bussrv.audit.timeline.narration import sentences
    from bussrv.journal.record import format_time

    said = sentences(row, _word)
    if not as_json:
        return f"{format_time(row['moment'])} {_word(row['server'])} {row['seq']} {said}".encode()
    shown = {name: value for name, value in row.items() if value is not None}
    return msgspec.json.encode({**shown, "sentence": said})


def _nothing_found(name: str, similar: Sequence[str]) -> str:
    if name in similar:
        return f"no record concerns {_word(name)} in that time"
    if similar:
        return f"no record concerns {_word(name)}; similar names are {', '.join(map(_word, similar))}"
    return f"no record concerns {_word(name)}"


def _complain(message: str) -> None:
    print(f"bussrv timeline: {message}", file=sys.stderr)


def _word(value: object) -> str:
    from bussrv.terminal import word

    return word(value)


def _write(line: bytes) -> None:
    from bussrv.inspection.words import write

    write(line + b"\n")
