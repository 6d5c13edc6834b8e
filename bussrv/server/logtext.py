"""The text of the log is evidence: clients' words may stand in it, but cannot forge lines of it.

Events below a level are left out of the log, for observers of every kind: see :class:`Threshold`.

Names, error messages and addresses of clients get into the log in many places, also in exceptions and tracebacks. So
:func:`escape_event` escapes every event of Twisted's log in one place, before it is written.
"""

from __future__ import annotations

import re

from twisted.logger import ILogObserver, LogEvent, LogPublisher, formatEvent
from twisted.python.failure import Failure
from twisted.python.reflect import safe_str
from zope.interface import implementer, provider

from bussrv.server.loglevels import EVERYTHING, ORDER, LogLevels, part_of

MOST = 4096
"""The most characters of one message. A traceback may be longer, but its message may not."""

# Controls, invisible characters, characters that turn text around, line ends of Unicode, halves of surrogates.
_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_SYSTEMS = ("log_system", "system", "log_namespace")
"""The fields of an event that a line of the log names as its origin."""


_TEXTS = ("log_format", "log_failure", "failure", "why", "format", "log_text", "log_flattened")
"""The fields of an event that have its text, except ``message``."""


def escaped(text: str) -> str:
    r"""``text`` as one line: what is unfit for that is written as in a string of Python, such as ``\x1b``."""
    return _UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """The same, and not too long."""
    cut = escaped(text[:MOST])
    return cut if len(text) <= MOST else f"{cut}… ({len(text) - MOST} more characters)"


LEFT_OUT = " ({suppressed} more not logged)"
"""The end of messages that are logged at a limited rate."""


@provider(ILogObserver)
def escape_event(event: LogEvent) -> None:
    """Replace the text of an event by escaped text, if it needs escaping.

    This is an observer of the log. It comes before those that write, and they are given the same event.
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
    """Takes all text from events below a level. Observers write nothing for an event that has none.

    This is an observer of the log, like :func:`escape_event`.

    :ivar levels: the levels that are logged.
    """

    def __init__(self, levels: LogLevels = EVERYTHING) -> None:
        self.levels = levels

    def __call__(self, event: LogEvent) -> None:
        """Judge an event."""
        level = event.get("log_level")
        if level is not None and level < ORDER[self.levels.of(part_of(event))]:
            silence(event)


def silence(event: LogEvent) -> None:
    """Take all text from an event, so that no observer writes it."""
    for name in _TEXTS:
        event.pop(name, None)
    event["message"], event["isError"] = (), 0


def _as_it_reads(event: LogEvent) -> str:
    """The text of an event; without the end about messages left out if none was."""
    form = event.get("log_format")
    if isinstance(form, str) and event.get("suppressed") == 0:
        event["log_format"] = form.replace(LEFT_OUT, "")
    return formatEvent(event)


def _fit_trace(trace: str, failure: Failure) -> str:
    """A traceback keeps its lines, but the message of the exception is one line."""
    said = f": {safe_str(failure.value)}"
    before, found, after = trace.rpartition(said)
    if found:
        trace = before + one_line(said) + after
    return "\n".join(map(escaped, trace.split("\n")))


def _say(event: LogEvent, text: str) -> None:
    """Make ``text`` the only text of an event, for observers of every kind. Braces in it are no fields."""
    for name in _TEXTS:
        event.pop(name, None)
    event["log_format"], event["log_escaped"] = "{log_escaped}", text
    event["message"] = (text,)


def escape_log(publisher: LogPublisher, threshold: Threshold) -> None:
    """For observers that are added from now on: leave out events of ``publisher``, and escape all others."""
    publisher.addObserver(threshold)
    publisher.addObserver(escape_event)
