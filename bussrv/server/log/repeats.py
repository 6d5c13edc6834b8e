"""Repeated lines of the log are limited, and summed up: a fault that comes a thousand times a second is one fault."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from msgspec import Struct
from twisted.internet.task import LoopingCall
from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, formatEvent
from zope.interface import implementer

from bussrv.server.log.text import silence

MOST = 10
"""So many equal lines are logged in a period."""

PERIOD = 60.0
"""Seconds of a period. It begins with the first of the equal lines."""

PAUSE = 5.0
"""Seconds between two looks at which periods are over."""

MOST_KNOWN = 1000
"""So many different lines are remembered. Beyond it, the period of the oldest one is over."""

SUMMED_UP = "log.repeated"

log = Logger()


class _Line(Struct):
    """A line.

    :ivar until: the end of its period, in seconds of the reactor.
    :ivar times: how often it came in the period.
    """

    text: str
    until: float
    level: Any
    times: int = 1


@implementer(ILogObserver)
class Repeats:
    """Takes all text from lines that were logged often enough, and later logs how many they were.

    This is an observer of the log, like :func:`bussrv.server.log.text.escape_event`. Lines are equal if their texts
    are. Any thread may log.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._lock = Lock()
        self._lines: OrderedDict[str, _Line] = OrderedDict()
        self._over: list[_Line] = []
        self._looking = LoopingCall(self.sum_up)
        self._looking.clock = reactor

    def start(self) -> None:
        """From now on, sum up in time. To be called when the reactor runs."""
        self._looking.start(PAUSE, now=False)
        self._reactor.addSystemEventTrigger("after", "shutdown", self.sum_up, at_end=True)

    def __call__(self, event: LogEvent) -> None:
        """Judge an event."""
        text = formatEvent(event)
        if text and event.get("event") != SUMMED_UP and self._is_too_often(text, event):
            silence(event)

    def _is_too_often(self, text: str, event: LogEvent) -> bool:
        now = self._reactor.seconds()
        with self._lock:
            line = self._lines.get(text)
            if line is not None and now < line.until:
                line.times += 1
                return line.times > MOST
            if line is not None:
                self._over.append(self._lines.pop(text))
            self._lines[text] = _Line(text, now + PERIOD, event.get("log_level") or LogLevel.info)
            if len(self._lines) > MOST_KNOWN:
                self._over.append(self._lines.popitem(last=False)[1])
        return False

    def sum_up(self, *, at_end: bool = False) -> None:
        """Log how many lines were left out in the periods that are over.

        :param at_end: whether all of them are.
        """
        now = self._reactor.seconds()
        with self._lock:
            while self._lines and (at_end or next(iter(self._lines.values())).until <= now):
                self._over.append(self._lines.popitem(last=False)[1])
            over, self._over = self._over, []
        for each in over:
            if each.times > MOST:
                text = "{times} more lines like this one within {seconds:g} s: {text}"
                log.emit(each.level, text, event=SUMMED_UP, times=each.times - MOST, seconds=PERIOD, text=each.text)
