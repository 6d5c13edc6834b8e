"""Lines of the log of an uplink, in the forms of the log of a server: docs/reference/log.md."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.terminal import one_line

PART = "uplink"


@dataclass(frozen=True)
class Lines:
    """A log.

    :ivar as_json: whether a line is a JSON object.
    :ivar out: the stream for the lines; by default standard error.
    """

    as_json: bool = False
    out: TextIO = field(default_factory=lambda: sys.stderr)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def info(self, text: str, *, event: str, **values: object) -> None:
        """Log a line.

        :param text: a text for :meth:`str.format`.
        :param event: the name of the event.
        :param values: the values in the text.
        """
        self._line("info", text, event, values)

    def warn(self, text: str, *, event: str, **values: object) -> None:
        """Log something that an operator may have to look at."""
        self._line("warn", text, event, values)

    def error(self, text: str, *, event: str, **values: object) -> None:
        """Log something that an operator has to look at."""
        self._line("error", text, event, values)

    def _line(self, level: str, text: str, event: str, values: dict[str, object]) -> None:
        message, now = one_line(text.format(**values)), time.time()
        seconds = time.gmtime(now)
        if self.as_json:
            stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', seconds)}.{int(now % 1 * 1_000_000):06d}Z"
            line = json.dumps({"time": stamp, "level": level, "event": event, "part": PART, "message": message})
        else:
            line = f"{time.strftime('%Y-%m-%dT%H:%M:%S', seconds)}+0000 [bussrv.{PART}#{level}] {message}"
        with self._lock:
            self.out.write(f"{line}\n")
            self.out.flush()


class RareLines:
    """Lines that others can cause: of each event some at once, and then one in ten seconds."""

    def __init__(self, log: Lines, seconds: Callable[[], float] = time.monotonic) -> None:
        self._lines = log
        self._throttle = Throttle(LOG_RATE, LOG_BURST, seconds)

    def warn(self, text: str, *, event: str, **values: object) -> None:
        """See :meth:`Lines.warn`. The line has the number of those that were left out before it."""
        left_out = self._throttle.admit(event)
        if left_out is not None:
            more = f" ({left_out} such lines were left out before)" if left_out else ""
            self._lines.warn(f"{text}{{more}}", event=event, more=more, **values)
