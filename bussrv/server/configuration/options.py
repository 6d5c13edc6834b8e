"""The ``twistd`` side of the options: the command line, ``--help``, and how a bad start is reported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.logger import Logger
from twisted.python import usage

from bussrv.errors import ConfigError
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.options import Option
from bussrv.server.configuration.check import check_values
from bussrv.server.configuration.config import Config, build
from bussrv.server.configuration.option_table import BUILT_IN, table
from bussrv.server.configuration.option_texts import filled, help_text, sample_file, usage_entry, usage_text
from bussrv.server.configuration.plugins import Installed, installed
from bussrv.server.configuration.sources import GivenValue, of_command_line, of_environment, unknown_variables
from bussrv.server.log.text import one_line, say_aside

log = Logger()

NO_SERVER = ("sample-config", "help", "version")
"""Options that print something and start no server."""


class StartError(SystemExit, Exception):
    """Ends the program with exit status 1 and no traceback, after a line on standard error for each sentence.

    Also an :class:`Exception`, so that ``twistd`` cleans up after itself (its pid file, its waiting parent process)
    on its way out.
    """

    def __init__(self, *sentences: str) -> None:
        super().__init__(1)
        self.sentences = tuple(map(one_line, sentences))
        for each in self.sentences:
            say_aside(each)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def _reactor() -> Any:
    from twisted.internet import reactor

    return reactor


def plugins() -> Installed:
    """The plugins that are installed. No wire format has the name of another option."""
    return installed({*NO_SERVER, *(each.name for each in BUILT_IN)})


def values_given(command_line: Mapping[str, Any], rows: Iterable[Option]) -> dict[str, GivenValue]:
    """The values that the environment and a command line give, by the names of the options."""
    return {**of_environment(os.environ, rows), **of_command_line(command_line)}


def config_of(file: str, found: Installed) -> Config:
    """The configuration of a server that starts with a configuration file and this environment.

    :raises ConfigError: has a sentence for each value that is wrong, with its place.
    """
    given = values_given({"config": file}, table(found.formats, found.services))
    return build(given, found.formats, found.services)


def Options() -> BusOptions:  # noqa: N802
    """The options of ``twistd bussrv`` with the wire formats that are installed now."""
    found = plugins()
    for sentence in found.left_out:
        log.error("{sentence}", event="plugin.left-out", sentence=sentence)
    # Twisted takes options from classes only, and the options are known only now.
    options_class: type[BusOptions] = type("Options", (BusOptions,), _columns(table(found.formats, found.services)))
    return options_class(found.formats, found.services, found.left_out)


def _columns(options: tuple[Option, ...]) -> dict[str, Any]:
    """The attributes of a class of options of Twisted: flags, parameters, and a method for each list."""
    columns: dict[str, Any] = {"table": options, "optFlags": [], "optParameters": []}
    for each in options:
        if each.kind.is_flag:
            columns["optFlags"].append([each.name, None, help_text(each)])
        elif each.kind.is_list:
            columns[f"opt_{each.sets}"] = _collector(each)
        else:
            columns["optParameters"].append([each.name, None, None, help_text(each)])
    return columns


def _collector(option: Option) -> Callable[[BusOptions, str], None]:
    def keep(self: BusOptions, value: str) -> None:
        self.lists.setdefault(option.name, []).append(value)

    keep.__doc__ = help_text(option)
    return keep


class BusOptions(usage.Options):
    """The parser of the command line of ``twistd bussrv``; made by :func:`Options`.

    :param left_out: a sentence for each plugin that cannot be used.
    :ivar table: the rows of the options.
    :ivar config: the configuration, once everything is parsed.
    :ivar warnings: a sentence for each option that has no effect.
    :ivar lists: the values of each option that may be repeated, by name.
    """

    synopsis = "[bussrv options]"
    longdesc = (
        "A message bus server. Each wire format listens where its option says: an endpoint description such as "
        "tcp:7890:interface=127.0.0.1 or udp:7222, a bare port (loopback only), or off. An option that the command "
        "line does not set is taken from its environment variable, such as BUSSRV_MAX_SESSIONS for --max-sessions, "
        "or else from the file that --config names."
    )

    table: tuple[Option, ...] = ()
    config: Config

    def __init__(
        self, formats: Iterable[IWireFormat], services: Iterable[IHostedService], left_out: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self.formats = list(formats)
        self.services = list(services)
        self.left_out = list(left_out)
        self.lists: dict[str, list[str]] = {}
        self.warnings: list[str] = []

    def opt_sample_config(self) -> None:
        """Print a configuration file with every option and its default, and exit."""
        print(sample_file(self.table), end="")
        sys.exit(0)

    def getUsage(self, width: int | None = None) -> str:
        """The options in their groups, then those that every command of ``twistd`` has."""
        wide = width or int(os.environ.get("COLUMNS") or 80)
        others = "\n".join(usage_entry(f"--{name}", self.docs[name], wide) for name in NO_SERVER)
        return f"{filled(self.longdesc, wide)}\n\n{usage_text(self.table, wide)}\nNo server:\n\n{others}"

    def parseArgs(self, *arguments: str) -> None:
        """There are no arguments.

        :raises usage.UsageError: names the first one.
        """
        if arguments:
            raise usage.UsageError(f"there is no argument {arguments[0]!r}")

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse and check the options of every source. Faults end the program, with a sentence for each.

        :raises StartError: names every fault and its place.
        """
        try:
            super().parseOptions(options)
            self.config = self.read()
            self._fix_paths()
        except (usage.UsageError, ConfigError) as error:
            *others, last = error.sentences if isinstance(error, ConfigError) else [str(error)]
            # The log never begins then, and a plugin that was left out may be the reason.
            raise StartError(*self.left_out, *others, f"{last} (see twistd bussrv --help)") from error
        for each in self.left_out:
            say_aside(each)
        unknown = unknown_variables(os.environ, self.table)
        self.warnings = [f"{name}: has no effect: there is no such option" for name in unknown]
        self.warnings += self.config.without_effect

    def read(self) -> Config:
        """Read and check the options of every source: the file and the environment as they are now.

        :raises ConfigError: names every fault and its place.
        """
        return check_values(values_given(self._given(), self.table), self.formats, self.services, _reactor)

    def _fix_paths(self) -> None:
        """From now on files are those that were read, whatever directory ``twistd`` changes to."""
        for name in ("config", "policy"):
            if self[name] is not None:
                self[name] = str(Path(self[name]).absolute())

    def _given(self) -> dict[str, Any]:
        """The values that the command line gives, by the names of the options."""
        # Twisted has 0 for a flag, and None for another option, that is not given.
        given = {name: True if value == 1 else value for name, value in self.items() if value not in (None, 0)}
        return {**given, **self.lists}
