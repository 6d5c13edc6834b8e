"""The file of profiles: servers by name, each with addresses and credentials, for the command and for clients.

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
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bussrv import toml_lines
from bussrv.addresses import format_address, is_local_host
from bussrv.errors import ConfigError
from bussrv.journal.regular import read_regular

DEFAULT = "default"
MOST = 1 << 20
"""The most bytes of the file."""

ADDRESSES = ("server", "admin", "objects", "business", "inbus", "spp")
CREDENTIALS = ("user", "secret", "token")
FILES = ("ca", "certificate", "key")
SECRETS = ("secret", "token")

PORTS = {"admin": 7280, "objects": 7890, "business": 7891, "inbus": 7222, "spp": 3002}
"""The default port of the admin interface and of each wire format, where no scheme says it."""

_SERVER = re.compile(r"(?:(tcp:|tls:|http://|https://))?(\[[^\]]+\]|[^\[\]:/\s]+)(?::([0-9]{1,5}))?(/[^\s?#]*)?")
_SECURE = ("tls:", "https://")


@dataclass(frozen=True)
class ServerAddress:
    """The address of a server, as people write it for one of :data:`PORTS`.

    :ivar host: the host; of a UNIX socket, its path.
    :ivar tls: whether its scheme says TLS, or none; ``None``: it has no scheme, so options and files for TLS decide.
    :ivar is_unix: whether it is a UNIX socket.
    :ivar path: the path of the admin interface at a proxy, such as ``/bus``; usually empty.
    """

    host: str
    port: int
    tls: bool | None = None
    is_unix: bool = False
    path: str = ""

    @classmethod
    def parse(cls, text: str, kind: str) -> ServerAddress:
        """Read ``hall``, ``hall:7890``, ``tls:hall``, ``https://hall:7280`` or ``unix:/run/admin``. An address of the
        admin interface may have a path.

        :param kind: one of :data:`PORTS`, for the default port.
        :raises ValueError: the text is not an address.
        """
        if text.startswith("unix:/") and kind == "admin":
            return cls(text.removeprefix("unix:"), 0, is_unix=True)
        found = _SERVER.fullmatch(text)
        if found is None or int(found[3] or 1) not in range(1, 1 << 16):
            raise ValueError(
                f"{text!r} is no address such as hall.example, 127.0.0.1:{PORTS[kind]} or tls:hall.example"
            )
        scheme, host, port, path = found[1] or "", found[2], found[3], (found[4] or "").rstrip("/")
        if scheme.endswith("//") and kind != "admin":
            raise ValueError(f"{text!r} is an address of the admin interface, and not one of {kind}")
        if not path.isascii():
            raise ValueError(
                f"{text!r} is no address: write its path with % and hexadecimal digits, as browsers send it"
            )
        if path and not scheme.endswith("//"):
            raise ValueError(f"{text!r} is no address: only http:// and https:// go before a path")
        tls = scheme in _SECURE if scheme else None
        return cls(host.strip("[]"), int(port or PORTS[kind]), tls, path=path)

    @classmethod
    def of_server(cls, text: str, kind: str) -> ServerAddress:
        """Read an address that stands for a whole server. Its port, if there is one, is that of the admin interface.

        :raises ValueError: the text is not an address.
        """
        address = cls.parse(text, "admin")
        return address if kind == "admin" or address.is_unix else cls(address.host, PORTS[kind], address.tls)

    def __str__(self) -> str:
        return f"unix:{self.host}" if self.is_unix else f"{format_address(self.host, self.port)}{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether bytes to it stay on this machine, so that nobody on a network can read them."""
        return self.is_unix or is_local_host(self.host)


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

        :param kind: one of :data:`PORTS`.
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
