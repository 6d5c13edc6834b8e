"""The text of the log. It may quote clients, but a client cannot forge a line of it.

1. :class:`Threshold` leaves out events below a level, for observers of every kind.
2. :func:`escape_event` escapes every event of Twisted's log in one place, before it is written. Names, error messages
   and addresses of clients get into the log in many places, also in exceptions and tracebacks.

A terminal gets stricter text: :func:`bussrv.terminal.cleaned` escapes everything that is not printable. The log leaves
more as it is: blanks of other scripts, and characters that are private or newer than this Python. They cannot forge a
line, and an operator can search the log for the name of a client.
"""

from __future__ import annotations

import re
import sys

from twisted.logger import ILogObserver, LogEvent, LogPublisher, formatEvent
from twisted.python.failure import Failure
from twisted.python.reflect import safe_str
from zope.interface import implementer, provider

from bussrv import terminal
from bussrv.server.log.levels import EVERYTHING, ORDER, Levels, part_of

# Controls, invisible characters, characters that turn text around, line ends of Unicode, halves of surrogates.
_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_SYSTEMS = ("log_system", "system", "log_namespace")
"""The fields of an event that a line of the log names as its origin."""

_TEXTS = ("log_format", "log_failure", "failure", "why", "format", "log_text", "log_flattened")
"""The fields of an event that have its text, except ``message``."""


def escaped(text: str) -> str:
    r"""``text`` in one line. Unfit characters are escaped as in Python, such as ``\x1b``."""
    return _UNFIT.sub(lambda found: terminal.escape(found[0]), text)


def one_line(text: str) -> str:
    """``text`` in one line of limited length. A traceback may be longer, but its message may not."""
    return terminal.one_line(text, escaped)


def say_aside(sentence: str) -> None:
    """Write a line to standard error, for whoever starts the server and does not see its log."""
    if sys.__stderr__ is not None:
        sys.__stderr__.write(f"bussrv: {one_line(sentence)}\n")
        sys.__stderr__.flush()


LEFT_OUT = " ({suppressed} more not logged)"
"""The end of messages that are logged at a limited rate."""


@provider(ILogObserver)
def escape_event(event: LogEvent) -> None:
    """Replace the text of an event by escaped text, if it needs escaping.

    This is an observer of the log. It comes before the observers that write, which get the same event.
    """
    for name in _SYSTEMS:
        if isinstance(event.get(name), str):
            event[name] = escaped(event[name])
    text, failure = _as_it_reads(event), event.get("log_failure")
    if not isinstance(failure, Failure):
        if one_line(text) != text:
            _say(event, one_line(text))
        return
    trace = safe_str(failure.getTraceback())
    # Events of the older interface have the traceback in their text already.
    why = safe_str(event.get("why") or "Unhandled Error") if "failure" in event else text
    fit = _fit_trace(trace, failure)
    if fit != trace or one_line(why) != why:
        _say(event, f"{one_line(why)}\n{fit}")


@implementer(ILogObserver)
class Threshold:
    """Removes all text from events below a level, so that no observer writes them.

    This is an observer of the log, like :func:`escape_event`.

    :ivar levels: the levels that are logged.
    """

    def __init__(self, levels: Levels = EVERYTHING) -> None:
        self.levels = levels

    def __call__(self, event: LogEvent) -> None:
        """Remove the text of an event if its level is too low."""
        level = event.get("log_level")
        if level is not None and level < ORDER[self.levels.of(part_of(event))]:
            silence(event)


def silence(event: LogEvent) -> None:
    """Remove all text from an event, so that no observer writes it."""
    for name in _TEXTS:
        event.pop(name, None)
    event["message"], event["isError"] = (), 0


def _as_it_reads(event: LogEvent) -> str:
    """The text of an event. :data:`LEFT_OUT` is removed if no message was left out."""
    form = event.get("log_format")
    if isinstance(form, str) and event.get("suppressed") == 0:
        event["log_format"] = form.replace(LEFT_OUT, "")
    return formatEvent(event)


def _fit_trace(trace: str, failure: Failure) -> str:
    """The escaped traceback. It keeps its lines, but the message of the exception becomes one line."""
    said = f": {safe_str(failure.value)}"
    before, found, after = trace.rpartition(said)
    if found:
        trace = before + one_line(said) + after
    return "\n".join(map(escaped, trace.split("\n")))


def _say(event: LogEvent, text: str) -> None:
    """Make ``text`` the only text of an event, for observers of every kind. Braces in it do not name fields."""
    for name in _TEXTS:
        event.pop(name, None)
    event["log_format"], event["log_escaped"] = "{log_escaped}", text
    event["message"] = (text,)


def escape_log(publisher: LogPublisher, threshold: Threshold) -> None:
    """Add the threshold and the escaping to ``publisher``, before all observers that are added later."""
    publisher.addObserver(threshold)
    publisher.addObserver(escape_event)
