"""Objects that came over links lately, so that none is delivered twice, however servers are linked. Pure."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bussrv.compiled import SPEEDUPS
from bussrv.wire.objects import BusObject

if TYPE_CHECKING:
    from bussrv import _speedups


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


class CompiledSeen:
    """The same in the compiled module, which looks objects up by itself, too.

    :ivar table: knows ids by the text that they have as JSON.
    """

    def __init__(self, capacity: int) -> None:
        assert SPEEDUPS is not None
        self.table: _speedups.Seen = SPEEDUPS.Seen(secrets.token_bytes(16), capacity)

    def __len__(self) -> int:
        return self.table.number

    @property
    def capacity(self) -> int:
        """How many are remembered; the oldest are forgotten first."""
        return self.table.capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self.table.capacity = capacity

    def add(self, origin: int, object_id: Any) -> bool:
        """Remember an object; see :meth:`Seen.add`."""
        return self.table.add(origin, _text_of(object_id))

    def new_of(self, origin: int, objs: list[BusObject]) -> list[BusObject]:
        """Remember some objects; see :meth:`Seen.new_of`."""
        add = self.table.add
        return [obj for obj in objs if add(origin, _text_of(obj.head.id))]


def _text_of(object_id: Any) -> bytes:
    """A text that no other id has: of a string without escapes, or an integer, the one that it has as JSON."""
    if type(object_id) is str:
        return b'"%b"' % object_id.encode()
    if type(object_id) is int:
        return b"%d" % object_id
    return f"{type(object_id).__name__} {object_id + 0!r}".encode()


def newest(capacity: int) -> Seen | CompiledSeen:
    """Remembers so many objects, in the compiled module if it is there."""
    return Seen(capacity) if SPEEDUPS is None else CompiledSeen(capacity)
