"""The levels of the log: one for all parts of the server, and others for some parts.

A level as text: ``info``; ``info,journal=debug``. Parts are the rooms of the code, by the names of their packages, and
Twisted. At ``info``, lines of Twisted begin at ``warn``: it tells of every port that it opens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace
from twisted.logger import LogEvent, LogLevel

from bussrv.errors import BadValue
from bussrv.options import Text, ValueKind
from bussrv.values import shown

LogLevelName = Literal["debug", "info", "warn", "error"]

NAMES: tuple[LogLevelName, ...] = get_args(LogLevelName)

OWN_PARTS = ("admin", "bus", "formats", "journal", "policy", "registry", "server", "services", "spool")
TWISTED = "twisted"
PARTS = (*OWN_PARTS, TWISTED)

_OF_TWISTED: Mapping[LogLevelName, LogLevelName] = {"info": "warn"}


class Levels(Struct, frozen=True):
    """The least level of the lines that are logged.

    :ivar default: the level of parts without a level of their own.
    :ivar parts: the levels of other parts, by name.
    """

    default: LogLevelName = "info"
    parts: dict[str, LogLevelName] = {}

    def __str__(self) -> str:
        return ",".join([self.default, *(f"{part}={level}" for part, level in sorted(self.parts.items()))])

    def of(self, part: str) -> LogLevelName:
        """The least level of a part."""
        found = self.parts.get(part)
        if found is not None:
            return found
        return _OF_TWISTED.get(self.default, self.default) if part == TWISTED else self.default

    def changed(self, level: str, part: str | None = None) -> Levels:
        """These levels with another level of one part; ``None``: of all parts without a level of their own.

        :raises BadValue: there is no such level, or no such part.
        """
        if part is None:
            return replace(self, default=_level(level))
        return replace(self, parts={**self.parts, _part(part): _level(level)})


def part_of(event: LogEvent) -> str:
    """The part that an event of the log comes from; empty for plugins. Connections are a part of their wire formats."""
    first, _, rest = str(event.get("log_namespace", "")).partition(".")
    if first == "bussrv":
        room = rest.partition(".")[0]
        return "formats" if room == "net" else room
    # The older interface of the log says no origin. Nearly everybody who uses it is Twisted.
    return TWISTED if first in (TWISTED, "log_legacy") else ""


def level_of(event: LogEvent) -> str:
    """The name of the level of an event of the log."""
    level = event.get("log_level")
    return str(level.name) if level is not None else "error" if event.get("isError") else "info"


EVERYTHING = Levels("debug")


class LogLevelsKind(ValueKind[Levels]):
    """The levels of the log."""

    takes = "`debug`, `info`, `warn` or `error`; then `,PART=LEVEL` for parts"

    def check(self, value: object) -> Levels:
        """The levels."""
        default, *others = Text().check(value).split(",")
        levels = Levels().changed(default)
        for each in others:
            part, equals, level = each.partition("=")
            if not equals:
                raise BadValue(f"{shown(each)} is not of the form PART=LEVEL")
            levels = levels.changed(level, part)
        return levels

    def plain(self, setting: object) -> str:
        """All of it as one text."""
        return str(setting)


def _level(name: str) -> LogLevelName:
    if name not in NAMES:
        raise BadValue(f"{shown(name)} is none of {', '.join(NAMES)}")
    return name


def _part(name: str) -> str:
    if name not in PARTS:
        raise BadValue(f"{shown(name)} is none of the parts {', '.join(PARTS)}")
    return name


ORDER = {name: LogLevel.levelWithName(name) for name in NAMES}
"""The levels as the log has them, by name."""
