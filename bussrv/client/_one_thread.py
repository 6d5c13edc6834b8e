"""One thread at a time may use a client: two at once would take each other's events, and mix up the bytes of TLS."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def by_one_thread(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Let only one thread at a time call methods like this one of a client, which has a reentrant lock ``_used``.

    :raises RuntimeError: another thread is in such a method.
    """

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        used: threading.RLock = self._used
        if not used.acquire(blocking=False):
            name, kind = method.__name__.lstrip("_"), type(self).__name__
            raise RuntimeError(f"{name}: another thread uses this {kind}; give each thread a client of its own")
        try:
            return method(self, *args, **kwargs)
        finally:
            used.release()

    return call
