"""Sending in pieces, so that a large object to many sessions does not delay other clients.

Sessions whose transports have room send a piece each, in round robin. A reactor turn sends a limited number of pieces;
between reactor turns other clients are read from and written to.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from bussrv.reactor_turn import EndOfReactorTurn

PIECE = 128 << 10
"""The most bytes of a piece. More than a transport reads at once, so that output keeps pace with input."""

A_TURN = 2 << 20
"""The most bytes of a reactor turn. Allocating memory for them takes the system about 5 ms."""

LEAST = 8 << 10
"""The least bytes that a piece counts as: a call of the system takes time, too."""


class Sender(Protocol):
    """Sends the backlog of one session.

    :ivar wants_turn: whether there is more, and room in the transport.
    """

    wants_turn: bool

    def send_piece(self) -> int:
        """Send at most ``PIECE`` bytes. :returns: how many."""


class Outflow:
    """Lets sessions send their backlogs, piece by piece in round robin.

    :param reactor: calls at the end of the reactor turn.
    """

    def __init__(self, reactor: Any) -> None:
        self._waiting: deque[Sender | Deferred[None]] = deque()
        self._left = A_TURN
        self._turn = EndOfReactorTurn(self._next_turn, reactor)

    @property
    def is_busy(self) -> bool:
        """Whether sessions wait to send."""
        return bool(self._waiting)

    def serve(self, sender: Sender) -> None:
        """Let a session send until its transport is full; the first piece at once if no other session waits."""
        if not self._waiting and self._left > 0 and not self._send_piece(sender):
            return
        self._waiting.append(sender)
        self._turn.wait()

    def round(self) -> Deferred[None]:
        """:returns: fires when every session that waits now has sent a piece."""
        served: Deferred[None] = Deferred()
        self._waiting.append(served)
        self._turn.wait()
        return served

    def _send_piece(self, sender: Sender) -> bool:
        self._left -= max(LEAST, sender.send_piece())
        self._turn.wait()
        return sender.wants_turn

    def _next_turn(self) -> None:
        self._left = A_TURN
        while self._waiting and self._left > 0:
            first = self._waiting.popleft()
            if isinstance(first, Deferred):
                first.callback(None)
            elif self._send_piece(first):
                self._waiting.append(first)
        if self._waiting:
            self._turn.wait()
