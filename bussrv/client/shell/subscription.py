"""Subscriptions of programs with an event loop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar

from bussrv.client.core.inbox import MAX_ITEMS, Inbox
from bussrv.client.errors import Closed
from bussrv.client.events import Gap

Item = TypeVar("Item")


class Subscription(Generic[Item]):
    """What comes, in order, with the gaps: an asynchronous iterator, within ``async with``.

    A cancelled call takes nothing. Several tasks may take from one subscription.
    """

    def __init__(self, inbox: Inbox[Item], subscribed: AbstractAsyncContextManager[None]) -> None:
        self._inbox = inbox
        self._subscribed = subscribed
        self._something = asyncio.Event()
        self._is_entered = False
        inbox.wake = self._something.set

    async def __aenter__(self) -> Subscription[Item]:
        await self._subscribed.__aenter__()
        self._is_entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._subscribed.__aexit__(kind, error, trace)
        self._inbox.end(Closed("the subscription is closed"))

    def __aiter__(self) -> Subscription[Item]:
        return self

    async def __anext__(self) -> Item | Gap:
        """The next message or gap.

        :raises BusError: nothing more comes: the server refuses the subscription, or the queue overflowed with
            ``overflow="fail"``, or the client gave up to reconnect. If the program has closed it, the iteration ends.
        """
        while (item := self._inbox.take()) is None:
            if self._inbox.error is not None:
                if isinstance(self._inbox.error, Closed):
                    raise StopAsyncIteration
                raise self._inbox.error
            self._something.clear()
            await self._next()
        return item

    async def take(self, most: int = MAX_ITEMS, timeout: float | None = None) -> list[Item | Gap]:
        """Up to ``most`` messages and gaps at once: those that wait, or the first that come.

        :param timeout: the limit in seconds for the first of them; ``None``: there is none.
        :returns: none if none came in time.
        :raises BusError: as the iteration does; also if the program has closed it.
        """
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        # Another task may be faster.
        while not len(self._inbox):
            if self._inbox.error is not None:
                raise self._inbox.error
            self._something.clear()
            try:
                await asyncio.wait_for(self._next(), None if end is None else end - loop.time())
            except asyncio.TimeoutError:
                return []
        return self._inbox.take_many(most)

    @property
    def waiting(self) -> int:
        """How many messages and gaps wait to be taken."""
        return len(self._inbox)

    @property
    def received(self) -> int:
        """How many messages came."""
        return self._inbox.received

    @property
    def dropped(self) -> int:
        """How many of them were dropped because the queue was full."""
        return self._inbox.dropped

    async def _next(self) -> None:
        """Return when something has come."""
        if not self._is_entered:
            raise RuntimeError("a subscription begins when it is entered: [async] with bus.subscribe(...) as events")
        await self._something.wait()
