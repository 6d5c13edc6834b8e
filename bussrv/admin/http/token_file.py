"""The admin token file: whoever can read it may write through the admin interface of a server without identity.

The server makes it at the start if it is not there: a random token, mode 0600.
"""

from __future__ import annotations

import os
from pathlib import Path

from bussrv.errors import ConfigError
from bussrv.net.tls.link_tokens import read_token
from bussrv.policy.logins.tokens import new_token

SUFFIX = ".admin-token"


def beside(journal: Path) -> Path:
    """The place of the file, unless an option names another one: beside the directory of the journal."""
    return journal.with_name(journal.name + SUFFIX)


def read(path: Path) -> str:
    """The token in the file. Secret.

    :raises ConfigError: it cannot be read, belongs to another user, or others than its owner may use it.
    """
    try:
        owner = path.stat().st_uid
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if owner not in (os.geteuid(), 0):
        raise ConfigError(f"{path}: belongs to another user: remove it, and the server makes a new one")
    return read_token(path)


def read_or_make(path: Path) -> str:
    """The token in the file, which is made if it is not there. Secret.

    :raises ConfigError: it cannot be made or read, or others than its owner may use it.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror}") from error
    token = new_token()
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{token}\n")
    return token
