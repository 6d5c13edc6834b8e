"""Exposed ports: other machines can reach them. A server opens one only if clients must prove there who they are.

The identities that apply to a port:

1. A TCP port: any ``--auth``. ``certificates:…`` applies only to an endpoint that asks clients for certificates.
2. A UDP port, which Inbus has: ``--inbus-user``, together with ``--auth`` or ``--policy``.

With ``--insecure``, a server opens every port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

from twisted.logger import Logger

from bussrv.addresses import parse_host
from bussrv.errors import ConfigError
from bussrv.interfaces import IListener
from bussrv.net.listening import parse_udp
from bussrv.net.transport.endpoint_parts import take_apart
from bussrv.net.transport.proxied import PREFIX
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.option_texts import toml_value

Host = IPv4Address | IPv6Address

_ANY_HOST = {"tcp": "0.0.0.0", "ssl": "0.0.0.0", "udp": "0.0.0.0", "tcp6": "::"}
"""The kinds of endpoints that may name an address, each with the address for all interfaces, which is the default."""

_USERS = "/etc/bussrv/users"
_EXAMPLES = {"auth": f"users:{_USERS}", "inbus-user": "192.168.7.0/24=devices"}
"""The values in the lines that an error advises to write."""

log = Logger()


def host_of_endpoint(description: str) -> Host | None:
    """The address that an endpoint listens on; ``None``: this machine only, or it is known only when it listens."""
    kind = description.removeprefix(PREFIX).partition(":")[0]
    if kind == "udp":
        return _exposed(parse_host(parse_udp(description)[1] or _ANY_HOST[kind]))
    if kind not in _ANY_HOST:
        return None
    parts = take_apart(description.removeprefix(PREFIX))
    second = parts.values[2:3] or [""]
    return _exposed(parse_host(parts.named.get("interface") or second[0] or _ANY_HOST[kind]))


def _exposed(host: Host | None) -> Host | None:
    return None if host is None or host.is_loopback else host


def check_endpoints(config: Config, names: Iterable[str]) -> list[str]:
    """The faults of wire formats whose endpoints would be exposed, followed by advice.

    :param names: the wire formats whose ports have no other fault.
    """
    hosts: dict[str, Host | None] = {}
    for name in names:
        # An endpoint that this module cannot read may be one of a plugin of Twisted.
        with suppress(ValueError, ConfigError):
            hosts[name] = host_of_endpoint(config.ports[name])
    return _faults(config, hosts)


def check_opened(config: Config, listeners: Mapping[str, IListener]) -> None:
    """Check ports that are open already, such as those that the service manager opened.

    :raises ConfigError: has a sentence for each port that must not be open, and then sentences with advice.
    """
    faults = _faults(config, {name: _host(each) for name, each in listeners.items()})
    if faults:
        raise ConfigError(*faults)


def _host(listener: IListener) -> Host | None:
    return _exposed(parse_host(listener.address.rpartition(" ")[2]))


def _faults(config: Config, hosts: Mapping[str, Host | None]) -> list[str]:
    if config.values["insecure"]:
        return []
    exposed = {name: host for name, host in hosts.items() if host is not None and not _has_identity(config, name)}
    faults = [
        f"{config.place(name)}: everybody who reaches {_where(host)} could use it, and nobody has to prove who they are"
        for name, host in exposed.items()
    ]
    return [*faults, *_advice(config, exposed)] if faults else []


def _advice(config: Config, exposed: Iterable[str]) -> Iterator[str]:
    has_datagrams = any(_is_datagram(config, name) for name in exposed)
    if not (config.auth or config.policy) or not all(_is_datagram(config, name) for name in exposed):
        yield f"ask clients who they are: {_written(config, 'auth')} (bussrv passwd {_USERS} NAME makes that file)"
    if has_datagrams and not config.inbus_user:
        yield f"and name the user of each network of Inbus devices: {_written(config, 'inbus-user')}"
    if config.auth and not all(_is_datagram(config, name) for name in exposed):
        # All checkers are certificates:…, because any other one would be enough.
        yield "or let the endpoint ask clients for certificates, clientCA=FILE: certificates:… needs it"
    for name in exposed:
        kind, *places = take_apart(config.ports[name].removeprefix(PREFIX)).values
        if kind in _ANY_HOST and places:
            yield f"or let {name} listen on this machine only: {_written(config, name, places[0])}"
    yield f"or let everybody who reaches a port use it: {_written(config, 'insecure')}"


def _written(config: Config, option: str, value: str = "") -> str:
    """The text of an option in an advice: for the configuration file if there is one, or else for the command line."""
    if "config" not in config.places:
        return f"--{option} {_EXAMPLES.get(option, value)}".strip()
    if option in _EXAMPLES:
        return f"{option} = {toml_value([*map(str, config.values[option]), _EXAMPLES[option]])}"
    return f"{option} = {value or 'true'}"


def _is_datagram(config: Config, name: str) -> bool:
    return config.ports[name].startswith("udp:")


def _has_identity(config: Config, name: str) -> bool:
    if _is_datagram(config, name):
        # With neither of them, networks that --inbus-user does not name may do everything.
        return bool(config.inbus_user) and bool(config.auth or config.policy)
    return any(each.partition(":")[0] != "certificates" or _asks(config.ports[name]) for each in config.auth)


def _asks(description: str) -> bool:
    """Whether an endpoint asks clients for certificates."""
    return "clientCA" in take_apart(description.removeprefix(PREFIX)).named


def _where(host: Host) -> str:
    return "this machine" if host.is_unspecified else str(host)


def warn_of_exposed(listeners: Mapping[str, IListener], config: Config) -> None:
    """Log a warning for each wire format that other machines may use without a login or without encryption."""
    for name, listener in listeners.items():
        host = _host(listener)
        if host is None:
            continue
        where = "every interface" if host.is_unspecified else str(host)
        if not _has_identity(config, name):
            log.warn(
                "WARNING: {name} listens on {where}, and everybody who reaches it may use it (--insecure). A bare port "
                "means this machine only: --{name} {port}",
                event="server.exposed",
                name=name,
                where=where,
                port=listener.address.rpartition(":")[2],
            )
        elif not _is_secret(config.ports[name]):
            log.warn(
                "WARNING: {name} listens on {where} without TLS: whoever listens on the network reads everything, "
                "secrets of users too",
                event="server.not-encrypted",
                name=name,
                where=where,
            )


def _is_secret(description: str) -> bool:
    """Whether an endpoint speaks TLS, or, like Inbus, never sends a secret."""
    return description.removeprefix(PREFIX).startswith(("ssl:", "udp:"))
