"""Received events that were not taken yet. They are bounded, so that a long-running program does not grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_KEPT = 1000
"""The most events that are kept."""

MAX_KEPT_BYTES = 64 << 20
"""The most bytes of them. The latest is kept, however large it is."""

Event = TypeVar("Event")


class Kept(Generic[Event]):
    """Events in order. If there are too many, the oldest are forgotten.

    :param weigh: the bytes of an event.
    :ivar forgotten: how many were forgotten.
    """

    def __init__(self, weigh: Callable[[Event], int], most: int = MAX_KEPT, most_bytes: int = MAX_KEPT_BYTES) -> None:
        self.forgotten = 0
        self._weigh = weigh
        self._most = most
        self._most_bytes = most_bytes
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._events)

    def add(self, event: Event) -> None:
        """Keep an event."""
        weight = self._weigh(event)
        self._events.append((event, weight))
        self._bytes += weight
        while len(self._events) > 1 and (len(self._events) > self._most or self._bytes > self._most_bytes):
            self.first()
            self.forgotten += 1

    def first(self) -> Event:
        """Take the oldest."""
        event, weight = self._events.popleft()
        self._bytes -= weight
        return event

    def last(self) -> Event:
        """Take the latest."""
        event, weight = self._events.pop()
        self._bytes -= weight
        return event

    def find(self, predicate: Callable[[Event], bool]) -> Event | None:
        """Take the oldest for which ``predicate`` is true; ``None``: there is none."""
        for index, (event, weight) in enumerate(self._events):
            if predicate(event):
                del self._events[index]
                self._bytes -= weight
                return event
        return None

    def clear(self) -> None:
        """Keep nothing."""
        self._events.clear()
        self._bytes = 0
