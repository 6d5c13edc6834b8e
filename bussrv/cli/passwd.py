"""``bussrv passwd``: adds a user to a file of users, gives it another secret, or deletes it."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path

from bussrv.errors import ConfigError

SUMMARY = "add a user to the file of --auth users:FILE, or change its secret"

DESCRIPTION = """
Add a user to the file that `--auth users:FILE` of the server names, give the user another secret, or delete it. The
secret is asked for twice on a terminal. The file is made if there is none; only its owner may read it after that. A
server that runs reads it at SIGHUP. Exit status: 0 done, 1 the file, the name or the secret cannot be used.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the file of users")
    parser.add_argument("user", metavar="USER", help="the name of the user")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stdin", action="store_true", help="the secret is the first line of the standard input")
    how.add_argument("--delete", action="store_true", help="delete the user")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and return the exit status."""
    from bussrv.policy.users import check_user, delete_user, put_user

    try:
        user = check_user(arguments.user)
        if not arguments.delete:
            put_user(arguments.file, user, _secret(user, from_stdin=arguments.stdin).encode())
        elif not delete_user(arguments.file, user):
            raise ValueError(f"{arguments.file} has no user {user}")
    except (ValueError, ConfigError) as error:
        print(f"bussrv passwd: {error}", file=sys.stderr)
        return 1
    return 0


def _secret(user: str, *, from_stdin: bool) -> str:
    """The secret, from the terminal or from standard input.

    :raises ValueError: it cannot be used.
    """
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise ValueError("the standard input is no terminal: use --stdin to read the secret from it")
    secret = getpass.getpass(f"Secret of {user}: ")
    if secret != getpass.getpass("Again: "):
        raise ValueError("the two secrets differ")
    return secret
