"""Both shells of the client as one, so that the same tests hold for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bussrv.client import aio, blocking

PATIENCE = 60.0


class Threaded:
    """Something that blocks, with the methods of its twin for asyncio: each is called in a thread."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plain, name)
        if not callable(found):
            return found
        if name in ("subscribe", "serve", "watch", "states", "objects"):
            return lambda *given, **options: Threaded(found(*given, **options))
        return lambda *given, **options: asyncio.to_thread(found, *given, **options)

    async def __aenter__(self) -> Threaded:
        await asyncio.to_thread(self._plain.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._plain.__exit__, *error)

    def __aiter__(self) -> Threaded:
        return self

    async def __anext__(self) -> Any:
        found = await asyncio.to_thread(next, self._plain, self)
        if found is self:
            raise StopAsyncIteration
        return found


def connect_aio(*addresses: Any, **options: Any) -> Any:
    """The client for asyncio."""
    return aio.connect(*addresses, **options)


def connect_blocking(*addresses: Any, **options: Any) -> Any:
    """The client that blocks."""
    return Threaded(blocking.connect(*addresses, **options))


SHELLS: dict[str, Callable[..., Any]] = {"aio": connect_aio, "blocking": connect_blocking}


def handler(connect: Callable[..., Any], answer: Callable[[Any], Any]) -> Any:
    """A handler of requests, as this shell wants it."""

    async def handle(request: Any) -> Any:
        return answer(request)

    return handle if connect is connect_aio else answer


def core_of(bus: Any) -> Any:
    """What drives the protocol of a client of either shell."""
    plain = bus._plain._inner if isinstance(bus, Threaded) else bus
    return plain._driver.core


def run(work: Any, patience: float = PATIENCE) -> Any:
    """What a coroutine returns; it must not take for ever, and leaves no task."""

    async def bounded() -> Any:
        found = await asyncio.wait_for(work, patience)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found

    return asyncio.run(bounded())
