"""Bearer tokens: whoever has one is its user. A file of their hashes, and how one is made. Without Twisted.

A line is ``user:sha256$HASH`` or ``user:sha256$HASH$EXPIRY``: the SHA-256 of the token in hexadecimal, and the moment
in UTC from which it is of no use, such as ``2026-12-24T18:00:00Z``. ``bussrv token FILE USER`` makes one. A token has
256 random bits, so nobody can find it by its hash, and no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime, timezone
from pathlib import Path

from msgspec import Struct

from bussrv.policy.logins.trusted_files import LineFile
from bussrv.policy.logins.users import check_user

MAX_TOKEN = 1024
"""The longest text that is looked at, in characters."""

PREFIX = "bussrv-"
"""Every token begins so. Programs that search files for secrets can find it."""

_SCHEME = ":sha256$"
_HASH = re.compile(r"[0-9a-f]{64}")
_EXPIRY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class TokenUse(Struct, frozen=True):
    """The user and the end of a token.

    :ivar expires: the end of the token, UTC microseconds; ``None``: there is no end.
    """

    user: str
    expires: int | None = None


def new_token() -> str:
    """A token that nobody has."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """The hash of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def parse_expiry(text: str) -> int:
    """The end of a token, UTC microseconds.

    :raises ValueError: the text is malformed.
    """
    if not _EXPIRY.fullmatch(text):
        raise ValueError("an expiry looks like 2026-12-24T18:00:00Z")
    # Several times as fast as strptime, which counts: all lines are read while clients wait.
    moment = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 1_000_000


def format_expiry(expires: int) -> str:
    """The inverse of :func:`parse_expiry`, in whole seconds."""
    # Not strftime, which leaves out the zeros in front of years before 1000 on some systems.
    return datetime.fromtimestamp(expires // 1_000_000, timezone.utc).isoformat().replace("+00:00", "Z")


def token_line(user: str, token: str, expires: int | None) -> str:
    """The line of a token, without its end.

    :raises ValueError: ``user`` cannot be the name of one.
    """
    ending = "" if expires is None else f"${format_expiry(expires)}"
    return f"{check_user(user)}{_SCHEME}{digest(token).hex()}{ending}"


def parse_token(line: str) -> tuple[bytes, TokenUse]:
    """The hash of a line, and what its token proves.

    :raises ValueError: the line makes no sense.
    """
    user, scheme, rest = line.rstrip().rpartition(_SCHEME)
    hashed, dollar, expiry = rest.partition("$")
    if not scheme or not _HASH.fullmatch(hashed):
        raise ValueError("not of the form user:sha256$HASH or user:sha256$HASH$EXPIRY")
    return bytes.fromhex(hashed), TokenUse(check_user(user), parse_expiry(expiry) if dollar else None)


TOKENS_FILE = LineFile("tokens", parse_token, ends_user=_SCHEME, repeated="the token has a line already", maker="token")
"""Reads and writes files of tokens."""


def add_token(path: Path, user: str, expires: int | None) -> str:
    """Add a new token to a file. The file is made if there is none.

    :returns: the token, which is stored nowhere.
    :raises ConfigError: the file cannot be used.
    :raises ValueError: ``user`` cannot be the name of one.
    """
    token = new_token()
    line = token_line(user, token, expires)
    TOKENS_FILE.rewrite(path, lambda lines: [*lines, line])
    return token


def take_back_token(path: Path, token: str, *, keep_file: bool) -> None:
    """Delete a token from a file.

    :param keep_file: leave the file there if it has no other line.
    :raises ConfigError: the file cannot be used.
    """
    hashed = digest(token).hex()

    def without(lines: list[str]) -> list[str] | None:
        left = [line for line in lines if f"{_SCHEME}{hashed}" not in line]
        return left if left or keep_file else None

    TOKENS_FILE.rewrite(path, without)
