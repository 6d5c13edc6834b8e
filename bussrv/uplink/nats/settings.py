"""The settings of an uplink to NATS, and their checks."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bussrv.bus.interest.vocabulary import NET
from bussrv.client.address import Address
from bussrv.client.tls import Tls
from bussrv.errors import ConfigError, Refused
from bussrv.service_patterns import is_pattern
from bussrv.uplink.figures import metrics_address
from bussrv.uplink.nats.subjects import Subjects
from bussrv.values import check_service_name
from bussrv.wire.objects import MAX_PAYLOAD

PASSWORD = "BUSSRV_NATS_PASSWORD"
"""The variable of the environment that may have the password, in place of a file."""

BEAT = 1.0
"""Seconds between two heartbeats."""

LAPSE = 5.0
"""Seconds without a heartbeat until a server counts as gone."""

_SCHEMES = ("nats", "tls")
_UNIX = "unix:"

LOCAL = "bus://127.0.0.1"
"""The server, if ``--bus`` is not said."""


@dataclass(frozen=True)
class Place:
    """The place of the server of an uplink.

    :ivar host: its host; of a UNIX socket, its path.
    :ivar port: ``None``: it is a UNIX socket.
    :ivar tls: how its certificate is checked; ``None``: there is no TLS.
    """

    host: str
    port: int | None
    tls: Tls | None = None

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read what is sent there."""
        return self.port is None or self.tls is not None or self.host in ("127.0.0.1", "::1", "localhost")

    def __str__(self) -> str:
        scheme = "bus" if self.tls is None else "buss"
        return f"{_UNIX}{self.host}" if self.port is None else f"{scheme}://{self.host}:{self.port}"


@dataclass(frozen=True)
class Engine:
    """How NATS is reached.

    :ivar urls: some of its servers; it tells of the others.
    :ivar tls: its certificates; ``None``: the connection has no TLS.
    :ivar credentials: a file with a JWT and a seed, as ``nsc`` makes it.
    """

    urls: tuple[str, ...]
    tls: Tls | None = None
    credentials: Path | None = None
    user: str | None = None
    password: str | None = None


@dataclass(frozen=True)
class Keep:
    """What NATS keeps for servers that are away.

    :ivar services: the services of which it keeps publications.
    :ivar age: seconds for which it keeps them.
    :ivar size: the most bytes of each.
    :ivar state: the directory that says how far this server is.
    """

    services: tuple[str, ...] = ()
    age: float = 3600.0
    size: int = 64 << 20
    state: Path = Path("bussrv-uplink")


@dataclass(frozen=True)
class Settings:
    """The settings of an uplink.

    :ivar bus: the server that it joins to the net.
    :ivar subjects: those of the net. All servers of one net see each other.
    :ivar token: the token that the server is shown; ``None``: it is shown none.
    :ivar lapse: seconds without a heartbeat until a server counts as gone.
    :ivar max_payload: the most bytes of the payload of an object.
    :ivar journal: the journal directory of the server, whose seals are published; ``None``: they are not.
    :ivar metrics: host and port for Prometheus.
    """

    engine: Engine
    bus: Place
    subjects: Subjects
    token: str | None = None
    keep: Keep = Keep()
    lapse: float = LAPSE
    max_payload: int = MAX_PAYLOAD
    journal: Path | None = None
    metrics: tuple[str, int] | None = None
    log_as_json: bool = False

    @property
    def node(self) -> str:
        """The routing id of the net, as a linked server."""
        return f"{NET}{self.subjects.net}"


def settings_of(
    url: str,
    *,
    bus: str | None,
    bus_ca: Path | None,
    bus_certificate: Path | None,
    bus_key: Path | None,
    bus_token_file: str | None,
    net: str,
    keep: tuple[str, ...],
    keep_age: float,
    keep_size: int,
    state: Path,
    lapse: float,
    max_payload: int,
    journal: Path | None,
    nats_user: str | None,
    nats_password_file: str | None,
    nats_credentials: Path | None,
    nats_ca: Path | None,
    nats_certificate: Path | None,
    nats_key: Path | None,
    metrics: str | None,
    log_format: str,
) -> Settings:
    """The settings that options of ``bussrv uplink`` say.

    :param nats_password_file, bus_token_file: the secret in the file.
    :raises ConfigError: an option cannot be used.
    """
    password = nats_password_file or os.environ.get(PASSWORD) or None
    tls = _tls(nats_ca, nats_certificate, nats_key)
    place = _place(bus or LOCAL, _tls(bus_ca, bus_certificate, bus_key))
    if bus_token_file is not None and not place.is_private:
        raise ConfigError(f"the token would be sent to {place} in the clear: use buss://")
    return Settings(
        _engine(url, tls, nats_credentials, nats_user, password),
        place,
        _subjects(net),
        bus_token_file,
        Keep(tuple(map(_kept, dict.fromkeys(keep))), keep_age, keep_size, state),
        lapse,
        max_payload,
        journal,
        None if metrics is None else metrics_address(metrics),
        log_format == "json",
    )


def check_net(url: str, net: str, keep: tuple[str, ...]) -> None:
    """Check these options by themselves, before the others are known.

    :raises ConfigError: one of them cannot be used.
    """
    _engine(url, None, None, None, None)
    _subjects(net)
    for service in keep:
        _kept(service)


def _tls(ca: Path | None, certificate: Path | None, key: Path | None) -> Tls | None:
    if ca is certificate is key is None:
        return None
    tls = Tls(ca, certificate, key)
    try:
        tls.context()
    except (OSError, ValueError) as error:
        raise ConfigError(str(error)) from error
    return tls


def _place(bus: str, tls: Tls | None) -> Place:
    if bus.startswith(_UNIX):
        return Place(bus.removeprefix(_UNIX), None)
    try:
        address = Address.parse(bus)
    except ValueError as error:
        raise ConfigError(f"--bus {bus}: {error}") from error
    if address.format != "objects":
        raise ConfigError(f"--bus {bus}: an uplink is linked over bus://, buss:// or unix:")
    if tls is not None and not address.tls:
        raise ConfigError(f"--bus {bus}: certificates are for buss://")
    return Place(address.host, address.port, (tls or Tls()) if address.tls else None)


def _engine(url: str, tls: Tls | None, credentials: Path | None, user: str | None, password: str | None) -> Engine:
    scheme, _, hosts = url.partition("://")
    urls = tuple(f"{scheme}://{host}" for host in hosts.split(","))
    if scheme not in _SCHEMES or not all(map(_is_server, urls)):
        raise ConfigError(f"{url} is no URL of NATS, such as nats://hall.example:4222,attic.example:4222")
    if (user is None) != (password is None):
        raise ConfigError(f"--nats-user needs a password, and a password needs --nats-user: a file, or {PASSWORD}")
    if password is not None and re.search(r"[^\x20-\x7e]", password):
        raise ConfigError("the password of NATS has a character that is not printable ASCII")
    return Engine(urls, (tls or Tls()) if scheme == "tls" else tls, credentials, user, password)


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not (parts.path or parts.query or parts.username)
    except ValueError:
        return False


def _subjects(net: str) -> Subjects:
    try:
        return Subjects(net)
    except ValueError as error:
        raise ConfigError(f"--net {net}: {error}") from error


def _kept(service: str) -> str:
    try:
        if is_pattern(service):
            raise ConfigError(f"--keep {service}: a pattern; name each service")
        return check_service_name(service)
    except Refused as refusal:
        raise ConfigError(f"--keep {service}: {refusal.message}") from refusal
