"""The ``bussrv`` command: one table of subcommands. A subcommand imports its modules when it runs."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bussrv.cli import alive, audit, check, init, journal, passwd, policy, timeline, token
from bussrv.version import VERSION

INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE


@dataclass(frozen=True)
class Command:
    """A subcommand.

    :ivar summary: a few words for the list of commands.
    :ivar description: what ``--help`` says about it.
    :ivar add_arguments: declares what it takes.
    :ivar run: does it and returns the exit status.
    """

    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS: dict[str, Command] = {
    "alive": Command(alive.SUMMARY, alive.DESCRIPTION, alive.add_arguments, alive.run),
    "audit": Command(audit.SUMMARY, audit.DESCRIPTION, audit.add_arguments, audit.run),
    "check": Command(check.SUMMARY, check.DESCRIPTION, check.add_arguments, check.run),
    "init": Command(init.SUMMARY, init.DESCRIPTION, init.add_arguments, init.run),
    "journal": Command(journal.SUMMARY, journal.DESCRIPTION, journal.add_arguments, journal.run),
    "passwd": Command(passwd.SUMMARY, passwd.DESCRIPTION, passwd.add_arguments, passwd.run),
    "policy": Command(policy.SUMMARY, policy.DESCRIPTION, policy.add_arguments, policy.run),
    "timeline": Command(timeline.SUMMARY, timeline.DESCRIPTION, timeline.add_arguments, timeline.run),
    "token": Command(token.SUMMARY, token.DESCRIPTION, token.add_arguments, token.run),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default that of this process, and return the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        status = COMMANDS[arguments.command].run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more, as with `| head`. Without this the interpreter would complain when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bussrv",
        description="Tools for a bussrv message bus. The server itself is started with: twistd bussrv",
    )
    parser.add_argument("--version", action="version", version=f"bussrv {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        command.add_arguments(commands.add_parser(name, help=command.summary, description=command.description))
    return parser
