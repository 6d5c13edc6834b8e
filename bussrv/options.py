"""The rows of the table of options, and the kinds of values that options take.

A row is written once: as the default of the field that it sets, in :class:`bussrv.settings.Settings` and in
:class:`bussrv.server.configuration.option_table.ServerOptions`. ``--help``, the readers of the configuration file and
of environment variables, the tables of the documentation and the sample file are made from the rows.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from bussrv.addresses import UNIX
from bussrv.errors import BadValue
from bussrv.values import absolute, shown

Network = IPv4Network | IPv6Network
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

VARIABLES = "BUSSRV_"
"""The names of the environment variables that set options begin so."""

MAX_NUMBER = (1 << 63) - 1
MAX_SECONDS = 1e10
MAX_SERVER_ID = 255
"""The most bytes of the routing id of a server."""

MAX_BUFFER = 1 << 30
"""The most bytes of a buffer that the system is asked for."""


class ValueKind(ABC, Generic[T_co]):
    """A kind of value.

    :ivar takes: the values of this kind, for the documentation.
    :ivar is_flag: whether the command line names the option without a value.
    :ivar is_list: whether the option may be given several times.
    """

    takes: str
    is_flag = False
    is_list = False

    @abstractmethod
    def check(self, value: object) -> T_co:
        """Make the setting of a value. Numbers may come as text, as on the command line, or as numbers, as from TOML.

        :raises BadValue: says what is wrong with the value.
        """

    def from_text(self, text: str) -> object:
        """The value that the text of an environment variable stands for, not checked yet."""
        return text

    def plain(self, setting: Any) -> Any:
        """The value that stands for a setting in a TOML file: the inverse of :meth:`check`."""
        return setting


class Whole(ValueKind[int]):
    """Whole numbers from ``least`` to ``most``, of some unit."""

    def __init__(self, unit: str = "", *, least: int = 1, most: int = MAX_NUMBER) -> None:
        self.least = least
        self.most = most
        bounds = f"{least} or more" if most == MAX_NUMBER else f"{least} to {most}"
        self.takes = f"{unit}, {bounds}" if unit else bounds

    def check(self, value: object) -> int:
        """The number."""
        number = _whole(value)
        if number is None or number < self.least:
            raise BadValue(f"{shown(value)} is not a whole number of {self.least} or more")
        if number > self.most:
            raise BadValue(f"{shown(value)} is more than {self.most}, the most there can be")
        return number


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) > len(str(MAX_NUMBER)):
        # Python refuses to make numbers of very many digits.
        value = value.lstrip("0")[:100] or "0"
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    try:
        return int(value)
    except ValueError:
        return None


class Seconds(ValueKind[float]):
    """Times in seconds, with or without a fraction.

    :param may_be_zero: whether 0 is one of them.
    """

    def __init__(self, *, may_be_zero: bool = False) -> None:
        self.may_be_zero = may_be_zero
        self.takes = "seconds, 0 or more" if may_be_zero else "seconds, more than 0"

    def check(self, value: object) -> float:
        """The number of seconds."""
        number = _number(value)
        if number is None:
            raise BadValue(f"{shown(value)} is not a number of seconds")
        if number < 0 or (number == 0 and not self.may_be_zero):
            bound = "0 seconds or more" if self.may_be_zero else "more than 0 seconds"
            raise BadValue(f"{shown(value)} is not {bound}")
        if number > MAX_SECONDS:
            raise BadValue(f"{shown(value)} is more than {MAX_SECONDS:.0f} seconds, the most there can be")
        return number


def _number(value: object) -> float | None:
    """``None`` for what is no number; infinity for what is too large."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return float("inf") if isinstance(value, int) and value > 0 else float("-inf")
    except ValueError:
        return None
    return None if number != number else number


class Flag(ValueKind[bool]):
    """On or off."""

    takes = "`true` or `false`"
    is_flag = True

    def check(self, value: object) -> bool:
        """The value."""
        if not isinstance(value, bool):
            raise BadValue(f"{shown(value)} is neither true nor false")
        return value

    def from_text(self, text: str) -> object:
        """``true`` and ``false`` are themselves."""
        return {"true": True, "false": False}.get(text, text)


class Choice(ValueKind[Any]):
    """One of a few words, such as those of a ``Literal`` type."""

    def __init__(self, choices: Sequence[str]) -> None:
        self.choices = tuple(choices)
        self.takes = ", ".join(f"`{each}`" for each in choices)

    def check(self, value: object) -> Any:
        """The word."""
        if value not in self.choices:
            raise BadValue(f"{shown(value)} is none of {', '.join(self.choices)}")
        return value


