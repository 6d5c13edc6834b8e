"""The generation of the audience: how long remembered plans are right; see :mod:`bussrv.bus.routing.audience`. Pure."""

from __future__ import annotations

from typing import Any


class Generation:
    """Ends whenever a group or a link comes or goes, or has other members, permissions or interests.

    :ivar number: how many have ended.
    """

    def __init__(self) -> None:
        self.number = 0
        self._caches: list[dict[Any, Any]] = []

    def cache(self) -> dict[Any, Any]:
        """A dictionary for plans. It is emptied when a generation ends, so nothing of an ended session stays in it."""
        made: dict[Any, Any] = {}
        self._caches.append(made)
        return made

    def end(self) -> None:
        """Plans that were made before are not right any more."""
        self.number += 1
        for each in self._caches:
            each.clear()
