"""``bussrv token``: makes a bearer token for a user, or deletes the tokens of a user."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from bussrv.errors import ConfigError

SUMMARY = "make a token for the file of --auth tokens:FILE"

DESCRIPTION = """
Make a bearer token for a user, and add its hash to the file that `--auth tokens:FILE` of the server names. The token is
printed once and stored nowhere: whoever has it is that user. The file is made if there is none; only its owner may read
it after that. A server that runs reads it at SIGHUP. Exit status: 0 done, 1 the file, the name or the time cannot be
used.
"""

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhdw])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the file of tokens")
    parser.add_argument("user", metavar="USER", help="the name of the user")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--expires", metavar="TIME", help="how long it is of use: 90m, 12h, 30d or 8w; default: for ever")
    how.add_argument("--delete", action="store_true", help="delete all tokens of the user")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and return the exit status."""
    from bussrv.policy.tokens import add_token, delete_tokens
    from bussrv.policy.users import check_user

    try:
        user = check_user(arguments.user)
        if not arguments.delete:
            print(add_token(arguments.file, user, _expiry(arguments.expires)))
        elif not delete_tokens(arguments.file, user):
            raise ValueError(f"{arguments.file} has no token of {user}")
    except (ValueError, ConfigError) as error:
        print(f"bussrv token: {error}", file=sys.stderr)
        return 1
    return 0


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
