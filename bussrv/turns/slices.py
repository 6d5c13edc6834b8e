"""Work in slices, so that a client with much work for the server does not make others wait.

*Work* is a function that may take long: it serves what one client sent, makes a long answer, or ends many sessions. It
is given a time, does what it can until then, and returns whether something is left. Work that is left waits for the
next turn of the reactor. So does new work after a turn has been long enough. Between two turns the reactor reads what
others sent.

Work that waits belongs to an address, that of the client. The addresses take turns: a thousand clients of one address
delay a client of another one by one slice. Work of one address is done in the order in which it came. A session has one
piece of work at a time, so the sessions of an address take turns as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from twisted.logger import Logger

from bussrv.turns.in_turn import InTurn

SLICES_A_TURN = 5
"""A reactor turn that has taken as long as so many slices is long enough."""

SERVER = ""
"""The address of work that the server does for itself."""

log = Logger()

Work = Callable[[float], bool]
"""Does something until about a time, in seconds of the reactor. :returns: whether something is left."""


def by_steps(steps: Iterator[object], seconds: Callable[[], float]) -> Work:
    """Work that is done step by step: each item of ``steps`` is one.

    :param seconds: the clock of the reactor.
    """

    def work(until: float) -> bool:
        return any(seconds() >= until for _ in steps)

    return work


class Slices:
    """Does work in turns, a slice at a time.

    New work is done before work that is left, because most of it is short. Each reactor turn does at least one slice of
    the work that is left, so all of it comes to its end.

    :param seconds: how long a slice is.
    :param counters: counts work that was not finished in its slice, as ``slice-over``.
    """

    def __init__(self, reactor: Any, seconds: float, counters: Counter[str]) -> None:
        self._reactor = reactor
        self._counters = counters
        self._seconds = seconds
        self._most = SLICES_A_TURN * seconds
        self._new = InTurn[Work]()
        self._left = InTurn[Work]()
        self._spent = 0.0
        self._call: Any = None

    def is_over(self, until: float) -> bool:
        """Whether a slice that was to end at ``until`` is over."""
        is_over: bool = self._reactor.seconds() >= until
        return is_over

    @property
    def is_free(self) -> bool:
        """Whether new work is done at once."""
        return not (self._new.size or self._left.size or self._spent >= self._most)

    def begin_turn(self) -> None:
        """A port begins to read what came: what was spent before does not count any more, unless work waits.

        Several ports may do so in a reactor turn, which is longer then. Without this call, what short turns have spent
        would add up, and put off work although there is time for it.
        """
        if self._call is None:
            self._spent = 0.0

    def spend(self, seconds: float) -> None:
        """So long was worked otherwise, while :attr:`is_free` said that there is time for it."""
        self._spent += seconds

    def do(self, work: Work, address: str = SERVER) -> None:
        """Do ``work``: its first slice at once, unless other work waits or the turn has been long enough.

        :param address: the client's :func:`bussrv.addresses.address_key`.
        """
        if self.is_free:
            self._slice(address, work)
        else:
            self._new.put(address, work)
            self._wait()

    def _slice(self, address: str, work: Work) -> None:
        begin = self._reactor.seconds()
        try:
            is_left = work(begin + self._seconds)
        except Exception:
            log.failure("a slice of work failed", event="slice.failed")
            is_left = False
        self._spent += max(0.0, self._reactor.seconds() - begin)
        if is_left:
            self._counters["slice-over"] += 1
            self._left.put(address, work)
            self._wait()

    def _wait(self) -> None:
        if self._call is None:
            self._call = self._reactor.callLater(0, self._next_turn)

    def _next_turn(self) -> None:
        self._call = None
        self._spent = 0.0
        new, left = self._new.size, self._left.size
        while new and self._spent < self._most:
            new -= 1
            self._slice(*self._new.take())
        while left:
            left -= 1
            self._slice(*self._left.take())
            if self._spent >= self._most:
                break
        if self._new.size or self._left.size:
            self._wait()
