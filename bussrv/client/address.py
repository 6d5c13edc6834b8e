"""The addresses that clients connect to: as URLs, and as people write them for the command and in profiles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from bussrv.addresses import format_address, parse_host

__all__ = ["PORTS", "SCHEMES", "Address", "Format", "ServerAddress"]

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

PORTS = {"admin": 7280, "objects": 7890, "business": 7891, "inbus": 7222, "spp": 3002}
"""The default port of the admin interface and of each wire format, where no scheme says it."""

_SERVER = re.compile(r"(?:(tcp:|tls:|http://|https://))?(\[[^\]]+\]|[^\[\]:/\s]+)(?::([0-9]{1,5}))?(/[^\s?#]*)?")
_SECURE = ("tls:", "https://")


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
        """See :attr:`ServerAddress.is_local`."""
        return _is_local(self.host)


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
        return self.is_unix or _is_local(self.host)


def _is_local(host: str) -> bool:
    found = parse_host(host)
    return host == "localhost" or (found is not None and found.is_loopback)
