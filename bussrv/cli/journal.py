"""``bussrv journal``: look into a journal, also while a server writes it."""

from __future__ import annotations

import argparse
import sys

from bussrv.errors import JournalError

SUMMARY = "look into a journal, verify it, seal it"

DESCRIPTION = """
Show the last records of a journal, the registry at any moment, or what differs between two moments; verify a journal,
seal it, make keys for that, forget people, make a journal up. A server may be writing it meanwhile. Exit status: 0
done, 1 something differs, is wrong or is not there, 2 it could not be done.
"""

UNREADABLE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    from bussrv.inspection import commands
    from bussrv.synth import command as synth

    subcommands = commands.add_arguments(parser)
    synth.add_arguments(subcommands.add_parser("synth", help=synth.SUMMARY, description=synth.DESCRIPTION))


def run(arguments: argparse.Namespace) -> int:
    """Do it, and return the exit status."""
    try:
        status: int = arguments.do(arguments)
    except JournalError as error:
        sys.stdout.flush()
        print(f"bussrv journal: {error}", file=sys.stderr)
        return UNREADABLE
    sys.stdout.flush()
    return status
