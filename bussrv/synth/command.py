"""``bussrv journal synth``: write a journal of a server that never ran."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from bussrv.errors import JournalError
from bussrv.journal.keys import read_private
from bussrv.journal.segment import list_segments
from bussrv.synth import faults, scripts

SUMMARY = "make up a journal"

DESCRIPTION = """
Write the journal of a server that never ran: some days of clients that come and go, as many records as are asked for,
the same for the same seed. Faults are what no server writes; attacks are what one has to live with. What was put in is
printed, one JSON object a line.
"""

ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="is made, and must not hold a journal")
    parser.add_argument("--events", metavar="N", type=_number, default=100_000, help="about how many records (100000)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="other days for another one (0)")
    parser.add_argument("--server", metavar="ID", default="hall", help="the id of the server (hall)")
    parser.add_argument("--key", metavar="FILE", type=Path, help="the private key that seals are signed with")
    parser.add_argument("--compress", action="store_true", help="compress closed segments")
    for option, what, kinds in (("--faults", "fault", faults.KINDS), ("--attacks", "attack", scripts.KINDS)):
        parser.add_argument(
            option,
            metavar="KIND[,KIND]",
            type=partial(_kinds, what, tuple(kinds)),
            default=(),
            help=f"{ALL}, or some of: {', '.join(kinds)}",
        )
    parser.set_defaults(do=synth)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records")
    return int(text)


def _kinds(what: str, known: Sequence[str], text: str) -> tuple[str, ...]:
    kinds = tuple(known) if text == ALL else tuple(dict.fromkeys(text.split(",")))
    for kind in kinds:
        if kind not in known:
            raise argparse.ArgumentTypeError(f"there is no {what} {kind!r}; there are {', '.join(known)}")
    return kinds


def synth(arguments: argparse.Namespace) -> int:
    """Write it, and say what was put in.

    :raises JournalError: if there is a journal already, or it cannot be written.
    """
    # The other commands need nothing of what this one loads.
    from bussrv.synth.journal import write_journal

    directory: Path = arguments.directory
    if directory.exists() and list_segments(directory):
        raise JournalError(f"{directory} holds a journal already")
    try:
        made = write_journal(
            directory,
            events=arguments.events,
            seed=arguments.seed,
            server=arguments.server,
            key=None if arguments.key is None else read_private(arguments.key),
            compress=arguments.compress,
            faults=arguments.faults,
            attacks=arguments.attacks,
        )
    except OSError as error:
        raise JournalError(f"cannot write {directory}: {error.strerror}") from error
    for each in made:
        sys.stdout.write(msgspec.json.encode(each).decode() + "\n")
    return 0
