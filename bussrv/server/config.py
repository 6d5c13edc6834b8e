"""Configuration: the values of options, checked and put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from bussrv.errors import BadValue, ConfigError
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.batch import Rotation
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.options import Network, Option, rows
from bussrv.server.journal import JournalConfig
from bussrv.server.loglevels import LogLevels
from bussrv.server.option_table import JOURNAL, LogFormat, ServerOptions, table
from bussrv.server.sources import Given, of_file, of_option
from bussrv.settings import Settings

ADMIN = "admin"
"""The option of the admin interface."""


class Config(Struct, frozen=True, kw_only=True):
    """The configuration of a server.

    :ivar endpoints: the endpoint description of each wire format that is on, by name.
    :ivar admin: the endpoint description of the admin interface; ``None``: off.
    :ivar admin_host: further names of this server in requests to it.
    :ivar admin_token_file: the file of its token; ``None``: no option says so.
    :ivar journal: ``None``: off.
    :ivar server_id: ``None``: the one in the journal, or a new one.
    :ivar log_level: the least level that is logged.
    :ivar log_format: the form of its lines.
    :ivar policy: the policy file; ``None``: there is no policy.
    :ivar auth: the descriptions of the checkers of who clients are.
    :ivar link_users: networks and the users that linked servers in them are.
    :ivar inbus_users: networks and the users that Inbus clients in them are.
    :ivar services: the names of the services that the server itself provides.
    :ivar link_token: the file of the token for servers that dial this one; ``None``: there is none.
    :ivar links: the client endpoint descriptions of the servers to link with.
    :ivar values: the settings of all options that the configuration file may set, by name.
    :ivar places: the place of the value of each option that a source sets, by name.
    :ivar without_effect: a sentence for each option that another one makes void.
    """

    endpoints: dict[str, str]
    admin: str | None
    admin_host: tuple[str, ...]
    admin_token_file: Path | None
    journal: JournalConfig | None
    server_id: str | None
    links: tuple[str, ...]
    link_token: Path | None
    policy: Path | None
    log_level: LogLevels
    log_format: LogFormat
    auth: tuple[str, ...]
    link_users: tuple[tuple[Network, str], ...]
    inbus_users: tuple[tuple[Network, str], ...]
    services: tuple[str, ...]
    settings: Settings
    values: dict[str, Any]
    places: dict[str, str]
    without_effect: tuple[str, ...]

    @property
    def ports(self) -> dict[str, str]:
        """The endpoint description of each port, by its option: also that of the admin interface."""
        return {**self.endpoints, **({} if self.admin is None else {ADMIN: self.admin})}

    def place(self, option: str) -> str:
        """The place of the value of an option; the option itself if no source sets it."""
        return self.places.get(option) or of_option(option)


def build(
    given: Mapping[str, Given], formats: Iterable[IWireFormat], services: Iterable[IHostedService] = ()
) -> Config:
    """The configuration that values of options stand for, by name. Other options have their defaults.

    If ``config`` is among them, that file is read; ``given`` overrides it.

    :param services: those that are installed.
    :raises ConfigError: has a sentence for each fault, with the place of the value.
    """
    formats, services = list(formats), list(services)
    options = table(formats, services)
    faults: list[str] = []
    merged = {**_file(given, options, faults), **given}
    found = {each.name: _setting(each, merged, faults) for each in options}
    endpoints = {each.name: found[each.name] for each in formats if found[each.name] is not None}
    if not endpoints and not faults:
        faults.append("every wire format is off: there is nothing to serve")
    if faults:
        raise ConfigError(*dict.fromkeys(faults))
    own = ServerOptions(**{each.sets: found[each.name] for each in rows(ServerOptions)})
    return Config(
        endpoints=endpoints,
        admin=own.admin,
        admin_host=own.admin_host,
        admin_token_file=own.admin_token_file,
        journal=None if own.journal is None else _journal(own, own.journal),
        server_id=own.server_id,
        links=own.link,
        link_token=own.link_token,
        policy=own.policy,
        log_level=own.log_level,
        log_format=own.log_format,
        auth=own.auth,
        inbus_users=own.inbus_user,
        link_users=own.link_user,
        services=tuple(sorted(each.name for each in services)) if own.services is None else own.services,
        settings=Settings(**{each.sets: found[each.name] for each in rows(Settings)}),
        values={each.name: found[each.name] for each in options if each.in_file},
        places={name: each.place for name, each in merged.items()},
        without_effect=_without_journal(merged) if own.journal is None else (),
    )


def _file(given: Mapping[str, Given], options: Iterable[Option], faults: list[str]) -> dict[str, Given]:
    if "config" not in given:
        return {}
    path = _setting(next(each for each in options if each.name == "config"), given, faults)
    if path is None:
        return {}
    try:
        read = of_file(given["config"].value, given["config"].place, options)
    except ConfigError as error:
        faults += error.sentences
        return {}
    faults += read.faults
    return read.given


def _setting(option: Option, given: Mapping[str, Given], faults: list[str]) -> Any:
    """The setting of an option; ``None`` after a fault. A default is checked like a value: plugins bring some."""
    found = given.get(option.name)
    if found is None and option.unset:
        return option.default
    value, place = found or Given(option.kind.plain(option.default), of_option(option.name))
    try:
        return option.kind.check(value)
    except BadValue as error:
        faults.append(f"{place}: {error}")
        return None


def _journal(own: ServerOptions, directory: Path) -> JournalConfig:
    return JournalConfig(
        directory=directory,
        sync=own.journal_sync,
        rotation=Rotation(bytes=own.journal_segment_bytes, age=own.journal_segment_age),
        policy=UpkeepPolicy(
            seal_interval=own.journal_seal_interval,
            compress=own.journal_compress,
            retain_age=own.journal_retain_age,
            retain_bytes=own.journal_retain_bytes,
        ),
        key=own.journal_key,
        pseudonyms=own.journal_pseudonyms,
        salvage=own.journal_salvage,
        min_free=own.journal_min_free,
    )


def _without_journal(given: Mapping[str, Given]) -> tuple[str, ...]:
    names = [each.name for each in rows(ServerOptions) if each.group is JOURNAL and each.name != "journal"]
    off = given["journal"].place
    return tuple(f"{given[name].place}: has no effect: {off} is off" for name in names if name in given)
