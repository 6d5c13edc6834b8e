"""What ``bussrv journal`` does: ``tail``, ``state`` and ``diff``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bussrv.events import EVENTS_BY_NAME, event_name
from bussrv.inspection import difference as differences
from bussrv.inspection import forgetting, proof
from bussrv.inspection.history import END, Moment, parse_moment, snapshots
from bussrv.inspection.words import record_line, wants_colours, write
from bussrv.journal.reading import Keep, Line, follow, read_end
from bussrv.journal.record import Record
from bussrv.registry import snapshot

POLL_SECONDS = 0.2
"""How long a journal that is followed is left alone when nothing more was in it."""

DIFFERENT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the commands take."""
    commands = parser.add_subparsers(dest="journal_command", metavar="COMMAND", required=True)
    _add_tail(commands.add_parser("tail", help="the last records", description="Show the last records of a journal."))
    _add_state(commands.add_parser("state", help="the registry at a moment", description="The registry, as JSON."))
    _add_diff(
        commands.add_parser(
            "diff",
            help="what differs between two moments",
            description="Exit status: 0 nothing differs, 1 something does, 2 the journal could not be read.",
        )
    )
    proof.add_verify(
        commands.add_parser(
            "verify",
            help="is it what its server wrote",
            description="Exit status: 0 it is, 1 something was changed or is missing, 2 it could not be read.",
        )
    )
    proof.add_seal(
        commands.add_parser("seal", help="seal what is not sealed yet", description="Seal everything there is.")
    )
    proof.add_keygen(
        commands.add_parser("keygen", help="make a key for seals", description="Make a key that seals are signed with.")
    )
    forgetting.add_arguments(commands.add_parser("forget", help=forgetting.SUMMARY, description=forgetting.DESCRIPTION))


def _add_tail(parser: argparse.ArgumentParser) -> None:
    _add_directory(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written, until Ctrl-C")
    parser.add_argument("-n", dest="count", metavar="N", type=_count, default=10, help="how many (10)")
    parser.add_argument("--session", metavar="ID", help="only those about this session")
    parser.add_argument("--service", metavar="NAME", help="only those about this service")
    parser.add_argument("--event", metavar="NAME[,NAME]", type=_events, help="only these events")
    parser.add_argument("--protocol", metavar="NAME", help="only those of this wire format")
    parser.add_argument("--json", action="store_true", help="the lines as they stand in the journal")
    parser.set_defaults(do=tail)


def _add_state(parser: argparse.ArgumentParser) -> None:
    _add_directory(parser)
    parser.add_argument(
        "--at", metavar="TIME|SEQ", type=_moment, default=END, help="when, or behind which record; by default the end"
    )
    parser.set_defaults(do=state)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    _add_directory(parser)
    parser.add_argument("first", metavar="A", type=_moment, help="a time such as 2026-11-21T14:02:03Z, or a record")
    parser.add_argument("second", metavar="B", type=_moment, help="another one")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(do=diff)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="the journal directory")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= sys.maxsize):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records")
    return int(text)


def _events(text: str) -> frozenset[str]:
    names = frozenset(text.split(","))
    unknown = sorted(names - EVENTS_BY_NAME.keys())
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no event {unknown[0]!r}; there are {', '.join(EVENTS_BY_NAME)}")
    return names


def _moment(text: str) -> Moment:
    try:
        return parse_moment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def tail(arguments: argparse.Namespace) -> int:
    """Show the last records; with ``-f`` those to come as well."""
    in_colours = wants_colours(sys.stdout)

    def show(lines: Iterable[Line]) -> None:
        for line in lines:
            if keep(line.record):
                write(line.text if arguments.json else f"{record_line(line.record, in_colours)}\n".encode())

    keep = _filter(arguments)
    found, reader = read_end(arguments.directory, arguments.count, keep)
    try:
        show(found)
        if arguments.follow:
            show(follow(arguments.directory, reader, _pause))
    finally:
        reader.close()
    return 0


def _pause() -> None:
    sys.stdout.buffer.flush()
    time.sleep(POLL_SECONDS)


def _filter(arguments: argparse.Namespace) -> Keep:
    wanted = {name: getattr(arguments, name) for name in ("session", "service", "protocol")}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    events: frozenset[str] | None = arguments.event

    def keep(record: Record) -> bool:
        return (events is None or event_name(record.event) in events) and all(
            getattr(record.event, name) == value for name, value in wanted.items()
        )

    return keep


def state(arguments: argparse.Namespace) -> int:
    """Show the registry at a moment."""
    (found,) = snapshots(arguments.directory, [arguments.at])
    write(snapshot.encode(found) + b"\n")
    return 0


def diff(arguments: argparse.Namespace) -> int:
    """Show what differs between two moments."""
    found = differences.difference(*snapshots(arguments.directory, [arguments.first, arguments.second]))
    if arguments.json:
        write(differences.encode(found) + b"\n")
    else:
        for line in differences.lines(found):
            write(f"{line}\n".encode())
    return DIFFERENT if found else 0
