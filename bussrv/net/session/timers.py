"""The timers of one session: what it waits for, and what it does again and again. All of them end with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from bussrv.net.transport.patience import Patience


class TimedConnection(Protocol):
    """The connection, as far as its timers need it."""

    reactor: Any

    def is_unserved(self) -> bool:
        """Whether something that the client sent is still to be served: then the client is not late."""

    def is_late(self, reason: str) -> None:
        """The client did not send what was expected: its session ends for ``reason``."""


class Timers:
    """The timers. The connection is an argument: so the two need no collector to be freed."""

    __slots__ = ("_calls", "_patience")

    def __init__(self) -> None:
        self._patience: Patience | None = None
        self._calls: list[Any] | None = None

    def expect(self, connection: TimedConnection, seconds: float, reason: str) -> None:
        """Wait so many seconds for the client, then end the session for ``reason``; 0: wait for nothing."""
        self._expect_nothing()
        if seconds:
            late = partial(connection.is_late, reason)
            self._patience = Patience(seconds, late, connection.is_unserved, connection.reactor)

    def _expect_nothing(self) -> None:
        patience, self._patience = self._patience, None
        if patience is not None:
            patience.end()

    def renew(self) -> None:
        """Begin the wait anew."""
        if self._patience is not None:
            self._patience.renew()

    def repeat(self, connection: TimedConnection, seconds: float, call: Callable[[], object]) -> None:
        """Call now, and again and again."""
        self._calls = self._calls or []
        self._calls.append(None)
        self._repeat(self._calls, len(self._calls) - 1, connection.reactor, seconds, call)

    def _repeat(self, calls: list[Any], place: int, reactor: Any, seconds: float, call: Callable[[], object]) -> None:
        calls[place] = reactor.callLater(seconds, self._repeat, calls, place, reactor, seconds, call)
        call()

    def end(self) -> None:
        """The session is closed."""
        self._expect_nothing()
        calls, self._calls = self._calls or [], None
        for each in calls:
            if each.active():
                each.cancel()
