"""A time-out that counts only the time in which the server waited for the client.

The server's own time, such as that of a slow disk or a long reactor turn, is not the client's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any


class Patience:
    """Runs out once, after so many seconds that it was not held.

    :param seconds: how long it lasts.
    :param ran_out: is called then.
    :param is_unserved: whether something that the client sent is still to be served.
    :param reactor: calls later.
    """

    __slots__ = (
        *("_call", "_holds", "_is_ended", "_is_unserved", "_left", "_ran_out", "_reactor", "_seconds"),
        "_since",
    )

    def __init__(
        self, seconds: float, ran_out: Callable[[], object], is_unserved: Callable[[], bool], reactor: Any
    ) -> None:
        self._seconds = self._left = seconds
        self._ran_out = ran_out
        self._is_unserved = is_unserved
        self._reactor = reactor
        self._holds = 0
        self._is_ended = False
        self._since = 0.0
        self._call: Any = None
        self._run()

    def _run(self) -> None:
        self._since = self._reactor.seconds()
        self._call = self._reactor.callLater(self._left, self._over)

    def hold(self) -> None:
        """The client waits for the server from now on. May be called several times; each has its :meth:`release`."""
        self._holds += 1
        if self._holds == 1 and self._call is not None:
            self._left = self._what_is_left()
            self._cancel()

    def release(self) -> None:
        """The server waits for the client again."""
        self._holds -= 1
        if not (self._holds or self._is_ended):
            self._run()

    async def held_for(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``, for which the client waits."""
        self.hold()
        try:
            await work
        finally:
            self.release()

    def renew(self) -> None:
        """All of it begins anew, now. That moves no timer, since it is done for each chunk of a client."""
        self._left, self._since = self._seconds, self._reactor.seconds()

    def _what_is_left(self) -> float:
        now: float = self._reactor.seconds()
        return max(0.0, self._since + self._left - now)

    def _over(self) -> None:
        left = self._what_is_left()
        if left:
            self._left = left
            self._run()
        else:
            # The reactor calls before it reads: what the client sent in time may not have been read yet.
            self._left = 0.0
            self._call = self._reactor.callLater(0, self._really_over)

    def _really_over(self) -> None:
        self._call = None
        self._left = self._what_is_left()
        if self._is_unserved() or self._left:
            self._run()
        else:
            self._ran_out()

    def end(self) -> None:
        """End the limit: it is not reached any more."""
        self._is_ended = True
        self._cancel()

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
