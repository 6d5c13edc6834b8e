"""The log as JSON: one object a line, for programs.

::

    {"time":"2026-11-21T14:02:03.123456Z","level":"info","event":"session.malformed","part":"formats",
     "message":"objects: session 5f1c….3 from 127.0.0.1:40112 ended: …","session":"5f1c….3","peer":"127.0.0.1:40112",
     "protocol":"objects","suppressed":0}

``event`` is a stable name; ``message`` may change. Fields that do not apply are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from twisted.logger import FileLogObserver, LogEvent, formatEvent
from twisted.python.failure import Failure
from twisted.python.logfile import LogFile

from bussrv.journal.record import format_time
from bussrv.server.log.levels import level_of, part_of
from bussrv.server.log.text import one_line

UNNAMED = "other"
"""The event of lines of Twisted and of plugins, which give none."""

FIELDS = ("session", "peer", "protocol", "service", "server", "address", "suppressed")
"""The fields of events that lines have, with the names that they have in the journal."""

_encode = msgspec.json.Encoder().encode


def json_line(event: LogEvent) -> str | None:
    """The line of an event of the log; ``None``: it has no text, so it is not logged."""
    message, newline, trace = formatEvent(event).partition("\n")
    failure = event.get("log_failure")
    if isinstance(failure, Failure):
        message, newline, trace = f"{message}{newline}{trace}", "\n", failure.getTraceback()
    if not message and not trace:
        return None
    line: dict[str, Any] = {
        "time": format_time(round(event.get("log_time", 0.0) * 1_000_000)),
        "level": level_of(event),
        "event": event.get("event", UNNAMED),
        "part": part_of(event) or str(event.get("log_namespace", "")),
        "message": message.strip(),
        **{name: _fit(event[name]) for name in FIELDS if isinstance(event.get(name), (str, int))},
    }
    if trace:
        line["traceback"] = trace
    return _encode(line).decode() + "\n"


def _fit(value: str | int) -> str | int:
    """Without halves of surrogates, which JSON cannot hold, and whatever else forges a line on a terminal."""
    return one_line(value) if isinstance(value, str) else value


def json_observer(twistd: Mapping[str, Any]) -> FileLogObserver:
    """Writes JSON where ``twistd`` would write text.

    :param twistd: its options.
    """
    name = twistd.get("logfile")
    if name == "-" or (twistd.get("nodaemon") and not name):
        return FileLogObserver(sys.stdout, json_line)
    return FileLogObserver(LogFile.fromFullPath(name or "twistd.log"), json_line)
