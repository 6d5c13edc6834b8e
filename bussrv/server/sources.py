"""The values that the sources of options give, each with its place. Only names are checked here.

The command line overrides environment variables, and these override the configuration file. The file is TOML; its keys
are the long names of the options::

    objects = "tcp:7890"                # to other hosts, too
    spp = "off"
    journal = "/var/lib/bussrv/journal"
    link = ["tcp:hall.example:7890"]
    inbus-allow = ["192.168.7.0/24"]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bussrv.errors import ConfigError
from bussrv.options import VARIABLES, Option
from bussrv.values import shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Given(NamedTuple):
    """A value that a source gives.

    :ivar place: the option, the variable, or the line of the file, as an error names it.
    """

    value: Any
    place: str


def of_option(name: str) -> str:
    """The place of a value that the command line gives, and of one that no source gives."""
    return f"--{name}"


def of_command_line(values: Mapping[str, Any]) -> dict[str, Given]:
    """Values of options by name, as the command line gives them."""
    return {name: Given(value, of_option(name)) for name, value in values.items()}


def of_environment(variables: Mapping[str, str], table: Iterable[Option]) -> dict[str, Given]:
    """Values of options that environment variables set."""
    return {
        each.name: Given(each.kind.from_text(variables[each.variable]), each.variable)
        for each in table
        if each.variable in variables
    }


def unknown_variables(variables: Iterable[str], table: Iterable[Option]) -> list[str]:
    """Variables that look as if they set an option. There are innocent ones, such as those of an orchestrator."""
    known = {each.variable for each in table}
    return sorted(each for each in variables if each.startswith(VARIABLES) and each not in known)


class OptionsFile(NamedTuple):
    """A configuration file.

    :ivar given: the values of options, by name.
    :ivar faults: a sentence for each key that is no option.
    """

    given: dict[str, Given]
    faults: list[str]


def of_file(path: str, place: str, table: Iterable[Option]) -> OptionsFile:
    """Read a configuration file.

    :param place: where its path was given.
    :raises ConfigError: if it cannot be read or is not TOML.
    """
    try:
        text = Path(path).read_bytes().decode()
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{place}: cannot read {path}: {error.strerror}") from error
    except RecursionError as error:
        raise ConfigError(f"{place}: {path} is not TOML: it nests too deep") from error
    except ValueError as error:
        # Also from numbers of very many digits, and from bytes that are not UTF-8.
        raise ConfigError(f"{place}: {path} is not TOML: {error}") from error
    known = {each.name for each in table if each.in_file}
    lines = key_lines(text)
    places = {name: f"{path}:{lines[name]}" for name in values}
    given = {name: Given(value, f"{places[name]}: {name}") for name, value in values.items() if name in known}
    unknown = [name for name in values if name not in known]
    return OptionsFile(given, [f"{places[name]}: there is no option {shown(name)}" for name in unknown])


_BEGINS = re.compile(r"""\s*(?:\[|[\w"'.\s-]+=)""")
"""A line that may be the first of a statement. Lines within a value may look so, too."""


def key_lines(text: str) -> dict[str, int]:
    """The keys at the top level of a TOML document, each with the number of the line that it first stands in.

    The parser says nothing of lines.
    """
    lines: dict[str, int] = {}
    in_table = False
    for number, statement in _statements(text.replace("\r\n", "\n").split("\n")):
        is_header = statement[0].lstrip().startswith("[")
        if is_header or not in_table:
            for key in _parsed(statement) or ():
                lines.setdefault(key, number)
        in_table = in_table or is_header
    return lines


def _statements(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of each statement, and the number of its first one. It has ended when its lines are TOML alone."""
    statement: list[str] = []
    begun = 1
    for number, line in enumerate(lines, 1):
        if statement and _BEGINS.match(line) and _parsed(statement) is not None:
            yield begun, statement
            statement = []
        if statement:
            statement.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            begun, statement = number, [line]
    if statement:
        yield begun, statement


def _parsed(statement: list[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(statement))
    except ValueError:
        return None
