"""Sending in pieces, so that a large object to many sessions does not delay other clients; and sending together.

Sessions whose transports have room send a piece each, in round robin. A reactor turn sends a limited number of pieces;
between reactor turns other clients are read from and written to.

What many sessions are sent in one go is *held* until its end, and sent then, session by session. Sent one by one, every
answer would wake up another client, and take the system five times as long.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from bussrv.memory.bundle import Bundle
from bussrv.turns.reactor_turn import EndOfReactorTurn

PIECE = 128 << 10
"""The most bytes of a piece. More than a transport reads at once, so that output keeps pace with input."""

A_TURN = 2 << 20
"""The most bytes of a reactor turn. Allocating memory for them takes the system about 5 ms."""

LEAST = 8 << 10
"""The least bytes that a piece counts as: a call of the system takes time, too."""


class BacklogSender(Protocol):
    """Sends the backlog of one session.

    :ivar wants_turn: whether there is more, and room in the transport.
    """

    wants_turn: bool

    def send_piece(self) -> int:
        """Send at most ``PIECE`` bytes. :returns: how many."""


class FrameGiver(Protocol):
    """Gives one session what it is sent."""

    def give(self, bundle: Bundle) -> None:
        """Send frames after everything given before."""


class SendTurns:
    """Lets sessions send their backlogs, piece by piece in round robin.

    :param reactor: calls at the end of the reactor turn.
    :ivar is_held: whether sessions call :meth:`keep` with what they are sent.
    """

    def __init__(self, reactor: Any) -> None:
        self._waiting: deque[BacklogSender | Deferred[None]] = deque()
        self._left = A_TURN
        self._turn = EndOfReactorTurn(self._next_turn, reactor)
        self._kept: dict[FrameGiver, list[Bundle]] = {}
        self.is_held = False

    @property
    def is_busy(self) -> bool:
        """Whether sessions wait to send."""
        return bool(self._waiting)

    def serve(self, sender: BacklogSender) -> None:
        """Let a session send until its transport is full; the first piece at once if no other session waits."""
        if not self._waiting and self._left > 0 and not self._send_piece(sender):
            return
        self._waiting.append(sender)
        self._turn.wait()

    def hold(self) -> None:
        """From now on what sessions are sent is kept until :meth:`release`, for a few milliseconds."""
        self.is_held = True

    def keep(self, session: FrameGiver, bundle: Bundle) -> None:
        """Keep what a session is sent while all is held."""
        self._kept.setdefault(session, []).append(bundle)

    def give_kept(self, session: FrameGiver) -> None:
        """Give one session what is kept for it."""
        for bundle in self._kept.pop(session, ()):
            session.give(bundle)

    def release(self) -> None:
        """Give all sessions what is kept for them."""
        self.is_held = False
        kept = self._kept
        # Giving may end a session, which is given what is kept for it then.
        while kept:
            session = next(iter(kept))
            for bundle in kept.pop(session):
                session.give(bundle)

    def round(self) -> Deferred[None]:
        """:returns: fires when every session that waits now has sent a piece."""
        served: Deferred[None] = Deferred()
        self._waiting.append(served)
        self._turn.wait()
        return served

    def _send_piece(self, sender: BacklogSender) -> bool:
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
