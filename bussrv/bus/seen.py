"""Objects that came over links lately, so that none is delivered twice, however servers are linked. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from bussrv.wire.objects import BusObject


def origin_of(route: Iterable[str]) -> int:
    """A key for the origin of objects: the beginning of their route, which is the sender and its server."""
    return hash(tuple(route))


def _keys(origin: int, object_ids: Iterable[Any]) -> list[int]:
    return [hash((origin, type(object_id), object_id)) for object_id in object_ids]


class Seen:
    """The newest objects, by origin and id. Ids alone are not unique: many clients count from 1.

    :ivar capacity: how many are remembered; the oldest are forgotten first.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # Hashes (SipHash for text) instead of the ids: two of the newest 131,072 are equal once in 10^9 runs.
        self._known: set[int] = set()
        self._order: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def add(self, origin: int, object_id: Any) -> bool:
        """Remember an object. :returns: whether it is new."""
        return self._add(_keys(origin, [object_id])[0])

    def _add(self, key: int) -> bool:
        if key in self._known:
            return False
        self._known.add(key)
        self._order.append(key)
        self._forget_oldest()
        return True

    def new_of(self, origin: int, objs: list[BusObject]) -> list[BusObject]:
        """Remember some objects of one origin. :returns: the new ones.

        In most cases all are new or none is; both are decided for the whole list.
        """
        if len(objs) == 1:
            return objs if self.add(origin, objs[0].head.id) else []
        keys = _keys(origin, [obj.head.id for obj in objs])
        if self._known.issuperset(keys):
            return []
        if self._known.isdisjoint(keys) and len(set(keys)) == len(keys):
            self._known.update(keys)
            self._order.extend(keys)
            self._forget_oldest()
            return objs
        return [obj for obj, key in zip(objs, keys, strict=True) if self._add(key)]

    def _forget_oldest(self) -> None:
        over = len(self._order) - self.capacity
        if over > 0:
            self._known.difference_update([self._order.popleft() for _ in range(over)])
