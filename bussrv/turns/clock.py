"""The clocks of journal records: time of day and monotonic time, in microseconds."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of times; tests have their own."""

    def utc(self) -> int:
        """UTC in microseconds since 1970; may be set back by the system."""

    def mono(self) -> int:
        """Microseconds since some moment; never goes back."""


class SystemClock:
    """The clocks of the operating system."""

    def utc(self) -> int:
        """UTC in microseconds since 1970."""
        return time.time_ns() // 1000

    def mono(self) -> int:
        """Microseconds since the machine started."""
        return time.monotonic_ns() // 1000
