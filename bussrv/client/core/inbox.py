"""The bounded queue of a subscription. It never loses a message silently."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, get_args

from bussrv.client.errors import BusError, Overflowed
from bussrv.client.events import Gap

Overflow = Literal["drop-oldest", "pause", "fail"]
"""The policy of a subscription for a full queue.

- ``drop-oldest``: it drops the oldest messages, and a :class:`~bussrv.client.events.Gap` says how many.
- ``pause``: the client reads no more from its connection until half of the queue is taken.
- ``fail``: the subscription ends, after the messages that wait, with :class:`~bussrv.client.errors.Overflowed`.
"""

MAX_ITEMS = 1000
MAX_BYTES = 64 << 20

Item = TypeVar("Item")


def _nothing() -> None:
    """Nobody waits."""


class Inbox(Generic[Item]):
    """Items in the order in which they came, and the gaps between them.

    :param most: the most items that wait.
    :param most_bytes: the most bytes of their payloads. One item is kept, however large it is.
    :ivar received: how many items came.
    :ivar dropped: how many of them were dropped.
    :ivar is_full: whether the connection should be read no more, because of the policy ``pause``.
    :ivar error: the reason for which nothing more comes; ``None``: more may come.
    :ivar wake: is called when something comes, or nothing more does.
    :ivar filled: is called when the inbox is full.
    :ivar relieved: is called when the inbox is full no more.
    """

    def __init__(self, most: int = MAX_ITEMS, overflow: Overflow = "drop-oldest", most_bytes: int = MAX_BYTES) -> None:
        if overflow not in get_args(Overflow):
            raise ValueError(f"overflow is one of {', '.join(get_args(Overflow))}, not {overflow!r}")
        if most < 1 or most_bytes < 1:
            raise ValueError("a queue takes at least one message and one byte")
        self.received = 0
        self.dropped = 0
        self.is_full = False
        self.error: BusError | None = None
        self.wake: Callable[[], None] = _nothing
        self.filled: Callable[[], None] = _nothing
        self.relieved: Callable[[], None] = _nothing
        self._most = most
        self._most_bytes = most_bytes
        self._overflow = overflow
        self._items: deque[Item | Gap] = deque()
        self._bytes = 0
        self._missing: Gap | None = None

    def __len__(self) -> int:
        """How many items and gaps wait."""
        return len(self._items) + (self._missing is not None)

    def put(self, item: Item, size: int) -> None:
        """Add an item.

        :param size: the bytes of its payload.
        """
        if self.error is not None:
            return
        self.received += 1
        items = self._items
        items.append(item)
        self._bytes += size
        if len(items) > self._most or self._bytes > self._most_bytes:
            self._overflowed(size)
        self.wake()

    def gap(self, reason: str, lost: int | None = None) -> None:
        """Items are missing here.

        :param lost: how many; ``None``: nobody knows, or whether any are.
        """
        last = self._items[-1] if self._items else None
        if self.error is not None or (isinstance(last, Gap) and last.lost is None):
            return
        if isinstance(last, Gap):
            lost = None if lost is None else lost + (last.lost or 0)
            self._items.pop()
        self._items.append(Gap(lost, reason))
        self.wake()

    def end(self, error: BusError) -> None:
        """Nothing more comes. Items that wait can still be taken."""
        if self.error is None:
            self.error = error
            self.wake()

    def take(self) -> Item | Gap | None:
        """The next item or gap; ``None``: there is none."""
        missing = self._missing
        if missing is not None:
            self._missing = None
            return missing
        if not self._items:
            return None
        item = self._items.popleft()
        self._bytes -= _size(item)
        if self.is_full and len(self._items) <= self._most // 2 and self._bytes <= self._most_bytes // 2:
            self.is_full = False
            self.relieved()
        return item

    def take_many(self, most: int) -> list[Item | Gap]:
        """Up to ``most`` of the next."""
        taken: list[Item | Gap] = []
        while len(taken) < most and (item := self.take()) is not None:
            taken.append(item)
        return taken

    def _is_over(self, size: int) -> bool:
        """:param size: the bytes of the last item, which is kept if no other bytes wait."""
        return len(self._items) > self._most or self._bytes > max(self._most_bytes, size)

    def _overflowed(self, size: int) -> None:
        if not self._is_over(size):
            return
        if self._overflow == "pause":
            self.is_full = True
            self.filled()
        elif self._overflow == "fail":
            self._items.pop()
            self._bytes -= size
            self.dropped += 1
            self.end(Overflowed(f"more than {self._most} messages or {self._most_bytes} bytes waited"))
        else:
            self._drop_oldest(size)

    def _drop_oldest(self, size: int) -> None:
        """Drop the oldest. A gap that is dropped with them is remembered: it says more than a number."""
        lost: int | None = 0 if self._missing is None else self._missing.lost
        reason = "overflow" if self._missing is None else self._missing.reason
        while self._is_over(size):
            oldest = self._items.popleft()
            if isinstance(oldest, Gap):
                lost = None if lost is None or oldest.lost is None else lost + oldest.lost
                reason = oldest.reason
            else:
                self._bytes -= _size(oldest)
                self.dropped += 1
                lost = None if lost is None else lost + 1
        if lost != 0:
            self._missing = Gap(lost, reason)


def _size(item: Any) -> int:
    return len(getattr(item, "payload", b""))