class Text(ValueKind[str]):
    """Any text of one character or more."""

    takes = "text"

    def check(self, value: object) -> str:
        """The text."""
        if not isinstance(value, str):
            raise BadValue(f"{shown(value)} is not a text")
        if not value:
            raise BadValue("the text is empty")
        return value


class FilePath(ValueKind[Path]):
    """The path of a file; a relative one starts from the working directory."""

    takes = "a file"

    def check(self, value: object) -> Path:
        """The absolute path. Nothing is looked up there.

        :raises BadValue: it is no path, or starts from a working directory that is gone.
        """
        text = Text().check(value)
        try:
            is_path = b"\0" not in os.fsencode(text)
        except UnicodeEncodeError:
            is_path = False
        if not is_path:
            raise BadValue(f"{shown(text)} is no path")
        try:
            return absolute(text)
        except ValueError as error:
            raise BadValue(str(error)) from error

    def plain(self, setting: Any) -> Any:
        """The path as text."""
        return str(setting)


class ListOf(ValueKind[tuple[Any, ...]]):
    """A list of values of a kind. A single value need not be in a list.

    :param takes: the noun for the values, for the documentation.
    """

    is_list = True

    def __init__(self, kind: ValueKind[Any], takes: str) -> None:
        self.kind = kind
        self.takes = takes

    def check(self, value: object) -> tuple[Any, ...]:
        """The values in their order, each once."""
        found: dict[Any, None] = {}
        faults: list[str] = []
        for each in value if isinstance(value, (list, tuple)) else [value]:
            self._add(each, found, faults)
        if faults:
            raise BadValue("; ".join(faults))
        return tuple(found)

    def _add(self, value: object, found: dict[Any, None], faults: list[str]) -> None:
        try:
            found[self.kind.check(value)] = None
        except BadValue as error:
            faults.append(str(error))

    def from_text(self, text: str) -> object:
        """Values with commas between them."""
        return [each.strip() for each in text.split(",")]

    def plain(self, setting: Any) -> Any:
        """A list."""
        return [self.kind.plain(each) for each in setting]


class SlowPolicy(ValueKind[Any]):
    """A policy for slow clients, such as ``spp=coalesce``. Of several the last one holds."""

    def __init__(self, wire_format: str, policies: tuple[str, ...]) -> None:
        self._values = {f"{wire_format}={each}": each for each in policies}
        self.takes = ", ".join(f"`{each}`" for each in self._values)

    def check(self, value: object) -> Any:
        """The word."""
        policy = None
        for each in value if isinstance(value, (list, tuple)) and value else [value]:
            policy = self._values.get(each) if isinstance(each, str) else None
            if policy is None:
                raise BadValue(f"{shown(each)} is none of {', '.join(self._values)}")
        return policy

    def plain(self, setting: Any) -> Any:
        """With the name of the wire format."""
        return next(value for value, policy in self._values.items() if policy == setting)


class NetworkOrUnix(ValueKind["Network | Literal['unix']"]):
    """An IP network, or one address.

    :param unix: whether the word ``unix``, for UNIX sockets, is one of them.
    """

    takes = "a network"

    def __init__(self, *, unix: bool = False) -> None:
        self._unix = unix

    def check(self, value: object) -> Network | Literal["unix"]:
        """The network, or the word."""
        text = Text().check(value)
        if self._unix and text == UNIX:
            return UNIX
        try:
            return ip_network(text)
        except ValueError as error:
            raise BadValue(str(error)) from error

    def plain(self, setting: Any) -> Any:
        """The network as text."""
        return str(setting)


class ServerId(ValueKind[str]):
    """A routing id of a server."""

    takes = f"text, at most {MAX_SERVER_ID} bytes"

    def check(self, value: object) -> str:
        """The text."""
        text = Text().check(value)
        if not text.isprintable():
            raise BadValue(f"{shown(text)} has characters that cannot be printed")
        size = len(text.encode())
        if size > MAX_SERVER_ID:
            raise BadValue(f"{shown(text)} has {size} bytes, the most is {MAX_SERVER_ID}")
        return text


