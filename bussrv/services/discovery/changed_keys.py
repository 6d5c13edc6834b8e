"""Things that changed, looked at together and in slices: each once, however often it changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from bussrv.plugin import Slices, by_steps

PAUSE = 0.1
"""Seconds from the first change until it is looked at, with all others until then."""

Key = TypeVar("Key", bound=Hashable)


class ChangedKeys(Generic[Key]):
    """The keys of things that changed.

    :param look: looks at one, in steps, between which others are served.
    """

    def __init__(self, look: Callable[[Key], Iterator[None]], slices: Slices, reactor: Any) -> None:
        self._look = look
        self._slices = slices
        self._reactor = reactor
        self._keys: dict[Key, None] = {}
        self._is_begun = False

    def __len__(self) -> int:
        """How many are not looked at yet."""
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        """Those."""
        return iter(self._keys)

    def add(self, key: Key) -> None:
        """A thing changed."""
        self._keys[key] = None
        if not self._is_begun:
            self._is_begun = True
            self._reactor.callLater(PAUSE, self._begin)

    def clear(self) -> None:
        """Look at nothing of what changed so far."""
        self._keys.clear()

    def _begin(self) -> None:
        self._slices.do(by_steps(self._steps(), self._reactor.seconds))

    def _steps(self) -> Iterator[None]:
        try:
            while self._keys:
                key = next(iter(self._keys))
                del self._keys[key]
                yield from self._look(key)
                yield
        finally:
            self._is_begun = False
