"""A client for programs without an event loop: the one of :mod:`bussrv.client.aio`, in a thread of its own.

It may be used by any number of threads. Its connection is looked after also while the program does something else.

::

    with connect("bus://hall:7890") as bus:
        bus.publish("tv", b"on", type="text/plain")
        with bus.subscribe("tv") as events:
            for event in events:
                ...
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from bussrv.client import aio, errors, events
from bussrv.client.aio import Answer, Backoff, Buffer, Tls
from bussrv.client.core.inbox import MAX_ITEMS
from bussrv.client.errors import *  # noqa: F403
from bussrv.client.errors import Closed
from bussrv.client.events import *  # noqa: F403
from bussrv.client.events import Gap, Request

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Answer", "Backoff", "Buffer", "Bus", "Handler", "Service", "Subscription", "Tls", "connect"]
__all__ += errors.__all__
__all__ += events.__all__

P = ParamSpec("P")
Result = TypeVar("Result")
Item = TypeVar("Item")

Handler = Callable[[Request], Answer]
"""Called in a thread of its own for each request."""


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bussrv.client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine. :returns: its result. An exception during the wait, such as a signal's, cancels it."""
        if not self._thread.is_alive():
            work.close()
            raise Closed("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class _Blocking:
    """Something of the client for asyncio, to be used with ``with``."""

    def __init__(self, loop: _Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __enter__(self) -> Self:
        self._loop.run(self._inner.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        with suppress(Closed):  # The client is closed, and so is this.
            self._loop.run(self._inner.__aexit__(*error))


def _waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, P], Result]:
    """A method of the client for asyncio, as one that blocks."""

    @wraps(method)
    def call(self: _Blocking, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._loop.run(method(self._inner, *args, **kwargs))

    return call


def _subscribing(
    method: Callable[Concatenate[aio.Bus, P], aio.Subscription[Item]],
) -> Callable[Concatenate[Bus, P], Subscription[Item]]:
    """A method that makes a subscription, as one whose subscription blocks."""

    @wraps(method)
    def call(self: Bus, /, *args: P.args, **kwargs: P.kwargs) -> Subscription[Item]:
        return Subscription(self._loop, method(self._inner, *args, **kwargs))

    return call


class Bus(_Blocking):
    """A client, to be used with ``with``. Each method is that of :class:`bussrv.client.aio.Bus`, and waits."""

    _inner: aio.Bus

    def __init__(self, bus: aio.Bus) -> None:
        super().__init__(_Loop(), bus)

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self._loop.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """See :meth:`bussrv.client.aio.Bus.close`."""
        with suppress(Closed):  # It was closed before.
            self._loop.run(self._inner.close())
            self._loop.stop()

    def run(self, work: Callable[[aio.Bus], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine with the client for asyncio, in its loop: such as many calls at the same time."""
        return self._loop.run(work(self._inner))

    @property
    def is_up(self) -> bool:
        """See :attr:`bussrv.client.aio.Bus.is_up`."""
        return self._inner.is_up

    @property
    def routing_id(self) -> str | None:
        """See :attr:`bussrv.client.aio.Bus.routing_id`."""
        return self._inner.routing_id

    drain = _waiting(aio.Bus.drain)
    publish = _waiting(aio.Bus.publish)
    flush = _waiting(aio.Bus.flush)
    send = _waiting(aio.Bus.send)
    request = _waiting(aio.Bus.request)
    subscribe = _subscribing(aio.Bus.subscribe)
    watch = _subscribing(aio.Bus.watch)
    states = _subscribing(aio.Bus.states)
    objects = _subscribing(aio.Bus.objects)

    def serve(self, name: str, handler: Handler, *, concurrency: int = 8) -> Service:
        """See :meth:`bussrv.client.aio.Bus.serve`. The handler is called in as many threads as ``concurrency``."""

        async def handle(request: Request) -> Answer:
            return await asyncio.get_running_loop().run_in_executor(threads, handler, request)

        service = self._inner.serve(name, handle, concurrency=concurrency)
        threads = ThreadPoolExecutor(concurrency, f"bussrv.client {name}")
        return Service(self._loop, service, threads)


class Subscription(_Blocking, Generic[Item]):
    """Messages in order, with the gaps: an iterator, within ``with``; see :class:`aio.Subscription`."""

    _inner: aio.Subscription[Item]

    def __init__(self, loop: _Loop, inner: aio.Subscription[Item]) -> None:
        super().__init__(loop, inner)
        self._taken: deque[Item | Gap] = deque()

    def __iter__(self) -> Iterator[Item | Gap]:
        return self

    def __next__(self) -> Item | Gap:
        if not self._taken:
            try:
                self._taken.extend(self._loop.run(self._inner.take()))
            except Closed:
                raise StopIteration from None
        return self._taken.popleft()

    def take(self, most: int = MAX_ITEMS, timeout: float | None = None) -> list[Item | Gap]:
        """See :meth:`bussrv.client.aio.Subscription.take`."""
        if self._taken:
            return [self._taken.popleft() for _ in range(min(most, len(self._taken)))]
        return self._loop.run(self._inner.take(most, timeout))

    @property
    def waiting(self) -> int:
        """See :attr:`bussrv.client.aio.Subscription.waiting`."""
        return len(self._taken) + self._inner.waiting

    @property
    def received(self) -> int:
        """See :attr:`bussrv.client.aio.Subscription.received`."""
        return self._inner.received

    @property
    def dropped(self) -> int:
        """See :attr:`bussrv.client.aio.Subscription.dropped`."""
        return self._inner.dropped


class Service(_Blocking):
    """A service of this client, within ``with``; see :class:`bussrv.client.aio.Service`."""

    _inner: aio.Service

    def __init__(self, loop: _Loop, inner: aio.Service, threads: ThreadPoolExecutor) -> None:
        super().__init__(loop, inner)
        self._threads = threads

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._threads.shutdown()

    registered = _waiting(aio.Service.registered)


def _blocking(make: Callable[P, aio.Bus]) -> Callable[P, Bus]:
    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Bus:
        return Bus(make(*args, **kwargs))

    return made


connect = _blocking(aio.connect)
"""A client with the arguments of :func:`bussrv.client.aio.connect`, to be used with ``with``."""
