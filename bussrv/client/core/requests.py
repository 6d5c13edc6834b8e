"""The answers that a core waits for."""

from __future__ import annotations

import secrets
from heapq import heappop, heappush

from bussrv.client.core.base import OnAnswer
from bussrv.client.errors import BusError, Lost, TimedOut
from bussrv.client.events import Reply


class Questions:
    """Matches answers by ``in-reply-to``."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[OnAnswer, str, int]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._prefix = secrets.token_hex(6)
        self._made = 0

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def new_id(self) -> str:
        """An id that no other client uses."""
        self._made += 1
        return f"{self._prefix}-{self._made:x}"

    def add(self, identifier: str, done: OnAnswer, what: str, number: int, deadline: float | None) -> None:
        """Wait for an answer.

        :param what: was asked, for the sentence of an error.
        :param number: of what was asked, among all that was sent.
        :param deadline: when to wait no more; ``None``: never.
        """
        self._open[identifier] = (done, what, number)
        if deadline is not None:
            heappush(self._deadlines, (deadline, identifier))

    def forget(self, identifier: str) -> None:
        """Nobody waits for it any more."""
        self._open.pop(identifier, None)

    def answer(self, identifier: object, answer: Reply | BusError) -> bool:
        """:returns: whether somebody waited for it."""
        question = self._open.pop(identifier, None) if isinstance(identifier, str) else None
        if question is not None:
            question[0](answer)
        return question is not None

    def next_deadline(self) -> float | None:
        """The first deadline of what is still open."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self._open:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def expire(self, now: float) -> None:
        """Tell those whose time is over."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            done, what, _ = self._open.pop(heappop(self._deadlines)[1])
            done(TimedOut(f"no answer to {what} came in time"))

    def lose(self, error: BusError, sent: int) -> None:
        """The connection is gone: nobody will answer.

        :param sent: the number of the last that left this program.
        """
        self._deadlines.clear()
        for identifier in list(self._open):
            question = self._open.pop(identifier, None)
            if question is None:
                continue  # It was forgotten by one that was told before.
            done, what, number = question
            whether = "may have been done" if number <= sent else "was not sent"
            done(Lost(error.reason, f"{what} {whether}: {error.message}", maybe_done=number <= sent))
