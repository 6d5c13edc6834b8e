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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bussrv import toml_lines
from bussrv.client.address import Address, ServerAddress
from bussrv.client.settings import Login
from bussrv.client.tls import Tls
from bussrv.errors import ConfigError
from bussrv.journal.regular import read_regular

SCHEME = "profile:"
"""The address of a client that names a profile begins with this."""

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

    :ivar places: the file, the line and the name of the profile, for errors: by each key, and by ``""``.
    :ivar addresses: the addresses as they are written, by their keys in the file.
    :ivar credentials: the credentials, by their keys.
    :ivar files: the absolute paths of the files for TLS, by their keys.
    """

    places: Mapping[str, str]
    addresses: Mapping[str, str]
    credentials: Mapping[str, str]
    files: Mapping[str, Path]

    def address(self, kind: str) -> ServerAddress:
        """The address of the admin interface, or of a wire format.

        :param kind: one of :data:`~bussrv.client.address.PORTS`.
        :raises ConfigError: the profile does not say it.
        """
        key = kind if kind in self.addresses else "server"
        if key not in self.addresses:
            raise ConfigError(f"{self.places['']}: it has neither {kind} nor server")
        parse = ServerAddress.parse if key == kind else ServerAddress.of_server
        try:
            return parse(self.addresses[key], kind)
        except ValueError as error:
            raise ConfigError(f"{self.places[key]}: {error}") from error

    def tls(self, address: ServerAddress) -> Tls | None:
        """How to connect over TLS to an address of the profile; ``None``: in the clear."""
        wanted = address.tls or (address.tls is None and self.files and not address.is_unix)
        return Tls(self.files.get("ca"), self.files.get("certificate"), self.files.get("key")) if wanted else None


class KnownServer(NamedTuple):
    """The address, the user and TLS of a server."""

    address: Address
    tls: Tls | None
    login: Login


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
    tables, lines = _document(file)
    if name is None and DEFAULT not in tables:
        return None
    wanted = name or DEFAULT
    if wanted not in tables:
        raise ConfigError(f"{file} has no profile {wanted!r}; there are {', '.join(tables) or 'none'}")
    return _profile(file, wanted, tables[wanted], lines)


def known(url: str) -> KnownServer:
    """The server that ``profile:NAME`` stands for, or ``profile:``, the one called ``default``.

    :raises ConfigError: as for :func:`read`; or the profile has no such address, or no credentials for a login.
    """
    profile = read(url.removeprefix(SCHEME) or DEFAULT)
    assert profile is not None
    address = profile.address("objects")
    try:
        login = Login(**profile.credentials)
    except ValueError as error:
        raise ConfigError(f"{profile.places['']}: {error}") from error
    return KnownServer(Address("objects", address.host, address.port), profile.tls(address), login)


def names() -> list[str]:
    """The names of all profiles; none if the file cannot be used."""
    try:
        return list(_document(path()).values)
    except ConfigError:
        return []


def _document(file: Path) -> toml_lines.Document:
    text, mode = _read(file)
    try:
        found = toml_lines.read(text)
    except toml_lines.NotToml as error:
        raise ConfigError(error.within(file)) from error
    for name, table in found.values.items():
        if not isinstance(table, dict):
            line = found.lines[name,]
            raise ConfigError(f"{file}:{line}: {name} stands outside of all profiles: write [{DEFAULT}] before it")
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and any(each in table for each in SECRETS):
            raise ConfigError(f"{file} has secrets, and others may use it: chmod 600 {file}")
    return found


def _read(file: Path) -> tuple[str, int]:
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


def _profile(file: Path, name: str, table: Mapping[str, Any], lines: Mapping[toml_lines.Path, int]) -> Profile:
    # The parts of an inline table have no lines of their own.
    places = {key: f"{file}:{lines.get((name, key), lines[name,])}, [{name}]" for key in ("", *table)}
    for key, value in table.items():
        if key not in (*ADDRESSES, *CREDENTIALS, *FILES):
            raise ConfigError(
                f"{places[key]}: there is no key {key!r}; there are {', '.join((*ADDRESSES, *CREDENTIALS, *FILES))}"
            )
        if not isinstance(value, str):
            raise ConfigError(f"{places[key]}: {key} is not a text: put it in quotes")
    return Profile(
        places,
        {key: table[key] for key in ADDRESSES if key in table},
        {key: table[key] for key in CREDENTIALS if key in table},
        {key: file.parent / Path(table[key]).expanduser() for key in FILES if key in table},
    )
