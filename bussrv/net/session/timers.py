"""The timers of one session: what it waits for, and what it does again and again. All of them end with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from bussrv.net.transport.patience import Patience


class Timers:
    """The timers.

    :param end: ends the session for a reason.
    :param is_unserved: whether something that the client sent is still to be served: then the client is not late.
    :param reactor: calls later.
    :param counters: count the ends, by their reasons.
    """

    __slots__ = ("_calls", "_counters", "_end", "_is_unserved", "_patience", "_reactor")

    def __init__(
        self,
        end: Callable[[str], object],
        is_unserved: Callable[[], bool],
        reactor: Any,
        counters: Counter[str],
    ) -> None:
        self._end, self._is_unserved, self._reactor, self._counters = end, is_unserved, reactor, counters
        self._patience: Patience | None = None
        self._calls: dict[int, Any] = {}

    def expect(self, seconds: float, reason: str) -> None:
        """Wait so many seconds for the client, then end the session for ``reason``; 0: wait for nothing."""
        if self._patience is not None:
            self._patience.end()
        self._patience = (
            Patience(seconds, partial(self._late, reason), self._is_unserved, self._reactor) if seconds else None
        )

    def _late(self, reason: str) -> None:
        self._counters[reason] += 1
        self._end(reason)

    def renew(self) -> None:
        """Begin the wait anew."""
        if self._patience is not None:
            self._patience.renew()

    def repeat(self, seconds: float, call: Callable[[], object]) -> None:
        """Call now, and again and again."""
        self._repeat(len(self._calls), seconds, call)

    def _repeat(self, number: int, seconds: float, call: Callable[[], object]) -> None:
        self._calls[number] = self._reactor.callLater(seconds, self._repeat, number, seconds, call)
        call()

    def end(self) -> None:
        """The session is closed."""
        self.expect(0, "")
        calls, self._calls = self._calls, {}
        for each in calls.values():
            if each.active():
                each.cancel()
