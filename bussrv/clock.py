"""The time of day and the time since the start, in microseconds: what journal records are stamped with."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where times come from; tests have their own."""

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
