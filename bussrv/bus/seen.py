"""Which objects came over a link already: so that nobody is given one twice, however servers are linked. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any


class Seen:
    """The newest objects, known by the beginnings of their routes (who sent them, and on which server) and their ids.

    Ids alone would not do: many clients count from 1.

    :param capacity: how many are remembered; the oldest are forgotten first.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # Hashes (SipHash for text) instead of the ids: two of the newest 131,072 are equal once in 10^9 runs.
        self._known: set[int] = set()
        self._order: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def add(self, origin: Iterable[str], object_id: Any) -> bool:
        """Remember an object. :returns: whether it is new."""
        key = hash((*origin, type(object_id), object_id))
        if key in self._known:
            return False
        self._known.add(key)
        self._order.append(key)
        if len(self._order) > self._capacity:
            self._known.remove(self._order.popleft())
        return True
