"""The command ``bussrv journal forget``: the key of a person is destroyed, the journal stays as it is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bussrv.journal.pseudonym_keys import forget as destroy

UNKNOWN = 1

SUMMARY = "forget a person whom the journal knows by a pseudonym"

DESCRIPTION = """
Destroy the key that leads from a pseudonym in a journal to a person or an address. The journal is not touched, and the
server that writes it may be running. Exit status: 0 done, 1 there is no such identity, 2 the file could not be read or
written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("file", metavar="KEYFILE", type=Path, help="what --journal-pseudonyms of the server names")
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--actor", metavar="NAME", help="the name of a user, proved or claimed")
    whom.add_argument("--peer", metavar="HOST", help="an IP address")
    parser.set_defaults(do=forget)


def forget(arguments: argparse.Namespace) -> int:
    """Forget somebody.

    :raises JournalError: if the file cannot be read or replaced, or is damaged.
    """
    if arguments.actor is not None:
        removed, whom = destroy(arguments.file, "actor", arguments.actor), "actor"
    else:
        removed, whom = destroy(arguments.file, "peer", arguments.peer), "address"
    if not removed:
        sys.stdout.write(f"There is no such {whom} in the key file.\n")
        return UNKNOWN
    sys.stdout.write(f"The {whom} is forgotten: nothing leads from its pseudonyms to it any more.\n")
    return 0
