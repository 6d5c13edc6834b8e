"""The values that the sources of options give, each with its place. Only names are checked here.

The command line overrides environment variables, and these override the configuration file. The file is TOML; its keys
are the long names of the options::

    objects = "tcp:7890"                # to other hosts, too
    auth = ["users:/etc/bussrv/users"]
    spp = "off"
    journal = "/var/lib/bussrv/journal"
    link = ["tcp:hall.example:7890"]
    inbus-allow = ["192.168.7.0/24"]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bussrv import toml_lines
from bussrv.compiled import SWITCH
from bussrv.errors import ConfigError
from bussrv.options import VARIABLES, Option
from bussrv.values import shown, suggestion

NO_OPTIONS = frozenset({f"{VARIABLES}SERVER", f"{VARIABLES}PROFILE", SWITCH})
"""Variables of the ``bussrv`` command, and the switch of the compiled module, which are no options of the server."""


class GivenValue(NamedTuple):
    """A value that a source gives.

    :ivar place: the option, the variable, or the line of the file, as an error names it.
    """

    value: Any
    place: str


def of_option(name: str) -> str:
    """The place of a value that the command line gives, and of one that no source gives."""
    return f"--{name}"


def of_command_line(values: Mapping[str, Any]) -> dict[str, GivenValue]:
    """Values of options by name, as the command line gives them."""
    return {name: GivenValue(value, of_option(name)) for name, value in values.items()}


def of_settings(values: Mapping[str, Any], table: Iterable[Option]) -> dict[str, GivenValue]:
    """Values of options that a program gives, by name, each of the type that a configuration file has for it.

    :raises ConfigError: names those that are no options.
    """
    known = {each.name for each in table}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise ConfigError(*(f"settings: there is no option {shown(name)}{suggestion(name, known)}" for name in unknown))
    return {name: GivenValue(_plain(value), f"settings: {name}") for name, value in values.items()}


def _plain(value: Any) -> Any:
    """A value of a program as a file would have it: a path is a text there, and a tuple a list."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def of_environment(variables: Mapping[str, str], table: Iterable[Option]) -> dict[str, GivenValue]:
    """Values of options that environment variables set."""
    return {
        each.name: GivenValue(each.kind.from_text(variables[each.variable]), each.variable)
        for each in table
        if each.variable in variables
    }


def unknown_variables(variables: Iterable[str], table: Iterable[Option]) -> list[str]:
    """Variables that look as if they set an option. There are innocent ones, such as those of an orchestrator."""
    known = NO_OPTIONS | {each.variable for each in table}
    return sorted(each for each in variables if each.startswith(VARIABLES) and each not in known)


class OptionsFile(NamedTuple):
    """A configuration file.

    :ivar given: the values of options, by name.
    :ivar faults: a sentence for each key that is no option.
    """

    given: dict[str, GivenValue]
    faults: list[str]


def of_file(path: str, place: str, table: Iterable[Option]) -> OptionsFile:
    """Read a configuration file.

    :param place: the option or variable that gave its path.
    :raises ConfigError: if it cannot be read or is not TOML.
    """
    try:
        values, lines = toml_lines.read(Path(path).read_bytes().decode())
    except OSError as error:
        raise ConfigError(f"{place}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{place}: {path} is not UTF-8") from error
    except toml_lines.NotToml as error:
        raise ConfigError(error.within(path)) from error
    known = {each.name for each in table if each.in_file}
    places = {name: f"{path}:{lines[name,]}" for name in values}
    given = {name: GivenValue(value, f"{places[name]}: {name}") for name, value in values.items() if name in known}
    unknown = [name for name in values if name not in known]
    faults = [f"{places[name]}: there is no option {shown(name)}{suggestion(name, known)}" for name in unknown]
    return OptionsFile(given, faults)
