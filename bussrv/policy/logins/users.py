"""Users: a file of names and hashed secrets, the scheme of the hash, and how both are checked. Without Twisted.

A line is ``user:scrypt$N$r$p$salt$hash``: the cost, the block size and the parallelism of scrypt (RFC 7914) in decimal,
then salt and hash in base64. ``bussrv passwd FILE USER`` makes one.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bussrv.policy.logins.trusted_files import LineFile
from bussrv.policy.permissions.access import ANONYMOUS

SCHEME = "scrypt"
MAX_USER = 255
"""The longest name of a user, in bytes of UTF-8."""

RESERVED = (ANONYMOUS, "*")
"""Names that policies use for users who did not prove who they are, and for all who did."""

MAX_SECRET = 1024
"""The longest secret, in bytes: those that wait to be checked are held in memory."""

MAX_MEMORY = 256 << 20
"""The most bytes of memory that checking a secret may take: a line of the file says how much."""

_MAX_PARALLELISM = 64
_SALT_BYTES = 16
_HASH_BYTES = 32


class SecretHash(Struct, frozen=True):
    """The stored form of a secret.

    :ivar cost: N, a power of two. Memory is 128 times ``cost`` times ``block_size`` bytes.
    :ivar block_size: r.
    :ivar parallelism: p; time grows with it, memory does not.
    """

    salt: bytes
    digest: bytes
    cost: int = 1 << 15
    block_size: int = 8
    parallelism: int = 3

    def matches(self, secret: bytes) -> bool:
        """Whether this was made of ``secret``. Takes a good part of a second, by design."""
        # NULs at the end would change nothing: HMAC, which scrypt is made of, fills its key with them.
        return hmac.compare_digest(self.digest, self._hash(secret)) and b"\0" not in secret

    def made_of(self, secret: bytes) -> SecretHash:
        """The hash of ``secret`` with the same salt and parameters."""
        return replace(self, digest=self._hash(secret))

    def _hash(self, secret: bytes) -> bytes:
        return hashlib.scrypt(
            secret,
            salt=self.salt,
            n=self.cost,
            r=self.block_size,
            p=self.parallelism,
            maxmem=2 * MAX_MEMORY,
            dklen=len(self.digest),
        )

    def __str__(self) -> str:
        """The text of the hash in the file."""
        salt, digest = (b64encode(each).decode() for each in (self.salt, self.digest))
        return f"{SCHEME}${self.cost}${self.block_size}${self.parallelism}${salt}${digest}"


NOBODY = SecretHash(bytes(_SALT_BYTES), bytes(_HASH_BYTES))
"""No secret is known that this was made of."""


def hash_secret(secret: bytes) -> SecretHash:
    """The hash of a secret, with a salt of its own.

    :raises ValueError: the secret is empty, too long, or holds a NUL.
    """
    if not 1 <= len(secret) <= MAX_SECRET or b"\0" in secret:
        raise ValueError(f"the secret has 1 to {MAX_SECRET} bytes, and holds no NUL")
    return replace(NOBODY, salt=os.urandom(_SALT_BYTES)).made_of(secret)


def parse_hash(text: str) -> SecretHash:
    """The hash that ``text`` stands for.

    :raises ValueError: it stands for none, or one that takes too much to check.
    """
    scheme, *fields = text.split("$")
    if scheme != SCHEME or len(fields) != 5:
        raise ValueError(f"not of the form user:{SCHEME}$N$r$p$salt$hash")
    try:
        cost, block_size, parallelism = (int(each) for each in fields[:3])
        salt, digest = (b64decode(each, validate=True) for each in fields[3:])
    except (ValueError, binascii.Error) as error:
        raise ValueError("N, r and p are numbers, salt and hash are base64") from error
    _check_parameters(cost, block_size, parallelism)
    if not salt or len(digest) < _HASH_BYTES:
        raise ValueError(f"the salt is not empty, and the hash has {_HASH_BYTES} bytes or more")
    return SecretHash(salt, digest, cost, block_size, parallelism)


def _check_parameters(cost: int, block_size: int, parallelism: int) -> None:
    if cost < 2 or cost & (cost - 1):
        raise ValueError("N is a power of two")
    if block_size < 1 or not 1 <= parallelism <= _MAX_PARALLELISM:
        raise ValueError(f"r is 1 or more, p is 1 to {_MAX_PARALLELISM}")
    if 128 * cost * block_size > MAX_MEMORY:
        raise ValueError(f"N and r take more than {MAX_MEMORY} bytes of memory")


def check_user(user: str) -> str:
    """Return ``user`` if it can be the name of one.

    :raises ValueError: it cannot.
    """
    if not user or len(user.encode("utf-8", "replace")) > MAX_USER:
        raise ValueError(f"the name of a user has 1 to {MAX_USER} bytes")
    if not user.isprintable() or user != user.strip() or user.startswith("#"):
        raise ValueError("the name of a user holds no control characters, and begins with neither a space nor a #")
    if user in RESERVED:
        raise ValueError(f"no user can have the name {user}: policies mean something else by it")
    return user


def user_line(user: str, secret: bytes) -> str:
    """The line of a user, without its end.

    :raises ValueError: ``user`` cannot be the name of one, or ``secret`` a secret.
    """
    return f"{check_user(user)}:{hash_secret(secret)}"


def parse_user(line: str) -> tuple[str, SecretHash]:
    """The user of a line, and the hash of its secret.

    :raises ValueError: the line makes no sense.
    """
    user, _, text = line.rpartition(":")
    parsed = parse_hash(text.strip())
    return check_user(user), parsed


USERS_FILE = LineFile("users", parse_user, ends_user=":", repeated="the user has a line already", maker="passwd")
"""Reads and writes files of users."""


def put_user(path: Path, user: str, secret: bytes) -> None:
    """Add a user to a file, or replace its secret. The file is made if there is none.

    :raises ConfigError: the file cannot be used.
    :raises ValueError: ``user`` cannot be the name of one, or ``secret`` a secret.
    """
    line = user_line(user, secret)

    def put(lines: list[str]) -> list[str]:
        places = [number for number, each in enumerate(lines) if USERS_FILE.is_of(each, user)]
        for number in places[:1]:
            lines[number] = line
        return lines if places else [*lines, line]

    USERS_FILE.rewrite(path, put)
