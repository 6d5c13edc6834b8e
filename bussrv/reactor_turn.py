"""The end of a reactor turn: work that is done once for all input of the turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class EndOfReactorTurn:
    """Calls once at the end of a reactor turn: when the reactor has read all input, and before it looks for more.

    :param ended: the function to call.
    """

    def __init__(self, ended: Callable[[], None], reactor: Any) -> None:
        self._ended = ended
        self._reactor = reactor
        self._call: Any = None

    @property
    def is_awaited(self) -> bool:
        """Whether there is going to be a call."""
        return self._call is not None

    def wait(self) -> None:
        """Let there be a call."""
        if self._call is None:
            self._call = self._reactor.callLater(0, self._due)

    def hurry(self) -> None:
        """Call now, if there was going to be a call."""
        if self._call is not None:
            self._call.cancel()
            self._due()

    def _due(self) -> None:
        self._call = None
        self._ended()
