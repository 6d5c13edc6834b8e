"""Configuration: the command line and the configuration file, checked and put together.

The configuration file is TOML; its keys are the long names of the options. What the command line says goes first::

    objects = "tcp:7890"                # to other hosts, too
    spp = "off"
    journal = "/var/lib/bussrv/journal"
    link = ["tcp:hall.example:7890"]
    inbus-allow = ["192.168.7.0/24"]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from bussrv.errors import ConfigError
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.batch import Rotation, SyncMode
from bussrv.journal.upkeep import Policy
from bussrv.server.journal import JournalConfig
from bussrv.settings import Announce, Settings, SlowSpp

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OFF = "off"
ALL = "all"
DEFAULT_JOURNAL = "bussrv-journal"
MAX_SERVER_ID = 255


class Config(Struct, frozen=True, kw_only=True):
    """What a server is to do.

    :ivar endpoints: the endpoint description of each wire format that is on, by name.
    :ivar journal: ``None``: off.
    :ivar server_id: ``None``: the one in the journal, or a new one.
    :ivar services: the names of the services that the server itself provides.
    :ivar links: the client endpoint descriptions of the servers to link with.
    """

    endpoints: dict[str, str]
    journal: JournalConfig | None
    server_id: str | None
    links: tuple[str, ...]
    services: tuple[str, ...]
    settings: Settings


def read_file(path: str) -> dict[str, Any]:
    """The options that a configuration file sets.

    :raises ConfigError: if it cannot be read or is not TOML.
    """
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config: {path} is not TOML: {error}") from error


def build(
    options: Mapping[str, Any], formats: Iterable[IWireFormat], services: Iterable[IHostedService] = ()
) -> Config:
    """The configuration that ``options``, by long name, stand for; what is not there has its default.

    :param services: those that are installed.
    :raises ConfigError: names the option that makes no sense.
    """
    return Config(
        endpoints=_endpoints(options, formats),
        journal=_journal(options),
        server_id=_server_id(options.get("server-id")),
        links=_links(options.get("link", ())),
        services=_services(options.get("services", ALL), sorted(each.name for each in services)),
        settings=settings(options),
    )


def _journal(options: Mapping[str, Any]) -> JournalConfig | None:
    values = {
        name: check(f"journal-{name}", options[f"journal-{name}"])
        for name, check in _JOURNAL.items()
        if f"journal-{name}" in options
    }
    directory = options.get("journal", DEFAULT_JOURNAL)
    if directory == OFF:
        return None
    rotation, policy = Rotation(), Policy()
    return JournalConfig(
        directory=_file("journal", directory),
        sync=values.get("sync", "always"),
        rotation=Rotation(
            bytes=values.get("segment-bytes", rotation.bytes), age=values.get("segment-age", rotation.age)
        ),
        policy=Policy(
            seal_interval=values.get("seal-interval", policy.seal_interval),
            compress=values.get("compress", policy.compress),
            retain_age=values.get("retain-age"),
            retain_bytes=values.get("retain-bytes"),
        ),
        key=values.get("key"),
        pseudonyms=values.get("pseudonyms"),
        salvage=values.get("salvage", False),
    )


def settings(options: Mapping[str, Any]) -> Settings:
    """The limits and policies among ``options``.

    :raises ConfigError: names the option that makes no sense.
    """
    values = {}
    for field, check in _SETTINGS.items():
        option = field.replace("_", "-")
        if option in options:
            values[field] = check(option, options[option])
    if "slow" in options:
        values.update(_slow(options["slow"]))
    return Settings(**values)


def _endpoints(options: Mapping[str, Any], formats: Iterable[IWireFormat]) -> dict[str, str]:
    endpoints = {}
    for wire_format in formats:
        value = options.get(wire_format.name, wire_format.default_endpoint)
        description = endpoint(wire_format, value)
        if description is not None:
            endpoints[wire_format.name] = description
    if not endpoints:
        raise ConfigError("every wire format is off: there is nothing to serve")
    return endpoints


def endpoint(wire_format: IWireFormat, value: Any) -> str | None:
    """The endpoint description that an option's value stands for; ``None``: off. A bare port means loopback.

    :raises ConfigError: if it stands for none.
    """
    text = str(value) if type(value) is int else _text(wire_format.name, value)
    if text == OFF:
        return None
    if not text.isdecimal():
        if ":" not in text:
            raise ConfigError(f"--{wire_format.name}: {text!r} is no endpoint, such as {wire_format.default_endpoint}")
        return text
    if int(text) > 0xFFFF:
        raise ConfigError(f"--{wire_format.name}: {text} is no port: ports go up to 65535")
    transport = wire_format.default_endpoint.partition(":")[0]
    return f"{'tcp' if transport == OFF else transport}:{text}:interface=127.0.0.1"


def _links(values: Any) -> tuple[str, ...]:
    texts = values if isinstance(values, (list, tuple)) else [values]
    return tuple(dict.fromkeys(_text("link", each) for each in texts))


def _services(value: Any, installed: list[str]) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if names in ([ALL], [OFF]):
        return tuple(installed) if names == [ALL] else ()
    for name in names if isinstance(names, list) else [value]:
        if name not in installed:
            raise ConfigError(f"--services: {name!r} is none of {', '.join([ALL, OFF, *installed])}")
    return tuple(dict.fromkeys(names))


def _server_id(value: Any) -> str | None:
    if value is None:
        return None
    text = _text("server-id", value)
    if len(text.encode()) > MAX_SERVER_ID or not text.isprintable():
        raise ConfigError(f"--server-id: at most {MAX_SERVER_ID} bytes, without control characters")
    return text


def _text(option: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"--{option}: {value!r} is not a text")
    return value


def _one_of(option: str, value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ConfigError(f"--{option}: {value!r} is none of {', '.join(choices)}")
    return value


def _whole_number(option: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or isinstance(value, (bool, float)):
        raise ConfigError(f"--{option}: {value!r} is not a whole number of 1 or more")
    return number


def _seconds(option: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf") or isinstance(value, bool):
        raise ConfigError(f"--{option}: {value!r} is not a number of seconds")
    return number


def _positive_seconds(option: str, value: Any) -> float:
    number = _seconds(option, value)
    if number == 0:
        raise ConfigError(f"--{option}: must be more than 0 seconds")
    return number


def _flag(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"--{option}: {value!r} is neither true nor false")
    return value


def _networks(option: str, value: Any) -> tuple[Any, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    try:
        return tuple(ip_network(each) for each in values)
    except ValueError as error:
        raise ConfigError(f"--{option}: {error}") from error


def _file(option: str, value: Any) -> Path:
    return Path(_text(option, value)).absolute()


def _slow(values: Any) -> dict[str, str]:
    """The policy for slow clients of each wire format that has a choice, by field."""
    found = {}
    for value in values if isinstance(values, (list, tuple)) else [values]:
        name, _, policy = _text("slow", value).partition("=")
        if name not in _SLOW:
            raise ConfigError(f"--slow: {value!r} is not of the form spp=coalesce")
        field, choices = _SLOW[name]
        found[field] = _one_of("slow", policy, choices)
    return found


def _announce(option: str, value: Any) -> Any:
    return _one_of(option, value, get_args(Announce))


def _sync(option: str, value: Any) -> Any:
    return _one_of(option, value, get_args(SyncMode))


_JOURNAL: dict[str, Callable[[str, Any], Any]] = {
    "sync": _sync,
    "segment-bytes": _whole_number,
    "segment-age": _positive_seconds,
    "seal-interval": _positive_seconds,
    "compress": _flag,
    "retain-age": _positive_seconds,
    "retain-bytes": _whole_number,
    "key": _file,
    "pseudonyms": _file,
    "salvage": _flag,
}

_SLOW: dict[str, tuple[str, tuple[str, ...]]] = {"spp": ("slow_spp", get_args(SlowSpp))}

_SETTINGS: dict[str, Callable[[str, Any], Any]] = {
    "max_sessions": _whole_number,
    "max_sessions_per_address": _whole_number,
    "max_connects": _whole_number,
    "max_services": _whole_number,
    "max_subscriptions": _whole_number,
    "max_metadata": _whole_number,
    "max_payload": _whole_number,
    "max_nesting": _whole_number,
    "max_packet": _whole_number,
    "max_outbound": _whole_number,
    "max_last_values": _whole_number,
    "max_last_value": _whole_number,
    "max_requests": _whole_number,
    "request_timeout": _positive_seconds,
    "max_patterns": _whole_number,
    "max_routing_ids": _whole_number,
    "max_linked": _whole_number,
    "max_seen": _whole_number,
    "max_link_delay": _positive_seconds,
    "link_allow": _networks,
    "subscribe_timeout": _positive_seconds,
    "close_timeout": _positive_seconds,
    "strict": _flag,
    "announce": _announce,
    "inbus_lease": _seconds,
    "inbus_max_rate": _whole_number,
    "inbus_allow": _networks,
    "spp_users": _file,
}
