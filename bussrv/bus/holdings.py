"""Memory held for clients: a total over all sessions, and the session that ends if it is too much. Pure.

A chunk that several sessions wait for is one object in memory: it counts once in the total, and in full for the address
of each session. Beyond the limit, the address that holds most loses a session: the one that has gone longest without
releasing anything.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

CHUNK_COST = 200
"""Bytes that a chunk costs in addition to its own."""

HOLD_COST = 16
"""Bytes that a chunk costs for each session that waits for it."""


class Holding:
    """The memory held for one session; made by :meth:`Holdings.open`.

    :param give_up: releases everything, and ends the session.
    :ivar size: the bytes that count for its address.
    """

    __slots__ = ("_holdings", "address", "give_up", "size")

    def __init__(self, holdings: Holdings, address: str, give_up: Callable[[], None]) -> None:
        self._holdings = holdings
        self.address = address
        self.give_up = give_up
        self.size = 0

    def resize(self, size: int) -> None:
        """Hold so many bytes that no other session holds. Do not mix with :meth:`hold`."""
        if size != self.size:
            self._holdings.change(self, size - self.size, size - self.size)

    def hold(self, chunk: bytes) -> None:
        """Hold ``chunk``, too; other sessions may hold it as well. One chunk may be held several times."""
        sharers = self._holdings.sharers
        sharers[id(chunk)] += 1
        alone = len(chunk) + CHUNK_COST if sharers[id(chunk)] == 1 else 0
        self._holdings.change(self, len(chunk) + HOLD_COST, alone + HOLD_COST)

    def release(self, chunk: bytes) -> None:
        """Release ``chunk`` once."""
        sharers = self._holdings.sharers
        sharers[id(chunk)] -= 1
        alone = 0
        if not sharers[id(chunk)]:
            del sharers[id(chunk)]
            alone = len(chunk) + CHUNK_COST
        self._holdings.change(self, -len(chunk) - HOLD_COST, -alone - HOLD_COST)


class Holdings:
    """The memory held for all sessions.

    :param most: the most bytes. Beyond it, sessions give up one after the other until the total is within the limit.
    :ivar total: the bytes of all sessions; shared ones count once.
    :ivar sharers: how often each chunk is held, by its ``id()``; its holders keep it in memory.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0
        self.sharers: Counter[int] = Counter()
        self._by_address: dict[str, OrderedDict[Holding, None]] = {}
        self._sizes: Counter[str] = Counter()

    def open(self, address: str, give_up: Callable[[], None]) -> Holding:
        """A holding for a session. It needs no closing: one that holds nothing is not remembered.

        :param address: the key that it is counted by.
        """
        return Holding(self, address, give_up)

    def change(self, holding: Holding, size: int, total: int) -> None:
        """Count a difference for one session: ``size`` for its address, and ``total`` in all."""
        self.total += total
        holding.size += size
        address = holding.address
        self._sizes[address] += size
        holders = self._by_address.setdefault(address, OrderedDict())
        holders.setdefault(holding)
        if size > 0:
            while self.total > self.most and self._by_address:
                self._relieve()
        elif holding.size:
            holders.move_to_end(holding)
        else:
            self._forget(holding)

    def _relieve(self) -> None:
        address = max(self._by_address, key=self._sizes.__getitem__)
        stalled = next(iter(self._by_address[address]))
        stalled.give_up()
        self._forget(stalled)

    def _forget(self, holding: Holding) -> None:
        holders = self._by_address.get(holding.address, OrderedDict())
        holders.pop(holding, None)
        if not holders:
            self._by_address.pop(holding.address, None)
            self._sizes.pop(holding.address, None)
