"""``bussrv passwd`` and ``token``: change the files of users and of bearer tokens."""

from __future__ import annotations

import getpass
import re
import sys
import time
from pathlib import Path

import click

from bussrv.cli.command import command
from bussrv.cli.parameters import exclude
from bussrv.cli.show import output
from bussrv.cli.streams import OutputError
from bussrv.errors import ConfigError

LEAST = 8
"""The fewest characters of a secret."""

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhdw])")


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


@command(
    examples=("bussrv token tokens ann --expires 30d", "bussrv token tokens ann --delete"),
    statuses={0: "done", 1: "the file, the name or the time cannot be used"},
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("name", metavar="USER")
@click.option("--expires", metavar="TIME", help="The time until it expires: 90m, 12h, 30d or 8w.  [default: never]")
@click.option("--delete", is_flag=True, help="Delete all tokens of the user.")
@click.option("--json", "as_json", is_flag=True, help="Print the token as JSON.")
def token(file: Path, name: str, expires: str | None, delete: bool, as_json: bool) -> int:
    """Make a bearer token for a user, and add its hash to the file that `--auth tokens:FILE` of the server names. The
    token is printed once and stored nowhere: everybody who has it can log in as that user. The file is made if there is
    none; only its owner may read it after that. A running server reads it at SIGHUP, or at `bussrv reload`.
    """
    exclude(expires=expires, delete=delete)
    from bussrv.policy.logins.tokens import TOKENS_FILE, add_token, take_back_token
    from bussrv.policy.logins.users import check_user

    try:
        user = check_user(name)
        if not delete:
            was_there = file.exists()
            token = add_token(file, user, _expiry(expires))
            try:
                _show_token(user, token, as_json=as_json)
            except OutputError:
                # Nobody saw it, and somebody may find it where the output went.
                take_back_token(file, token, keep_file=was_there)
                raise
        elif not TOKENS_FILE.delete(file, user):
            raise ValueError(f"{file} has no token of {user}")
    except (ValueError, ConfigError) as error:
        print(f"bussrv token: {error}", file=sys.stderr)
        return 1
    return 0


def _show_token(user: str, token: str, *, as_json: bool) -> None:
    if as_json:
        output.json_line({"user": user, "token": token})
    else:
        print(token)
    sys.stdout.flush()


def _expiry(text: str | None) -> int | None:
    """The moment after so long a time, UTC microseconds.

    :raises ValueError: the text is no time.
    """
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time such as 90m, 12h, 30d or 8w")
    seconds = int(found[1]) * _SECONDS[found[2]]
    return (int(time.time()) + seconds) * 1_000_000
