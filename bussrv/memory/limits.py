"""Memory held for clients: a total over all sessions, and the session that ends if it is too much. Pure.

A chunk that several sessions wait for is one object in memory: it counts once in the total, and in full for the address
of each session. Beyond the limit, the address that holds most loses a session: the one that has gone longest without
releasing anything.

A session gives up in one step, however many chunks it waits for: thousands of sessions may do so at once, for example
if a network is down. So a chunk notices by itself that nobody waits for it any more, and the references of a session
are let go of in slices.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator

from msgspec import Struct

CHUNK_COST = 200
"""Bytes that a chunk costs in addition to its own."""

HOLD_COST = 9
"""Bytes that a chunk costs for each session that waits for it: a reference, and its share of a block of references."""


class Chunk(Struct, gc=False, eq=False):
    """Bytes that sessions wait for. It counts in the total from the first :meth:`HeldMemory.hold` until it is gone.

    :ivar data: the bytes.
    :ivar holdings: count it; ``None``: nobody holds it yet.
    """

    data: bytes
    holdings: MemoryLimit | None = None

    def __del__(self) -> None:
        """Nobody waits for it any more."""
        if self.holdings is not None:
            self.holdings.total -= len(self.data) + CHUNK_COST


class KnownChunk(Chunk, gc=True, weakref=True, eq=False):
    """A chunk that something else may know of without holding it. The garbage collector looks at it."""


class HeldMemory:
    """The memory held for one session; made by :meth:`MemoryLimit.open`.

    :param give_up: releases everything, and ends the session.
    :ivar size: the bytes that count for its address.
    """

    __slots__ = ("_count", "_holdings", "address", "give_up", "size")

    def __init__(self, holdings: MemoryLimit, address: str, give_up: Callable[[], None]) -> None:
        self._holdings = holdings
        self._count = 0
        self.address = address
        self.give_up = give_up
        self.size = 0

    def resize(self, size: int) -> None:
        """Hold so many bytes that no other session holds. Do not mix with :meth:`hold`."""
        if size != self.size:
            self._holdings.change(self, size - self.size, size - self.size)

    def hold(self, chunk: Chunk) -> None:
        """Hold ``chunk``, too; other sessions may hold it as well. One chunk may be held several times."""
        holdings = self._holdings
        size = len(chunk.data)
        if chunk.holdings is None:
            chunk.holdings = holdings
            holdings.total += size + CHUNK_COST
        self._count += 1
        holdings.change(self, size + HOLD_COST, HOLD_COST)

    def release(self, chunk: Chunk) -> None:
        """Release ``chunk`` once. The caller lets go of it."""
        self._count -= 1
        self._holdings.change(self, -len(chunk.data) - HOLD_COST, -HOLD_COST)

    def release_all(self, letting_go: Iterator[None]) -> None:
        """Release everything that is held.

        :param letting_go: lets go of a few chunks at each step. Until its end they stay in memory, and in the total.
        """
        count, self._count = self._count, 0
        self._holdings.change(self, -self.size, -HOLD_COST * count)
        self._holdings.let_go(letting_go)


class MemoryLimit:
    """The memory held for all sessions.

    :param most: the most bytes. Beyond it, sessions give up one after the other until the total is within the limit.
    :param do: does work that has such steps, some in each slice; begins when nothing is being sent.
    :ivar total: the bytes of all sessions; shared ones count once.
    """

    def __init__(self, most: int, do: Callable[[Iterator[None]], object]) -> None:
        self.most = most
        self.total = 0
        self._do = do
        self._by_address: dict[str, OrderedDict[HeldMemory, None]] = {}
        self._sizes: Counter[str] = Counter()
        self._letting_go: deque[Iterator[None]] = deque()
        self._is_relieving = False

    def open(self, address: str, give_up: Callable[[], None]) -> HeldMemory:
        """A holding for a session. It needs no closing: one that holds nothing is not remembered.

        :param address: the key that it is counted by.
        """
        return HeldMemory(self, address, give_up)

    def change(self, holding: HeldMemory, size: int, total: int) -> None:
        """Count a difference for one session: ``size`` for its address, and ``total`` in all."""
        self.total += total
        holding.size += size
        address = holding.address
        self._sizes[address] += size
        holders = self._by_address.setdefault(address, OrderedDict())
        holders.setdefault(holding)
        if size > 0:
            if self.total > self.most:
                self._relieve()
        elif holding.size:
            holders.move_to_end(holding)
        else:
            self._forget(holding)

    def let_go(self, steps: Iterator[None]) -> None:
        """Let go of chunks, some at each step."""
        self._letting_go.append(steps)
        self._relieve()

    def _relieve(self) -> None:
        if not self._is_relieving:
            self._is_relieving = True
            self._do(self._relief())

    def _relief(self) -> Iterator[None]:
        """Let go of what was given up. Only if the total is too much without that, let a further session give up."""
        while True:
            if self._letting_go:
                steps = self._letting_go.popleft()
                yield from steps
            elif self.total > self.most and self._by_address:
                self._give_up_one()
            else:
                break
            yield
        self._is_relieving = False

    def _give_up_one(self) -> None:
        address = max(self._by_address, key=self._sizes.__getitem__)
        stalled = next(iter(self._by_address[address]))
        stalled.give_up()
        self._forget(stalled)

    def _forget(self, holding: HeldMemory) -> None:
        holders = self._by_address.get(holding.address, OrderedDict())
        holders.pop(holding, None)
        if not holders:
            self._by_address.pop(holding.address, None)
            self._sizes.pop(holding.address, None)
