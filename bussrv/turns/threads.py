"""Threads that compute. The reactor's thread comes first wherever both want a processor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

T = TypeVar("T")

NICENESS = 10
"""The priority of these threads, where the reactor has 0."""


class Threads:
    """A pool of threads. They begin when they are needed, and end when nothing is left to compute.

    :param reactor: one of tests, which has no threads, has a method ``compute`` instead: it takes a function and its
        arguments, and returns a Deferred.
    :param most: the most threads.
    """

    def __init__(self, reactor: Any, name: str, most: int) -> None:
        self._reactor = reactor
        self._name = name
        self._most = most
        self._pool: ThreadPool | None = None
        self._trigger: Any = None
        self._under_way = 0

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Call a function off the reactor's thread. :returns: its result."""
        compute = getattr(self._reactor, "compute", None)
        if compute is not None:
            done: Deferred[Any] = compute(function, *arguments)
            return done
        # Whoever waits may cancel it. The thread goes on.
        waited: Deferred[Any] = Deferred()
        self._under_way += 1
        computed = deferToThreadPool(self._reactor, self._pool or self._begin(), _politely, function, *arguments)
        computed.addBoth(self._done).chainDeferred(waited)
        return waited

    def _begin(self) -> ThreadPool:
        pool = self._pool = ThreadPool(0, self._most, self._name)
        # If a start fails, the reactor never runs, and its shutdown ends no thread: none may hold the process up.
        pool.threadFactory = partial(Thread, daemon=True)  # type: ignore[assignment]
        pool.start()
        self._trigger = self._reactor.addSystemEventTrigger("during", "shutdown", self._end)
        return pool

    def _done(self, result: Any) -> Any:
        self._under_way -= 1
        if self._under_way == 0 and self._pool is not None:
            self._reactor.removeSystemEventTrigger(self._trigger)
            self._end()
        return result

    def _end(self) -> None:
        """End the threads, and wait for those that compute."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()


def _politely(function: Callable[..., T], *arguments: Any) -> T:
    # On Linux threads have priorities of their own, and 0 is the calling one.
    if sys.platform == "linux" and os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    return function(*arguments)
