"""How much longer a call may wait."""

from __future__ import annotations

import time
from enum import Enum


class Own(Enum):
    """The time-out of a call that is given none."""

    OWN = "the client's own time-out"

    def __repr__(self) -> str:
        return self.name


OWN = Own.OWN

Timeout = float | Own | None
"""Seconds; ``None``: for ever; ``OWN``: the client's own."""


class Deadline:
    """The time limit of one call.

    :param seconds: the limit, from now; ``None``: there is none.
    :param message: the sentence of the :exc:`TimeoutError`.
    """

    def __init__(self, seconds: float | None, message: str) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._message = message
        self._looked = False

    def left(self) -> float | None:
        """Seconds that are left; ``None`` for ever. When it is over: 0 for one last look at what has already come.

        :raises TimeoutError: when that look was taken.
        """
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left > 0:
            return left
        if self._looked:
            raise TimeoutError(self._message)
        self._looked = True
        return 0.0
