"""Denials: a client is told that the policy does not allow something, a few times a second, and then in one sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bussrv.errors import NotAllowed

MOST_TOLD = 10
"""How many denials one session is told of in a second. The others are summed up at the end of that second."""

Tell = Callable[[Any, NotAllowed, dict[str, Any]], None]
"""Tells the client: given the id of the object that was denied, or ``None``, the denial, and further attributes."""


class Denials:
    """The denials of one session.

    :param tell: sends an ``error``.
    :param reactor: calls later.
    """

    def __init__(self, tell: Tell, reactor: Any) -> None:
        self._tell = tell
        self._reactor = reactor
        self._told = 0
        self._left_out = 0
        self._second: Any = None

    def add(self, object_id: Any, denial: NotAllowed) -> None:
        """Something was denied."""
        if self._second is None:
            self._second = self._reactor.callLater(1.0, self._second_is_over)
        if self._told < MOST_TOLD:
            self._told += 1
            self._tell(object_id, denial, {})
        else:
            self._left_out += 1

    def _second_is_over(self) -> None:
        left_out, self._told, self._left_out, self._second = self._left_out, 0, 0, None
        if left_out:
            message = f"the policy did not allow {left_out} further things that you asked for"
            self._tell(None, NotAllowed(message), {"suppressed": left_out})

    def end(self) -> None:
        """The session is closed."""
        if self._second is not None:
            self._second.cancel()
            self._second = None
