"""How long sessions have been open, by the monotonic clock, so that setting the wall clock does not change it."""

from __future__ import annotations

from bussrv.registry.state.session import Session
from bussrv.turns.clock import Clock


class Lifetimes:
    """The times at which the sessions of this boot were opened, in microseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened: dict[str, int] = {}

    def begin(self, session_id: str, mono: int) -> None:
        """Note, or correct, that a session was opened at ``mono``."""
        self._opened[session_id] = mono

    def end(self, session: Session) -> int:
        """Forget a session that is closed now.

        :returns: how long it was open. For a session of an earlier boot the wall clock decides; 0 if that went back
            beyond the opening.
        """
        opened = self._opened.pop(session.id, None)
        if opened is None:
            return max(0, self._clock.utc() - session.opened)
        return self._clock.mono() - opened
