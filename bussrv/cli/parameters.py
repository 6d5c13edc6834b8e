"""Values of options, options that several commands share, and checks of options that exclude each other."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from bussrv.audit.arguments import Base, Converted


class LazyChoice(Converted):
    """One of some words, which are loaded when they are needed.

    :param load: returns the words.
    """

    def __init__(self, name: str, load: Callable[[], Sequence[str]]) -> None:
        super().__init__(name, self._chosen)
        self._load = load

    def _chosen(self, text: str) -> str:
        words = self._load()
        if text not in words:
            raise ValueError(f"there is no {self.name.lower()} {text!r}; there are {', '.join(words)}")
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words that begin with ``incomplete``."""
        return [CompletionItem(each) for each in self._load() if each.startswith(incomplete)]


def records(least: int) -> Converted:
    """A number of records."""

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= int(text) <= sys.maxsize):
            raise ValueError(f"{text!r} is not a number of records")
        return int(text)

    return Converted("N", convert)


def whole(least: int, most: int | None = None) -> Converted:
    """A whole number."""

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise ValueError(f"{text!r} is no whole number")
        return _bounded(int(text), least, most)

    return Converted("N", convert)


def seconds(least: float, most: float | None = None) -> Converted:
    """A time in seconds."""

    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is no number of seconds") from None
        return _bounded(number, least, most)

    return Converted("S", convert)


Number = TypeVar("Number", int, float)


def _bounded(number: Number, least: Number, most: Number | None) -> Number:
    if not (number >= least and (most is None or number <= most)):
        raise ValueError(f"{number} is not {least} or more" + ("" if most is None else f", and {most} or less"))
    return number


def _moment(text: str) -> Any:
    from bussrv.journal.moments import parse_moment

    return parse_moment(text)


class When(Base):
    """A time, UTC microseconds since 1970. Without a zone of its own, it is in that of the option ``--zone``."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The time."""
        from bussrv.journal.instants import UTC, parse_when

        if not isinstance(value, str):
            return value
        try:
            zone = UTC if ctx is None else ctx.params.get("zone") or UTC
            return parse_when(value, time.time_ns() // 1000, zone)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _zone(text: str) -> Any:
    from bussrv.journal.instants import parse_zone

    return parse_zone(text)


def _journal(text: str) -> Path | str:
    return text if re.match("file:|[a-z][a-z0-9+.-]+://", text) else Path(text)


def _place(text: str) -> Any:
    from bussrv.inspection.surroundings import parse_place

    return parse_place(text)


def _events(text: str) -> frozenset[str]:
    from bussrv.events import EVENTS_BY_NAME

    names = frozenset(text.split(","))
    unknown = sorted(names - EVENTS_BY_NAME.keys())
    if unknown:
        raise ValueError(f"there is no event {unknown[0]!r}; there are {', '.join(EVENTS_BY_NAME)}")
    return names


JOURNAL = Converted("JOURNAL", _journal)
"""A journal: the path of its directory, or the URL that it is shipped to."""
WHEN = When()
ZONE = Converted("ZONE", _zone)
MOMENT = Converted("TIME|SEQ", _moment)
"""A :class:`bussrv.journal.moments.Moment`."""
PLACE = Converted("PLACE", _place)
"""A :class:`bussrv.inspection.surroundings.LinePlace`."""
EVENTS = Converted("NAME[,NAME]", _events)
"""A set of names of events."""


def format_option(names: Sequence[str]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Declare ``--format``, one of some wire formats. Object System is the default."""
    return click.option(
        "--format",
        "wire_format",
        type=click.Choice(names),
        default="objects",
        show_default=True,
        help="The wire format.",
    )


type_option = click.option(
    "--type", "content_type", metavar="TYPE", help="The content type.  [default: text, or bytes if it is none]"
)
"""Declare ``--type``, the content type of a payload."""


reconnect_option = click.option(
    "--reconnect", is_flag=True, help="Wait for the server, also when the connection ends. Standard error tells of it."
)
"""Declare ``--reconnect``."""


zone_option = click.option(
    "--zone",
    metavar="ZONE",
    type=ZONE,
    default="UTC",
    show_default=True,
    is_eager=True,
    help="The time zone of what is shown, and of times without one: UTC, local, or a name such as Europe/Berlin.",
)
"""Declare ``--zone``, a time zone."""


def period_options(function: Callable[..., int]) -> Callable[..., int]:
    """Declare ``--since`` and ``--until``, UTC microseconds since 1970, and ``--zone``."""
    until = click.option("--until", metavar="TIME", type=WHEN, help="Leave out records at or after this time.")
    since = click.option(
        "--since",
        metavar="TIME",
        type=WHEN,
        help="Leave out records before this time, such as yesterday, -2h, 14:02, 2026-11-21 or 2026-11-21T14:02:03Z.",
    )
    return since(until(zone_option(function)))


json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")
"""Declare ``--json``."""


def exclude(**given: object) -> None:
    """Refuse options that exclude each other.

    :param given: the values of the options, by the names of their parameters.
    :raises click.UsageError: more than one of them is given.
    """
    found = [f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, False, ())]
    if len(found) > 1:
        raise click.UsageError(f"{found[1]} is not allowed with {found[0]}")


def need_one(**given: object) -> None:
    """Check that exactly one of some options is given.

    :raises click.UsageError: none of them is given, or more than one.
    """
    exclude(**given)
    if all(value in (None, False, ()) for value in given.values()):
        raise click.UsageError(f"one of {', '.join(f'--{name}' for name in given)} is required")
