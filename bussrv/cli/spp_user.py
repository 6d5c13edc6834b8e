"""``bussrv spp-user``: makes a line for the file of users allowed to subscribe via SPP."""

from __future__ import annotations

import argparse
import getpass
import sys

SUMMARY = "make a line for the file of --spp-users"

DESCRIPTION = """
Print the line of a user for the file that the option --spp-users of the server names. The secret is asked for twice on
a terminal; otherwise it is the first line of the standard input. Exit status: 0 done, 1 the name or the secret will not
do.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("name", metavar="NAME", help="the name of the user")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and return the exit status."""
    from bussrv.formats.spp_users import check_user, user_line

    try:
        name = check_user(arguments.name)
        print(user_line(name, _secret(name).encode()))
    except ValueError as error:
        print(f"bussrv spp-user: {error}", file=sys.stderr)
        return 1
    return 0


def _secret(name: str) -> str:
    """The secret, from the terminal or from standard input.

    :raises ValueError: it will not do.
    """
    if sys.stdin.isatty():
        secret = getpass.getpass(f"Secret of {name}: ")
        if secret != getpass.getpass("Again: "):
            raise ValueError("that was not the same secret")
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    return secret
