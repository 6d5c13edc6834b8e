"""The limits of all clients together that have refused some of them lately: those within limits of their own, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

LATELY = 60.0
"""Seconds for which a refusal counts."""

COUNTERS = {
    "max-sessions": "max-sessions",
    "inbus-max-sessions": "inbus-max-sessions",
    "spp-max-silent": "spp-max-silent",
    "max-handshakes": "max-handshakes",
    "max-services-total": "max-services-total",
    "max-requests": "max-requests",
    "max-outbound-total": "outbound-full",
    "max-inbound-total": "inbound-full",
    "max-links": "max-links",
    "max-remote-sessions": "too-many-remote-sessions",
}
"""The options that set such limits, each with its counter."""


class Refusals:
    """Looks at the counters of the limits.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, counters: Counter[str], seconds: Callable[[], float]) -> None:
        self._counters = counters
        self._seconds = seconds
        self._before = {name: counters[counter] for name, counter in COUNTERS.items()}
        self._at: dict[str, float] = {}

    def lately(self) -> list[str]:
        """The options whose limits refused somebody within :data:`LATELY`, or since the last call."""
        now = self._seconds()
        for name, counter in COUNTERS.items():
            count = self._counters[counter]
            if count != self._before[name]:
                self._before[name], self._at[name] = count, now
        return [name for name, at in self._at.items() if now - at < LATELY]