class WebOrigin(ValueKind[str]):
    """The origin of web pages, as browsers write it, or a pattern of origins."""

    takes = "an origin"

    def check(self, value: object) -> str:
        """The origin in lower case, as browsers write it."""
        text = Text().check(value).lower()
        if text in (ANY_ORIGIN, NO_ORIGIN) or _ORIGIN.fullmatch(text):
            return text
        raise BadValue(f"{shown(value)} is no origin, such as https://hall.example or http://localhost:8000")


ANY_ORIGIN = "*"
NO_ORIGIN = "null"
"""The origin of pages that have none, such as files."""

_ORIGIN = re.compile(r"[a-z*][a-z0-9+.*-]*://[^/?#@\s]+")

BYTES = Whole("bytes")
COUNT = Whole()
SECONDS = Seconds()
SECONDS_OR_NONE = Seconds(may_be_zero=True)
FLAG = Flag()
FILE = FilePath()
NETWORKS: ValueKind[tuple[Network, ...]] = ListOf(NetworkOrUnix(), "networks")
ORIGINS: ValueKind[tuple[Network | Literal["unix"], ...]] = ListOf(NetworkOrUnix(unix=True), "networks, or `unix`")
SERVER_IDS: ValueKind[tuple[str, ...]] = ListOf(ServerId(), "routing ids of servers")

WEB_ORIGINS: ValueKind[tuple[str, ...]] = ListOf(WebOrigin(), "origins")


@dataclass(frozen=True)
class OptionGroup:
    """Options that stand in one table of the documentation. Its methods declare fields of dataclasses.

    Each takes the default, the help text, and further columns of :class:`Option`; the name of the option is that of
    the field, unless it is among them.

    :ivar name: the mark of the table in the documentation.
    :ivar title: the heading, for people.
    :ivar reloadable: whether a running server takes other values of them, unless one says otherwise.
    """

    name: str
    title: str
    reloadable: bool = True

    def count(self, default: int, help: str, **more: Any) -> int:  # noqa: A002
        """A number of things, 1 or more."""
        return self.option(COUNT, default, help, **more)

    def size(self, default: int, help: str, **more: Any) -> int:  # noqa: A002
        """A number of bytes, 1 or more."""
        return self.option(BYTES, default, help, **more)

    def time(self, default: float, help: str, **more: Any) -> float:  # noqa: A002
        """Seconds, more than 0."""
        return self.option(SECONDS, default, help, **more)

    def option(self, kind: ValueKind[T], default: T, help: str, **more: Any) -> T:  # noqa: A002
        """Values of any kind."""
        columns = {"kind": kind, "default": default, "help": help, "group": self, "reloadable": self.reloadable}
        columns |= {"unset": "none"} if default == () else {}
        # Its type is that of the default, as with `dataclasses.field`.
        made: T = field(default=default, metadata=columns | more)
        return made


@dataclass(frozen=True, kw_only=True)
class Option:
    """A row of the table.

    :ivar name: the long name, as on the command line and in the file.
    :ivar sets: the name of the field that holds the setting.
    :ivar help: the thing that it sets, the unit, and what happens beyond it; Markdown with nothing but backquotes.
    :ivar group: the options that it stands with.
    :ivar default: the setting if no source sets it.
    :ivar unset: the default in words, for a default that no value stands for.
    :ivar example: a value for the sample file, if no value stands for the default.
    :ivar reloadable: whether a running server takes another value when it reads its configuration again. Then no part
        keeps a copy of the old one, or the part is in :attr:`bussrv.bus.interfaces.IBus.reloadables`.
    :ivar in_file: whether the configuration file may set it.
    """

    name: str
    sets: str
    kind: ValueKind[Any]
    help: str
    group: OptionGroup
    default: Any = None
    unset: str = ""
    example: Any = None
    reloadable: bool = True
    in_file: bool = True

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return variable(self.name)

    @property
    def shown_default(self) -> str:
        """The default, for people."""
        if self.unset:
            return self.unset
        plain = self.kind.plain(self.default)
        if isinstance(plain, bool):
            return "true" if plain else "false"
        return f"{plain:g}" if isinstance(plain, float) else str(plain)


def variable(name: str) -> str:
    """The environment variable that sets the option of this name."""
    return f"{VARIABLES}{name.replace('-', '_').upper()}"


@cache
def rows(settings: type) -> tuple[Option, ...]:
    """The rows that the fields of a dataclass were declared with, in their order."""
    return tuple(
        Option(sets=each.name, **{"name": each.name.replace("_", "-"), **each.metadata}) for each in fields(settings)
    )
