"""Counts publications by service. Pure.

The names of services are those of clients, and there may be any number of them. So memory is bounded: when there are
too many names, the half with the fewest bytes is forgotten, and counts anew if it comes again.
"""

from __future__ import annotations

MOST_SERVICES = 4096
"""The most services that are counted at the same time."""


class ServiceTraffic:
    """Counts the publications on each service until somebody takes the counts."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, service: str, publications: int, size: int) -> None:
        """Count some publications on a service, of so many bytes of payload together."""
        count = self._counts.get(service)
        if count is None:
            if len(self._counts) >= MOST_SERVICES:
                self._forget_half()
            count = self._counts[service] = [0, 0]
        count[0] += publications
        count[1] += size

    def _forget_half(self) -> None:
        ordered = sorted(self._counts.items(), key=lambda each: each[1][1], reverse=True)
        self._counts = dict(ordered[: MOST_SERVICES // 2])

    def take(self) -> dict[str, list[int]]:
        """The publications on each service since the last call, and the bytes of their payloads."""
        counts, self._counts = self._counts, {}
        return counts
