"""``bussrv token``: makes a bearer token for a user, or deletes the tokens of a user."""

from __future__ import annotations

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

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhdw])")


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
                _show(user, token, as_json=as_json)
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


def _show(user: str, token: str, *, as_json: bool) -> None:
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
