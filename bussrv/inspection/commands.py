"""The commands ``bussrv journal tail``, ``state`` and ``diff``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.json import encode
from msgspec.structs import replace

from bussrv.events import EVENTS_BY_NAME, event_name
from bussrv.inspection import forgetting, proof
from bussrv.inspection.difference import Difference, difference, lines
from bussrv.inspection.history import snapshots_by_server
from bussrv.inspection.names import Names
from bussrv.inspection.words import record_line, wants_colours, word, write
from bussrv.journal.moments import END, Moment, parse_moment
from bussrv.journal.reading import Keep, Line, follow, read_end
from bussrv.journal.record import Record
from bussrv.registry.snapshot import Snapshot

POLL_SECONDS = 0.2
"""How long a journal that is followed is left alone when nothing more was in it."""

DIFFERENT = 1

TAIL = """
Show the last records of a journal, one on a line: when, its number, what happened, to whom. The filters go first: -n
counts what they leave. Colours only on a terminal.
"""

STATE = """
Show the sessions, services and subscriptions at a moment, as JSON. The moment is a time in UTC, the number of a record
(the last one that counts), or the end. With several journals, the JSON has one member for each server. Records that
retention removed cannot be shown.
"""

DIFF = """
Show which sessions, services and subscriptions came, went or changed between two moments. With several journals, the
moments are times, and each server has a part of its own. Exit status: 0 nothing differs, 1 something differs, 2 a
journal could not be read.
"""


Subcommands = Any
"""The result of :meth:`argparse.ArgumentParser.add_subparsers`; its class is not public."""


def add_arguments(parser: argparse.ArgumentParser) -> Subcommands:
    """Declare what the commands take. :returns: where further commands are added."""
    commands = parser.add_subparsers(dest="journal_command", metavar="COMMAND", required=True)
    _add_tail(commands.add_parser("tail", help="the last records", description=TAIL))
    _add_state(commands.add_parser("state", help="the registry at a moment", description=STATE))
    _add_diff(
        commands.add_parser(
            "diff",
            help="what differs between two moments",
            description=DIFF,
        )
    )
    proof.add_verify(
        commands.add_parser(
            "verify",
            help="is it what its server wrote",
            description=proof.VERIFY,
        )
    )
    proof.add_seal(commands.add_parser("seal", help="seal what is not sealed yet", description=proof.SEAL))
    proof.add_keygen(commands.add_parser("keygen", help="make a key for seals", description=proof.KEYGEN))
    forgetting.add_arguments(commands.add_parser("forget", help=forgetting.SUMMARY, description=forgetting.DESCRIPTION))
    return commands


def _add_tail(parser: argparse.ArgumentParser) -> None:
    _add_directory(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="continue with later records, until Ctrl-C")
    parser.add_argument("-n", dest="count", metavar="N", type=_count, default=10, help="how many (10)")
    parser.add_argument("--session", metavar="ID", help="only those about this session")
    parser.add_argument("--service", metavar="NAME", help="only those about this service")
    parser.add_argument("--event", metavar="NAME[,NAME]", type=_events, help="only these events")
    parser.add_argument("--protocol", metavar="NAME", help="only those of this wire format")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="the lines as they stand in the journal")
    _add_pseudonyms(shown)
    parser.set_defaults(do=tail)


def _add_state(parser: argparse.ArgumentParser) -> None:
    _add_directories(parser)
    parser.add_argument(
        "--at", metavar="TIME|SEQ", type=_moment, default=END, help="a time, or the last record that counts (the end)"
    )
    _add_pseudonyms(parser)
    parser.set_defaults(do=state)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    _add_directories(parser)
    parser.add_argument("first", metavar="A", type=_moment, help="a time such as 2026-11-21T14:02:03Z, or a record")
    parser.add_argument("second", metavar="B", type=_moment, help="another one")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(do=diff)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="the journal directory")


def _add_directories(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directories", metavar="DIR", type=Path, nargs="+", help="a journal directory of each server")


def _add_pseudonyms(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--pseudonyms", metavar="KEYFILE", type=Path, help="show the names and addresses that it leads to"
    )


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

    names = None if arguments.pseudonyms is None else Names(arguments.pseudonyms)

    def show(lines: Iterable[Line]) -> None:
        for line in lines:
            if keep(line.record):
                write(line.text if arguments.json else f"{in_words(line.record)}\n".encode())

    def in_words(record: Record) -> str:
        shown = record if names is None else replace(record, event=names.reveal(record.event))
        return record_line(shown, in_colours)

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
    names = None if arguments.pseudonyms is None else Names(arguments.pseudonyms)

    def revealed(found: Snapshot) -> Snapshot:
        return found if names is None else replace(found, sessions=[names.reveal(each) for each in found.sessions])

    by_server = snapshots_by_server(arguments.directories, [arguments.at])
    _write_json({server: revealed(found) for server, (found,) in by_server.items()})
    return 0


def diff(arguments: argparse.Namespace) -> int:
    """Show what differs between two moments."""
    by_server = snapshots_by_server(arguments.directories, [arguments.first, arguments.second])
    differences = {server: difference(*found) for server, found in by_server.items()}
    if arguments.json:
        _write_json(differences)
    else:
        write("\n".join(_difference_parts(differences)).encode())
    return DIFFERENT if any(differences.values()) else 0


def _write_json(by_server: dict[str, Any]) -> None:
    """The value itself for one server; values by server for several."""
    write(encode(by_server if len(by_server) > 1 else next(iter(by_server.values()))) + b"\n")


def _difference_parts(by_server: dict[str, Difference]) -> Iterator[str]:
    for server, found in by_server.items():
        heading = [f"{word(server)}:"] if len(by_server) > 1 else []
        yield "".join(f"{line}\n" for line in (*heading, *lines(found)))
