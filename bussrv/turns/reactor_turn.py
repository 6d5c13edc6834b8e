"""The end of a reactor turn: work that is done once for all input of the turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class EndOfReactorTurn:
    """Calls once at the end of a reactor turn: when the reactor has read all input, and before it looks for more.

    :param ended: the function to call.
    :ivar is_awaited: whether there is going to be a call.
    """

    def __init__(self, ended: Callable[[], object], reactor: Any) -> None:
        self._ended = ended
        self._reactor = reactor
        self._call: Any = None
        self.is_awaited = False

    def wait(self) -> None:
        """Let there be a call."""
        if not self.is_awaited:
            self.is_awaited = True
            self._call = self._reactor.callLater(0, self._due)

    def hurry(self) -> None:
        """Call now, if there was going to be a call."""
        if self.is_awaited:
            self._call.cancel()
            self._due()

    def _due(self) -> None:
        self.is_awaited = False
        self._call = None
        self._ended()
