"""Reading the journal for a request: off the reactor's thread, one request at a time, and for a limited time.

A thread that computes without a pause would delay the reactor's thread, since only one of them runs at a time. So this
one rests as long as it works, a millisecond at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from bussrv.admin.http.answers import Problem
from bussrv.turns.threads import Threads

T = TypeVar("T")

MOST_WAITING = 20
"""How many requests may wait for the thread."""

WORK = 0.001
"""Seconds of work before a rest."""


class TooLong(Exception):
    """The reader has had its time."""


class Stopped(Exception):
    """Nobody waits for the result any more."""


class Pace:
    """The pace of one reader.

    :param seconds: after which it is told to end.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None
        self._begun = 0.0
        self._stopped = threading.Event()

    def step(self) -> bool:
        """To be called between any two small pieces of work, in the thread.

        :returns: whether the time is over.
        :raises Stopped: nobody waits any more.
        """
        now = time.monotonic()
        if self._end is None:
            self._begun, self._end = now, now + self._seconds
        worked = now - self._begun
        if worked >= WORK:
            if self._stopped.wait(worked):
                raise Stopped
            self._begun = time.monotonic()
        return now >= self._end

    def restart(self) -> None:
        """The time begins anew."""
        self._end = None

    def stop(self) -> None:
        """Nobody waits for the result any more."""
        self._stopped.set()


class Reading:
    """The thread that reads. It begins when it is needed."""

    def __init__(self, reactor: Any) -> None:
        self._thread = Threads(reactor, "bussrv-admin", 1)
        self._waiting = 0

    async def do(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that is called in the thread.

        A :class:`Pace` among its arguments is stopped when nobody waits for the result any more.

        :raises Problem: ``too-busy``.
        """
        if self._waiting >= MOST_WAITING:
            raise Problem("too-busy", headers={"Retry-After": "5"})
        self._waiting += 1
        done = self._thread(function, *arguments)
        done.addBoth(self._done)

        def stop(_: Deferred[T]) -> None:
            for each in arguments:
                if isinstance(each, Pace):
                    each.stop()

        waited: Deferred[T] = Deferred(stop)
        done.addBoth(lambda result: None if waited.called else waited.callback(result))
        return await waited

    def _done(self, result: Any) -> Any:
        self._waiting -= 1
        return result
