"""``bussrv timeline``: the history of one client or service, from the journals of one or more servers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from bussrv.audit.timeline.source import Source

SUMMARY = "show the history of a client or a service"

DESCRIPTION = """
Show every record that concerns one client or service, in order, each with its cause. Reads the journals of one or more
servers, also large ones. Needs PySpark (pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]') and Java
17 or newer. Exit status: 0 done, 1 no record concerns that name, 2 failed.
"""

DONE, NOTHING_FOUND, FAILED = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "name", metavar="NAME", help="a service, or the session, routing id, user, address or peer of a client"
    )
    parser.add_argument("journals", nargs="+", metavar="JOURNAL", help="a journal directory, or its URL")
    parser.add_argument("--since", metavar="TIME", type=_time, help="leave out records before this time")
    parser.add_argument("--until", metavar="TIME", type=_time, help="leave out records at or after this time")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")


def run(arguments: argparse.Namespace) -> int:
    """Show the timeline, and return the exit status."""
    try:
        status = _show(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        raise
    except BussrvError as error:
        said = str(error)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    _complain(said)
    return FAILED


def _time(text: str) -> int:
    from bussrv.journal.moments import parse_instant

    try:
        return parse_instant(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _show(arguments: argparse.Namespace) -> int:
    from bussrv.audit.timeline.source import open_source

    with open_source(arguments.journals) as source:
        if _write_timeline(source, arguments):
            return DONE
        from bussrv.audit.timeline.query import similar_names

        similar = similar_names(source.records, arguments.name)
    _complain(_nothing_found(arguments.name, similar))
    return NOTHING_FOUND


def _write_timeline(source: Source, arguments: argparse.Namespace) -> bool:
    """Print it, and return whether there was anything to print."""
    from bussrv.audit.tables.period import Period
    from bussrv.audit.timeline.query import timeline, with_microseconds

    period = Period(arguments.since, arguments.until)
    rows = with_microseconds(timeline(source.records, arguments.name, source.store.keep, period))
    is_empty = True
    for row in rows.toLocalIterator():
        is_empty = False
        _write(_line(row.asDict(recursive=True), arguments.json))
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
    from bussrv.inspection.words import word

    return word(value)


def _write(line: bytes) -> None:
    from bussrv.inspection.words import write

    write(line + b"\n")
