"""What durable sessions write in one turn of the reactor: one change of the spool, all of it or nothing.

So a message of QoS 2 that was taken and the queues that it was put into are on the disk together: after a crash its
publisher sends it again, and it goes into no queue twice, or it had never come.

Publishers are answered when everything that was published before has reached the queues, and these are durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.plugin import Append, Change, EndOfReactorTurn, IBus, Put, Written, by_steps

MOST_UNSETTLED = 16 << 20
"""While more bytes of messages are not durable, each publisher is answered before its next message is taken."""

RETRY = 1.0
"""After so many seconds a change that failed is tried again, if it has to be made."""

log = Logger()

Taker = Callable[[int], object]
"""Is told the number of an entry that is durable; 0: it was dropped, or could not be written."""


class _Round(Struct, eq=False):
    """The changes of one turn, and who is told of them. The spool's waiter.

    :ivar takers: who is told of each entry, in order.
    :ivar waiting: who is told of everything.
    :ivar size: the bytes of the messages in it.
    :ivar followers: later rounds without changes, or that were refused at once: they are told after this one.
    """

    rounds: Rounds
    changes: list[Change] = []
    takers: list[Taker] = []
    waiting: list[Deferred[None]] = []
    numbers: tuple[int, ...] = ()
    failure: Exception | None = None
    size: int = 0
    followers: list[_Round] = []

    def callback(self, result: Written, /) -> None:
        """They are durable."""
        self.numbers = result.numbers
        self.rounds.settled(self)

    def errback(self, fail: Exception, /) -> None:
        """They were not made."""
        self.numbers, self.failure = (0,) * len(self.takers), fail
        self.rounds.settled(self)


class Rounds:
    """The rounds of one server.

    :ivar is_needed: whether there are durable sessions, so that publishers have to wait.
    """

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self.is_needed = False
        self._bus = bus
        self._reactor = reactor
        self._turn = EndOfReactorTurn(self._submit, reactor)
        self._round = _Round(self)
        self._unsettled: list[_Round] = []  # those that the spool has not answered, in order
        self._size = 0  # the bytes of messages that are not durable
        self._told: deque[_Round] = deque()
        self._is_telling = self._has_complained = False

    @property
    def are_many(self) -> bool:
        """Whether so many messages are not durable that publishers have to wait."""
        return self._size >= MOST_UNSETTLED

    def append(self, entry: Append, taker: Taker) -> None:
        """Add an entry in this round."""
        self._size += len(entry.payload)
        self._round.size += len(entry.payload)
        self._round.changes.append(entry)
        self._round.takers.append(taker)
        self._turn.wait()

    def change(self, *changes: Change) -> None:
        """Make changes in this round."""
        self._round.changes += changes
        self._round.takers += [_nobody for each in changes if isinstance(each, (Append, Put))]
        self._turn.wait()

    def durable(self) -> Deferred[None]:
        """:returns: fires when this round is durable, with everything that was published until now; fails with a
        :class:`bussrv.errors.Refused`.
        """
        done: Deferred[None] = Deferred()
        self._round.waiting.append(done)
        self._turn.wait()
        return done

    def later(self, call: Callable[[], None]) -> None:
        """Try again what the spool did not do: it may be able to in a while."""
        self._reactor.callLater(RETRY, call)

    def _submit(self) -> None:
        # The bus still collects publications. They may go into queues, and so into this round.
        self._bus.flush()
        current, self._round = self._round, _Round(self)
        # A waiter of a round waits for all earlier ones, too.
        if current.changes:
            self._unsettled.append(current)
            self._bus.spool.append_changes(current.changes, current)
        elif self._unsettled:
            self._unsettled[-1].followers.append(current)
        else:
            self._tell(current)

    def settled(self, settled: _Round) -> None:
        """A round is durable, or failed. One that is refused at once is told after those before it all the same."""
        place = self._unsettled.index(settled)
        del self._unsettled[place]
        self._size -= settled.size
        if place:
            self._unsettled[place - 1].followers.append(settled)
        else:
            self._tell_with_followers(settled)

    def _tell_with_followers(self, settled: _Round) -> None:
        self._tell(settled)
        for each in settled.followers:
            self._tell_with_followers(each)

    def _tell(self, settled: _Round) -> None:
        """Tell those who wait, in slices, since they may be many."""
        self._told.append(settled)
        if not self._is_telling:
            self._is_telling = True
            self._bus.slices.do(by_steps(self._tellings(), self._reactor.seconds))

    def _tellings(self) -> Iterator[None]:
        while self._told:
            settled = self._told.popleft()
            for taker, number in zip(settled.takers, settled.numbers, strict=True):
                self._tell_one(taker, number)
                yield
            for each in settled.waiting:
                if settled.failure is None:
                    each.callback(None)
                else:
                    each.errback(Failure(settled.failure))
                yield
        self._is_telling = False

    def _tell_one(self, taker: Taker, number: int) -> None:
        """Tell one. All others are told even if that is a bug in the server."""
        try:
            taker(number)
        except Exception:
            self._bus.counters["internal-error"] += 1
            if self._has_complained:
                return
            self._has_complained = True
            log.failure("mqtt: a message cannot be sent from a queue", event="mqtt.not-sent")


def _nobody(_: int) -> None:
    """Nobody has to know the number of an entry with a key."""
