"""When what connections sent is passed on: chunk by chunk, or once for all that were read in a turn of the reactor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bussrv.turn import EndOfTurn

MOST_PUT_OFF = 128 << 10
"""The most bytes that are read before something is sent: what is collected is held in memory, and somebody waits."""


class Turns:
    """A connection that is alone in sending is served at once: nothing is gained by waiting for others.

    When another one has sent since, a turn is likely to read both, and what came of them is sent at its end, in one
    piece to each receiver.

    :param flush: sends what was collected.
    :param reactor: calls at the end of the turn.
    """

    def __init__(self, flush: Callable[[], None], reactor: Any) -> None:
        self._flush = flush
        self._end = EndOfTurn(self._send, reactor)
        self._latest = ""
        self._size = 0

    def read(self, session_id: str, size: int) -> None:
        """A session sent a chunk of ``size`` bytes, and what came of it was collected."""
        is_alone = session_id == self._latest and not self._end.is_awaited
        self._latest = session_id
        self._size += size
        if is_alone or self._size > MOST_PUT_OFF:
            self._send()
        else:
            self._end.wait()

    def wait(self) -> None:
        """Something was collected, whoever sent it: it is sent at the end of the turn."""
        self._end.wait()

    def _send(self) -> None:
        self._size = 0
        self._flush()
