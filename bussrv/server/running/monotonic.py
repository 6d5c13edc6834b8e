"""The reactor of a server uses the monotonic clock.

Twisted's reactors use the time of day for :meth:`IReactorTime.seconds`. If the wall clock were set, every lease and
time-out would end at once, or none would. The interface leaves open when the seconds begin, and the reactor itself only
compares them with each other.
"""

from __future__ import annotations

import time
from typing import Any


def run_on_monotonic_clock(reactor: Any) -> None:
    """Let ``reactor`` measure time with the monotonic clock. Calls that wait already keep what is left of their wait.

    To be called before the reactor runs.
    """
    before = reactor.seconds
    if before is time.monotonic:
        return
    reactor.seconds = time.monotonic
    for call in reactor.getDelayedCalls():
        left = max(0.0, call.getTime() - before())
        call.seconds = time.monotonic
        call.reset(left)
