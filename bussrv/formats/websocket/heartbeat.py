"""Signs of life of the clients of WebSocket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Heartbeat:
    """A client that has sent nothing for a while is asked for a sign of life, and ends if it gives none.

    :param seconds: between two looks; 0: nobody is asked any more.
    :param heard: how many bytes the client has sent so far.
    :param ask: asks it for a sign of life. :returns: whether it was asked; otherwise it has time until the next look.
    :param silent: called if it gave none until the look after that.
    :param reactor: calls later.
    """

    def __init__(
        self,
        seconds: Callable[[], float],
        heard: Callable[[], int],
        ask: Callable[[], bool],
        silent: Callable[[], None],
        reactor: Any,
    ) -> None:
        self._seconds = seconds
        self._heard = heard
        self._ask = ask
        self._silent = silent
        self._reactor = reactor
        self._heard_before = heard()
        self._was_asked = False
        self._call: Any = None
        self._wait()

    def _wait(self) -> None:
        seconds = self._seconds()
        self._call = self._reactor.callLater(seconds, self._look) if seconds else None

    def _look(self) -> None:
        if self._was_asked and self._heard() == self._heard_before:
            # The reactor calls before it reads: the answer may be there already.
            self._call = self._reactor.callLater(0, self._look_again)
            return
        heard, before = self._heard(), self._heard_before
        self._heard_before = heard
        self._was_asked = heard == before and self._ask()
        self._wait()

    def _look_again(self) -> None:
        if self._heard() == self._heard_before:
            self._call = None
            self._silent()
        else:
            self._look()

    def end(self) -> None:
        """Stop looking at the connection."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
