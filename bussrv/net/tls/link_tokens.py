"""Tokens by which this server proves to another one who it is. Each is in a file, and is never sent in the clear."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zope.interface import implementer

from bussrv.addresses import is_local
from bussrv.bus.interfaces import Effects, IReloadable, Use
from bussrv.errors import ConfigError, os_errors_as
from bussrv.journal.regular import read_regular
from bussrv.net.tls.certificates import check_private
from bussrv.net.transport.endpoint_parts import split_parts, unescaped
from bussrv.policy.logins.tokens import MAX_TOKEN
from bussrv.policy.logins.trusted_files import check_ended
from bussrv.values import absolute

PART = "tokenFile="
"""The part of the description of a link that names the file."""


@implementer(IReloadable)
class TokenFile:
    """A token.

    :raises ConfigError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"token in {path}"
        self._path = path
        self._token = read_token(path)

    def __call__(self) -> str:
        """The token. Secret."""
        return self._token

    def prepare(self) -> Use:
        """Read the file again; see :class:`IReloadable`."""
        token = read_token(self._path)

        def use() -> Effects | None:
            before, self._token = self._token, token
            return None if token == before else Effects((f"{self.name}: another one",))

        return use


def read_token(path: Path) -> str:
    """The token in a file: the only line that it has.

    :raises ConfigError: never quotes what is in the file.
    """
    with os_errors_as(ConfigError, f"{path}: cannot be read"), read_regular(path) as file:
        data, status = file.read(MAX_TOKEN + 2), os.fstat(file.fileno())
    check_private(path, status.st_mode, "token")
    if len(data) <= MAX_TOKEN + 1:
        check_ended(path, data)
    text = data.decode("ascii", "replace").strip()
    if len(text) > MAX_TOKEN or not text.isascii() or not text.isprintable() or len(text.split()) != 1:
        raise ConfigError(f"{path}: holds no token: it has one line, as bussrv token prints it")
    return text


def take_token(description: str) -> tuple[str, TokenFile | None]:
    """The description of a link without the part about its token, and the token.

    :raises ConfigError: the file cannot be used.
    :raises ValueError: two files are named.
    """
    parts = split_parts(description)
    named = [each.removeprefix(PART) for each in parts if each.startswith(PART)]
    if not named:
        return description, None
    if len(named) > 1:
        raise ValueError(f"{PART[:-1]!r} is set twice")
    rest = ":".join(each for each in parts if not each.startswith(PART))
    return rest, TokenFile(absolute(unescaped(named[0])))


def is_private(transport: Any, peer: str) -> bool:
    """Whether nobody on the network can read what a connection carries: it has TLS, or stays on this machine."""
    return getattr(transport, "tls", None) is not None or is_local(peer)
