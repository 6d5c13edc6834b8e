"""The addresses that clients connect to: URLs, and profiles of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from bussrv import profiles
from bussrv.addresses import format_address, is_local_host
from bussrv.client.settings import Login
from bussrv.client.tls import Tls
from bussrv.errors import ConfigError

__all__ = ["PROFILE", "SCHEMES", "Address", "Format", "known"]

PROFILE = "profile:"
"""The address of a client that names a profile begins with this."""

Format: TypeAlias = Literal["objects", "business", "websocket", "spp", "inbus"]


class Scheme(NamedTuple):
    """The wire format, the default port and the security of a scheme."""

    format: Format
    port: int
    tls: bool = False


SCHEMES: dict[str, Scheme] = {
    "bus": Scheme("objects", 7890),
    "buss": Scheme("objects", 7890, tls=True),
    "business": Scheme("business", 7891),
    "spp": Scheme("spp", 3002),
    "spps": Scheme("spp", 3002, tls=True),
    "inbus": Scheme("inbus", 7222),
    "ws": Scheme("websocket", 80),
    "wss": Scheme("websocket", 443, tls=True),
}
"""The wire format of each scheme, its default port, and whether it means TLS."""


@dataclass(frozen=True)
class Address:
    """The address of a server.

    :ivar path: what a client of a WebSocket asks for.
    """

    format: Format
    host: str
    port: int
    tls: bool = False
    path: str = "/"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL such as ``buss://hall.example:7890``.

        :raises ValueError: it is none; the sentence says why.
        """
        parts = urlsplit(url)
        scheme = SCHEMES.get(parts.scheme)
        if scheme is None:
            raise ValueError(f"{url!r} begins with none of {', '.join(f'{each}://' for each in SCHEMES)}")
        if parts.username is not None or parts.password is not None:
            # The URL is not repeated: it may hold a secret.
            raise ValueError(f"an address {parts.scheme}://… has no user or secret in it: say user= and secret=")
        if not parts.hostname:
            raise ValueError(f"{url!r} names no host")
        is_path_allowed = scheme.format == "websocket"
        if parts.fragment or (not is_path_allowed and (parts.path.strip("/") or parts.query)):
            raise ValueError(f"{url!r} has something after the host and the port")
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            port = scheme.port if parts.port is None else parts.port
        except ValueError:
            port = 0
        if not port:
            raise ValueError(f"{url!r}: the port is from 1 to 65535")
        return cls(scheme.format, parts.hostname, port, scheme.tls, path)

    def __str__(self) -> str:
        return format_address(self.host, self.port)

    @property
    def is_local(self) -> bool:
        """Whether bytes to it stay on this machine, so that nobody on a network can read them."""
        return is_local_host(self.host)


def known(url: str) -> tuple[Address, Tls | None, Login]:
    """The server that ``profile:NAME`` stands for, or ``profile:``, the one called ``default``.

    :raises ConfigError: as for :func:`bussrv.profiles.read`; or the profile has no such address, or no credentials for
        a login.
    """
    profile = profiles.read(url.removeprefix(PROFILE) or profiles.DEFAULT)
    assert profile is not None
    address = profile.address("objects")
    try:
        login = Login(**profile.credentials)
    except ValueError as error:
        raise ConfigError(f"{profile.places['']}: {error}") from error
    files = profile.files
    is_secure = address.tls or (address.tls is None and files)
    tls = Tls(files.get("ca"), files.get("certificate"), files.get("key")) if is_secure else None
    return Address("objects", address.host, address.port), tls, login
