"""How many there are of each key, and which key has most: found without looking at all of them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Tally(Generic[Key]):
    """Counts by key; a key without any takes no room."""

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        self._keys: dict[int, OrderedDict[Key, None]] = {}
        self._most = 0

    def count(self, key: Key) -> int:
        """How many there are of ``key``."""
        return self._counts.get(key, 0)

    def fullest(self) -> Key:
        """The key with the highest count. If there are several, the one that has had its count for longest.

        :raises LookupError: all counts are 0.
        """
        return next(iter(self._keys[self._most]))

    def add(self, key: Key) -> None:
        """There is one more of ``key``."""
        self._move(key, self.count(key) + 1)

    def remove(self, key: Key) -> None:
        """There is one less of ``key``."""
        self._move(key, self._counts[key] - 1)

    def _move(self, key: Key, count: int) -> None:
        before = self._counts.pop(key, 0)
        if before:
            self._keys[before].pop(key)
            if not self._keys[before]:
                del self._keys[before]
        if count:
            self._counts[key] = count
            self._keys.setdefault(count, OrderedDict())[key] = None
        # Counts change by one, so that the most does, too.
        if count > self._most or (before == self._most and before not in self._keys):
            self._most = count
