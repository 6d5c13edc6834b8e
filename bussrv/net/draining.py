"""Draining a port: the server is about to stop, so its clients are told, and their sessions end one after the other.

If all sessions ended at once, all clients would come back at once, to the next server or to this one after its restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bussrv.net.session.protocol import StreamProtocol
from bussrv.turns.slices import Slices, by_steps

STEP = 0.05
"""Seconds between two looks at which sessions are to end."""

REASON = "server-stopped"

MOST_SECONDS_TO_READ = 2.0
"""A client has no longer, at the stop of the server, to read what is queued for it. The stop has to end in time: who
asked for it may kill the server after ten seconds, as containers do."""


class Drain:
    """The end of the connections of a port.

    :param connections: they are told at once, and their sessions end within ``seconds``. Whoever leaves earlier does
        not change the times of the others.
    :ivar done: fires when the session of each has ended.
    """

    def __init__(self, connections: Iterable[StreamProtocol], seconds: float, slices: Slices, reactor: Any) -> None:
        self.done: Deferred[None] = Deferred()
        self._waiting = deque(connections)
        self._count = len(self._waiting)
        self._seconds = seconds
        self._slices = slices
        self._reactor = reactor
        self._begun = reactor.seconds()
        self._slices.do(by_steps(self._tell(), reactor.seconds))
        self._look()

    def _tell(self) -> Iterator[None]:
        for each in tuple(self._waiting):
            try:
                each.server_stops(self._seconds)
            except Exception:
                each.serving_failed(Failure())
            yield

    def _look(self) -> None:
        passed = self._reactor.seconds() - self._begun
        left = 0 if passed >= self._seconds else self._count - int(self._count * passed / self._seconds)
        self._slices.do(by_steps(self._end_all_but(left), self._reactor.seconds))
        while self._waiting and self._waiting[-1].has_ended:
            self._waiting.pop()
        if self._waiting:
            self._reactor.callLater(STEP, self._look)
        else:
            self.done.callback(None)

    def _end_all_but(self, left: int) -> Iterator[None]:
        while len(self._waiting) > left:
            self._waiting.popleft().evict(REASON)
            yield
