"""Things that wait, in turns over the addresses that they are for: a thousand of one address delay another by one."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class InTurn(Generic[Item]):
    """What waits. Things of one address are taken in the order in which they came.

    :ivar size: how many they are.
    """

    def __init__(self) -> None:
        self.size = 0
        self._by_address: OrderedDict[str, deque[Item]] = OrderedDict()

    def put(self, address: str, item: Item) -> None:
        """Something waits for an address."""
        self.size += 1
        self._by_address.setdefault(address, deque()).append(item)

    def take(self) -> tuple[str, Item]:
        """The next one, and its address."""
        self.size -= 1
        address, waiting = next(iter(self._by_address.items()))
        item = waiting.popleft()
        if waiting:
            self._by_address.move_to_end(address)
        else:
            del self._by_address[address]
        return address, item
