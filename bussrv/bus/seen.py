"""Which objects came over a link already: so that nobody is given one twice, however servers are linked. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from bussrv.wire.objects import BusObject


def origin_of(route: Iterable[str]) -> int:
    """Where objects come from, by the beginning of their route: who sent them, and on which server."""
    return hash(tuple(route))


class Seen:
    """The newest objects, known by where they come from, and by their ids.

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

    def add(self, origin: int, object_id: Any) -> bool:
        """Remember an object. :returns: whether it is new."""
        key = hash((origin, type(object_id), object_id))
        if key in self._known:
            return False
        self._known.add(key)
        self._order.append(key)
        if len(self._order) > self._capacity:
            self._known.remove(self._order.popleft())
        return True

    def new_of(self, origin: int, objs: Iterable[BusObject]) -> list[BusObject]:
        """Remember some objects that come from one place, all of them with an id. :returns: those that are new."""
        known, order, capacity = self._known, self._order, self._capacity
        new = []
        for obj in objs:
            object_id = obj.head.id
            key = hash((origin, type(object_id), object_id))
            if key not in known:
                known.add(key)
                order.append(key)
                if len(order) > capacity:
                    known.remove(order.popleft())
                new.append(obj)
        return new
