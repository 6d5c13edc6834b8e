"""``bussrv passwd``: adds a user to a file of users, gives it another secret, or deletes it."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

import click

from bussrv.cli.command import command
from bussrv.cli.parameters import exclude
from bussrv.errors import ConfigError

LEAST = 8
"""The fewest characters of a secret."""


@command(
    examples=("bussrv passwd users ann --stdin", "bussrv passwd users ann --delete"),
    statuses={0: "done", 1: "the file, the name or the secret cannot be used"},
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("name", metavar="USER")
@click.option("--stdin", is_flag=True, help="The secret is the first line of the standard input.")
@click.option("--delete", is_flag=True, help="Delete the user.")
def passwd(file: Path, name: str, stdin: bool, delete: bool) -> int:
    """Add a user to the file that `--auth users:FILE` of the server names, give the user another secret, or delete it.
    The command asks for the secret twice on a terminal. The file is made if there is none; only its owner may read it
    after that. A running server reads it at SIGHUP, or at `bussrv reload`.
    """
    exclude(stdin=stdin, delete=delete)
    from bussrv.policy.logins.users import USERS_FILE, check_user, put_user

    try:
        user = check_user(name)
        if not delete:
            put_user(file, user, _secret(user, from_stdin=stdin).encode())
            print(f"{file}: {user} is in it. Reload the server. With a policy, a user without a rule may do nothing.")
        elif not USERS_FILE.delete(file, user):
            raise ValueError(f"{file} has no user {user}")
    except (ValueError, ConfigError) as error:
        print(f"bussrv passwd: {error}", file=sys.stderr)
        return 1
    return 0


def _secret(user: str, *, from_stdin: bool) -> str:
    """The secret, from the terminal or from standard input.

    :raises ValueError: it cannot be used.
    """
    if from_stdin:
        secret = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise ValueError("the standard input is no terminal: use --stdin to read the secret from it")
    else:
        secret = getpass.getpass(f"Secret of {user}: ")
        if secret != getpass.getpass("Again: "):
            raise ValueError("the two secrets differ")
    if 0 < len(secret) < LEAST:
        raise ValueError(f"the secret has {len(secret)} characters, the least is {LEAST}: others would guess it")
    return secret
