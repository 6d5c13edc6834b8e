"""Text of strangers, fit for a terminal, and lines in colours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import tzinfo
from typing import TextIO

from bussrv.events import event_name
from bussrv.journal.instants import UTC, time_in
from bussrv.journal.record import Record, format_time
from bussrv.terminal import word

SHOWN = (
    "actor",
    "claimed",
    "peer",
    "session",
    "routing_id",
    "method",
    "service",
    "origin",
    "lost",
    "action",
    "target",
    "incident",
    "kind",
    "note",
    "witness",
    "size",
    "rule",
    "reason",
    "until",
    "limit",
    "value",
    "changed",
    "message",
    "suppressed",
)
"""The fields of an event that people are shown, in this order."""

_RESET = "\x1b[0m"
_FAINT = "\x1b[2m"
_BY_OUTCOME = {"refused": "\x1b[1;33m", "failed": "\x1b[1;31m"}


def write(text: bytes) -> None:
    """To standard output: names in a journal are UTF-8, whatever the locale of the terminal says."""
    sys.stdout.buffer.write(text)


def wants_colours(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal whose user has nothing against colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def record_line(record: Record, in_colours: bool, zone: tzinfo = UTC) -> str:
    """One line for people about a record.

    :param zone: of its time.
    """
    time, rest = time_in(record.time, zone), " ".join(_words(record))
    if not in_colours:
        return f"{time} {rest}"
    colour = _BY_OUTCOME.get(record.event.OUTCOME)
    return f"{_FAINT}{time}{_RESET} " + (f"{colour}{rest}{_RESET}" if colour else rest)


def _words(record: Record) -> Iterator[str]:
    event = record.event
    yield str(record.seq)
    yield event_name(event)
    if event.OUTCOME != "ok":
        yield event.OUTCOME
    for name in SHOWN:
        value = getattr(event, name, None)
        if value not in (None, ()):
            yield f"{name}={word(_text(name, value))}"


def _text(name: str, value: object) -> object:
    if name == "until" and isinstance(value, int):
        return format_time(value)
    return ",".join(value) if isinstance(value, tuple) else value
