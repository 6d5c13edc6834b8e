"""What has to be done to take changes in memory back, when those of the file are not committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class UndoLog:
    """Calls that take changes back, the last one first."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def note(self, call: Callable[..., object], *arguments: Any) -> None:
        """A change was made; this call takes it back."""
        self._calls.append((call, arguments))

    def mark(self) -> int:
        """The present state, for :meth:`back_to`."""
        return len(self._calls)

    def back_to(self, mark: int) -> None:
        """Take back what was changed since."""
        while len(self._calls) > mark:
            call, arguments = self._calls.pop()
            call(*arguments)

    def keep(self) -> None:
        """Let the changes stand."""
        self._calls.clear()
