"""The file of profiles: servers by name, each with addresses and credentials.

It is TOML, ``bussrv/profiles.toml`` in ``$XDG_CONFIG_HOME`` (``~/.config``)::

    [default]
    server = "hall.example"            # its ports are the default ones, unless given below
    admin = "https://hall.example:7280"
    objects = "tls:hall.example:7890"
    user = "ann"
    secret = "…"                       # or token = "…"
    ca = "ca.pem"
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bussrv.errors import ConfigError

DEFAULT = "default"
MOST = 1 << 20
"""The most bytes of the file."""

ADDRESSES = ("server", "admin", "objects", "business", "inbus", "spp")
CREDENTIALS = ("user", "secret", "token")
FILES = ("ca", "certificate", "key")
SECRETS = ("secret", "token")


@dataclass(frozen=True)
class Profile:
    """A server in the file of profiles.

    :ivar place: the file and the name of the profile, for errors.
    :ivar addresses: the addresses as they are written, by their keys in the file.
    :ivar credentials: the credentials, by their keys.
    :ivar files: the absolute paths of the files for TLS, by their keys.
    """

    place: str
    addresses: Mapping[str, str]
    credentials: Mapping[str, str]
    files: Mapping[str, Path]


def path() -> Path:
    """The path of the file."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base if Path(base).is_absolute() else Path.home() / ".config", "bussrv", "profiles.toml")


def read(name: str | None) -> Profile | None:
    """A profile.

    :param name: ``None``: the one called ``default``, if there is one.
    :raises ConfigError: the file cannot be used, others may read secrets in it, or there is no such profile.
    """
    file = path()
    if name is None and not file.exists():
        return None
    tables = _tables(file)
    if name is None and DEFAULT not in tables:
        return None
    wanted = name or DEFAULT
    if wanted not in tables:
        raise ConfigError(f"{file} has no profile {wanted!r}; there are {', '.join(tables) or 'none'}")
    return _profile(file, wanted, tables[wanted])


def names() -> list[str]:
    """The names of all profiles; none if the file cannot be used."""
    try:
        return list(_tables(path()))
    except ConfigError:
        return []


def _tables(file: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    text, mode = _read(file)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: {name} stands outside of all profiles: write [{DEFAULT}] before it")
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and any(each in table for each in SECRETS):
            raise ConfigError(f"{file} has secrets, and others may use it: chmod 600 {file}")
    return tables


def _read(file: Path) -> tuple[str, int]:
    from bussrv.journal.regular import read_regular

    try:
        with read_regular(file) as stream:
            data, status = stream.read(MOST + 1), os.fstat(stream.fileno())
        if len(data) > MOST:
            raise ConfigError(f"{file}: it has more than {MOST} bytes")
        if status.st_uid not in (os.geteuid(), 0):
            raise ConfigError(f"{file}: it belongs to another user")
        return data.decode(), status.st_mode
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: it is not UTF-8") from error


def _profile(file: Path, name: str, table: Mapping[str, Any]) -> Profile:
    place = f"{file}, [{name}]"
    for key, value in table.items():
        if key not in (*ADDRESSES, *CREDENTIALS, *FILES):
            raise ConfigError(
                f"{place}: there is no key {key!r}; there are {', '.join((*ADDRESSES, *CREDENTIALS, *FILES))}"
            )
        if not isinstance(value, str):
            raise ConfigError(f"{place}: {key} is not a text: put it in quotes")
    return Profile(
        place,
        {key: table[key] for key in ADDRESSES if key in table},
        {key: table[key] for key in CREDENTIALS if key in table},
        {key: file.parent / Path(table[key]).expanduser() for key in FILES if key in table},
    )
