"""Connections that are lost: thousands at once, for example if a switch starts anew.

The end of each takes calls of the system, and the parts of the connection let go of what they hold. A few are ended in
each turn of the reactor, so that clients are served in between. Meanwhile the others are neither read nor written to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from bussrv.turns.reactor_turn import EndOfReactorTurn

MOST_LOST = 32
"""The most connections of a port that are ended in one turn of the reactor."""


class Losses:
    """Ends lost connections of a port, some in each turn of the reactor, in the order in which they were lost."""

    def __init__(self, reactor: Any) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._left = MOST_LOST
        self._turn = EndOfReactorTurn(self._next_turn, reactor)

    @property
    def is_busy(self) -> bool:
        """Whether no other connection is ended in this turn."""
        return not self._left

    def lose(self, end: Callable[[], None]) -> None:
        """A connection is lost: call ``end`` now or in a later turn."""
        self._turn.wait()
        if self._left and not self._waiting:
            self._left -= 1
            end()
        else:
            self._waiting.append(end)

    def _next_turn(self) -> None:
        self._left = MOST_LOST
        while self._waiting and self._left:
            self._left -= 1
            self._waiting.popleft()()
        if self._waiting or self._left < MOST_LOST:
            self._turn.wait()
