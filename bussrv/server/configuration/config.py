"""Configuration: the values of options, checked and put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bussrv.errors import BadValue, ConfigError
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.batch import Rotation
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.options import Option, rows
from bussrv.server.configuration.option_kinds import Endpoint, JournalDirectory
from bussrv.server.configuration.option_table import JOURNAL, ServerOptions, table
from bussrv.server.configuration.sources import GivenValue, OptionsFile, of_file, of_option
from bussrv.server.running.journal import JournalConfig
from bussrv.settings import Settings

ADMIN = "admin"
"""The option of the admin interface."""

JOURNAL_OPTION = "journal"
"""The option of the journal directory."""

CONFIG = "config"
"""The option that names the configuration file."""


@dataclass(frozen=True, kw_only=True)
class Config(ServerOptions):
    """The configuration of a server: the settings of its options, and more.

    :ivar services: the names of the services that the server itself provides.
    :ivar endpoints: the endpoint description of each wire format that is on, by name.
    :ivar values: the settings of all options that the configuration file may set, by name.
    :ivar places: the place of the value of each option that a source sets, by name.
    :ivar without_effect: a sentence for each option that another one makes void.
    :ivar is_embedded: whether the server is a part of another program, which may be its only client.
    """

    services: tuple[str, ...]
    endpoints: dict[str, str]
    settings: Settings
    values: dict[str, Any]
    places: dict[str, str]
    without_effect: tuple[str, ...]
    is_embedded: bool = False

    @property
    def journal_config(self) -> JournalConfig | None:
        """The place of the journal, and how it is kept; ``None``: off."""
        if self.journal is None:
            return None
        return JournalConfig(
            directory=self.journal,
            sync=self.journal_sync,
            rotation=Rotation(bytes=self.journal_segment_bytes, age=self.journal_segment_age),
            policy=UpkeepPolicy(
                seal_interval=self.journal_seal_interval,
                compress=self.journal_compress,
                retain_age=self.journal_retain_age,
                retain_bytes=self.journal_retain_bytes,
                retain_shipped=self.journal_retain_shipped,
                ship_within=self.journal_ship_within,
            ),
            key=self.journal_key,
            origin=self.journal_origin,
            pseudonyms=self.journal_pseudonyms,
            salvage=self.journal_salvage,
            min_free=self.journal_min_free,
        )

    @property
    def ports(self) -> dict[str, str]:
        """The endpoint description of each port, by its option: also that of the admin interface."""
        return {**self.endpoints, **({} if self.admin is None else {ADMIN: self.admin})}

    @property
    def named_services(self) -> tuple[str, ...]:
        """The services that the operator asked for by name, and not by ``all``."""
        return self.values["services"] or ()

    def asks_for(self, wire_format: str) -> bool:
        """Whether the operator set the option of a wire format, so that it is not on by default."""
        return wire_format in self.places

    def place(self, option: str) -> str:
        """The place of the value of an option; the option itself if no source sets it."""
        return self.places.get(option) or of_option(option)


class Built(NamedTuple):
    """A configuration, and the faults of the values that it was built from.

    :ivar config: has the default in the place of each faulty value. The wire format or the part that such a value is
        about is off.
    :ivar faults: a sentence for each fault, with the place of the value.
    :ivar faulty: the names of the options with faulty values.
    """

    config: Config
    faults: tuple[str, ...]
    faulty: frozenset[str]


def build(
    given: Mapping[str, GivenValue],
    formats: Iterable[IWireFormat],
    services: Iterable[IHostedService] = (),
    *,
    is_embedded: bool = False,
) -> Config:
    """The configuration that values of options stand for, by name. Other options have their defaults.

    If ``config`` is among them, that file is read; ``given`` overrides it.

    :param services: those that are installed.
    :param is_embedded: the server is a part of another program. It opens no port and writes no journal that the values
        do not name, and may have no port at all.
    :raises ConfigError: has a sentence for each fault, with the place of the value.
    """
    built = build_as_far_as_possible(given, formats, services, is_embedded=is_embedded)
    if built.faults:
        raise ConfigError(*built.faults)
    return built.config


def build_as_far_as_possible(
    given: Mapping[str, GivenValue],
    formats: Iterable[IWireFormat],
    services: Iterable[IHostedService] = (),
    *,
    is_embedded: bool = False,
) -> Built:
    """The same, with the faults of values, so that the other values can be judged as well."""
    formats, services = list(formats), list(services)
    options = table(formats, services)
    wrong: dict[str, str] = {}
    read = _file(given, options, wrong)
    merged = {**(_nothing_open(formats) if is_embedded else {}), **read.given, **given}
    found = {each.name: _setting(each, merged, wrong) for each in options}
    endpoints = {each.name: found[each.name] for each in formats if found[each.name] is not None}
    faults = [*read.faults, *wrong.values()]
    if not (endpoints or faults or is_embedded):
        faults.append("every wire format is off: there is nothing to serve")
    own = {each.sets: found[each.name] for each in rows(ServerOptions)}
    if own["services"] is None:
        own["services"] = tuple(sorted(each.name for each in services))
    config = Config(
        **own,
        endpoints=endpoints,
        settings=Settings(**{each.sets: found[each.name] for each in rows(Settings)}),
        values={each.name: found[each.name] for each in options if each.in_file},
        places={name: each.place for name, each in merged.items()},
        without_effect=_without_journal(merged) if own["journal"] is None and JOURNAL_OPTION in merged else (),
        is_embedded=is_embedded,
    )
    return Built(config, tuple(dict.fromkeys(faults)), frozenset(wrong))


def _nothing_open(formats: Iterable[IWireFormat]) -> dict[str, GivenValue]:
    """Every port and the journal are off."""
    names = (*(each.name for each in formats), ADMIN, JOURNAL_OPTION)
    return {name: GivenValue("off", f"{name}, which no setting names,") for name in names}


def _file(given: Mapping[str, GivenValue], options: Iterable[Option], wrong: dict[str, str]) -> OptionsFile:
    """The configuration file. :param wrong: gets the fault of a file that cannot be read, as that of its option."""
    nothing = OptionsFile({}, [])
    option = next(each for each in options if each.name == CONFIG)
    if _setting(option, given, wrong) is None:
        return nothing
    try:
        return of_file(given[CONFIG].value, given[CONFIG].place, options)
    except ConfigError as error:
        wrong[CONFIG] = str(error)
        return nothing


def _setting(option: Option, given: Mapping[str, GivenValue], wrong: dict[str, str]) -> Any:
    """The setting of an option. A default is checked like a value: plugins bring some.

    :param wrong: gets the fault of a value, by the name of its option.
    :returns: after a fault, the default, or ``None`` for what a ``None`` switches off.
    """
    found = given.get(option.name)
    if found is None and option.unset:
        return option.default
    value, place = found or GivenValue(option.kind.plain(option.default), of_option(option.name))
    try:
        return option.kind.check(value)
    except BadValue as error:
        wrong[option.name] = f"{place}: {error}"
        return None if isinstance(option.kind, (Endpoint, JournalDirectory)) else _default(option)


def _default(option: Option) -> Any:
    try:
        return option.default if option.unset else option.kind.check(option.kind.plain(option.default))
    except BadValue:
        return None


def _without_journal(given: Mapping[str, GivenValue]) -> tuple[str, ...]:
    names = [each.name for each in rows(ServerOptions) if each.group is JOURNAL and each.name != JOURNAL_OPTION]
    off = given[JOURNAL_OPTION].place
    return tuple(f"{given[name].place}: has no effect: {off} is off" for name in names if name in given)
