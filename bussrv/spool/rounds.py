"""What many writers change in a spool: in rounds of bounded size, and the writers in turn.

A *writer* is a session, or anything else with a key. Its changes are made in its order. A round is one change of the
spool, all of it or nothing. What a writer changes in one turn of the reactor goes into one round if it has to, and else
into as many as it takes: then much of one writer does not make the others wait.

What is published in a turn may get its changes at the end of it, when the bus hands on what it has collected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bussrv.spool.entries import Append, Change, Put, Written
from bussrv.spool.interfaces import ISpool
from bussrv.turns.in_turn import InTurn
from bussrv.turns.reactor_turn import EndOfReactorTurn
from bussrv.turns.slices import Slices, by_steps

MOST_CHANGES = 256
"""A round begins nothing further when it has so many changes, and there is no further round while the spool has so many
to write: two full ones at most."""

MOST_BYTES = 1 << 20
"""The same for the bytes of entries."""

A_TURN = 64
"""So many changes a writer has in a round before it is the turn of the next one, if there is one."""

MOST_UNSETTLED = 16 << 20
"""While more bytes of entries are not durable, there are many."""

MOST_UNSETTLED_CHANGES = 20_000
"""The same for changes."""

MOST_EXPECTED = 4096
"""So many changes may be expected from what the bus has collected."""

RETRY = 1.0
"""After so many seconds a change that failed is tried again, if it has to be made."""

Taker = Callable[[int], object]
"""Is told the number of an entry that is durable; 0: it was dropped, or could not be written."""


class _Changes(Struct, eq=False):
    """The changes of one writer in one turn of the reactor.

    :ivar changes: each, and who is told its number.
    :ivar is_whole: whether they go into one round.
    :ivar begun: how many of them are in rounds.
    :ivar waiting: who is told when all of them are durable.
    :ivar failure: why some of them were not made.
    """

    writer: str
    changes: list[tuple[Change, Taker | None]] = []
    is_whole: bool = False
    begun: int = 0
    waiting: list[Deferred[None]] = []
    failure: Exception | None = None


class _Round(Struct, eq=False):
    """A round. The spool's waiter.

    :ivar changes: each, and who is told its number.
    :ivar parts: whose changes they are.
    :ivar ended: those of them whose last changes are in this round.
    :ivar size: the bytes of entries in it.
    :ivar numbers: those of the entries; ``None``: it is not settled.
    """

    rounds: Rounds
    changes: list[tuple[Change, Taker | None]] = []
    parts: list[_Changes] = []
    ended: list[_Changes] = []
    size: int = 0
    numbers: tuple[int, ...] | None = None

    def callback(self, result: Written, /) -> None:
        """They are durable."""
        self.numbers = result.numbers
        self.rounds.settled()

    def errback(self, fail: Exception, /) -> None:
        """They were not made."""
        for each in self.parts:
            each.failure = each.failure or fail
        self.numbers = (0,) * sum(isinstance(change, (Append, Put)) for change, _ in self.changes)
        self.rounds.settled()


class Rounds:
    """The rounds of one spool.

    :param slices: tells those who wait, who may be many.
    :param flush: is called at the end of a turn, before its rounds are made.
    :param address_of: finds the address of a writer: those of one address are one in turn.
    :param failed: is called when a taker has failed, and the exception is being handled. The others are told all the
        same.
    """

    def __init__(
        self,
        spool: ISpool,
        slices: Slices,
        reactor: Any,
        *,
        flush: Callable[[], object],
        address_of: Callable[[str], str],
        failed: Callable[[], object],
    ) -> None:
        self._spool = spool
        self._slices = slices
        self._reactor = reactor
        self._flush = flush
        self._address_of = address_of
        self._failed = failed
        self._end_of_turn = EndOfReactorTurn(self._turn_ends, reactor)
        self._turn: dict[str, _Changes] = {}
        self._writers: dict[str, deque[_Changes]] = {}  # what is to be put into rounds
        self._last: dict[str, _Changes] = {}  # the last of each writer that nobody was told of yet
        self._in_turn: InTurn[str] = InTurn()
        self._rounds: deque[_Round] = deque()  # those that the spool was given, in order
        self._size = self._count = self._expected = 0
        self._writing = self._writing_bytes = 0  # changes and bytes that the spool was given
        self._told: deque[_Round] = deque()
        self._is_making = self._is_telling = False

    @property
    def are_many(self) -> bool:
        """Whether so much is not durable that writers have to wait before they have more."""
        return self._size >= MOST_UNSETTLED or self._count >= MOST_UNSETTLED_CHANGES

    def append(self, writer: str, entry: Append, taker: Taker) -> None:
        """Add an entry."""
        self._size += len(entry.payload)
        self._add(writer, entry, taker)

    def change(self, writer: str, change: Change) -> None:
        """Make a change."""
        self._size += len(change.payload) if isinstance(change, (Append, Put)) else 0
        self._add(writer, change, None)

    def change_with_all(self, writer: str, change: Change) -> None:
        """Make a change together with all others of the writer since :meth:`cut`, or the beginning of the turn."""
        self.change(writer, change)
        self._of(writer).is_whole = True

    def expect(self, changes: int) -> None:
        """Something was published that may bring so many changes. When these may be many, they are had at once."""
        self._expected += changes
        if self._expected >= MOST_EXPECTED:
            self._expected = 0
            self._flush()

    def cut(self, writer: str) -> None:
        """What the writer changes from now on is not in one with anything before."""
        if writer in self._turn:
            self._flush()
            self._queue(self._turn.pop(writer))
            self._make()

    def _add(self, writer: str, change: Change, taker: Taker | None) -> None:
        self._count += 1
        self._of(writer).changes.append((change, taker))

    def _of(self, writer: str) -> _Changes:
        found = self._turn.get(writer)
        if found is None:
            found = self._turn[writer] = _Changes(writer)
            self._end_of_turn.wait()
        return found

    def durable(self, writer: str) -> Deferred[None]:
        """:returns: fires when everything that a writer changed or published until now is durable; fails with a
        :class:`bussrv.errors.Refused`.
        """
        done: Deferred[None] = Deferred()
        self._of(writer).waiting.append(done)
        return done

    def later(self, call: Callable[[], None]) -> None:
        """Try again what the spool did not do: it may be able to in a while."""
        self._reactor.callLater(RETRY, call)

    def _turn_ends(self) -> None:
        self._expected = 0
        self._flush()
        turn, self._turn = self._turn, {}
        for each in turn.values():
            self._queue(each)
        self._make()

    def _queue(self, changes: _Changes) -> None:
        writer = changes.writer
        if not changes.changes and writer not in self._last:
            self._told.append(_Round(self, ended=[changes]))  # There is nothing to wait for.
            return
        if writer not in self._writers:
            self._writers[writer] = deque()
            self._in_turn.put(self._address_of(writer), writer)
        self._writers[writer].append(changes)
        self._last[writer] = changes

    # Rounds.

    def _make(self) -> None:
        """Give the spool rounds, as many as it may have."""
        if self._is_making:
            return
        self._is_making = True
        while self._in_turn.size and self._writing < MOST_CHANGES and self._writing_bytes < MOST_BYTES:
            made = self._next()
            self._rounds.append(made)
            self._writing += len(made.changes)
            self._writing_bytes += made.size
            if made.changes:
                self._spool.append_changes([change for change, _ in made.changes], made)
            else:
                made.numbers = ()
        self._is_making = False
        self._tell_settled()

    def _next(self) -> _Round:
        made = _Round(self)
        while self._in_turn.size and len(made.changes) < MOST_CHANGES and made.size < MOST_BYTES:
            address, writer = self._in_turn.take()
            waiting = self._writers[writer]
            if self._take(waiting[0], made):
                made.ended.append(waiting.popleft())
            if waiting:
                self._in_turn.put(address, writer)
            else:
                del self._writers[writer]
        return made

    def _take(self, changes: _Changes, made: _Round) -> bool:
        """Put changes into a round. :returns: whether they are all in rounds now."""
        begin = changes.begun
        end = len(changes.changes) if changes.is_whole else begin + A_TURN
        for change, taker in changes.changes[begin:end]:
            made.changes.append((change, taker))
            made.size += len(change.payload) if isinstance(change, (Append, Put)) else 0
            changes.begun += 1
            if made.size >= MOST_BYTES and not changes.is_whole:
                break
        made.parts.append(changes)
        return changes.begun == len(changes.changes)

    def settled(self) -> None:
        """A round is durable, or failed."""
        self._tell_settled()
        self._make()

    def _tell_settled(self) -> None:
        # A round that is refused at once is told after those before it.
        while self._rounds and self._rounds[0].numbers is not None:
            settled = self._rounds.popleft()
            self._size -= settled.size
            self._count -= len(settled.changes)
            self._writing -= len(settled.changes)
            self._writing_bytes -= settled.size
            self._told.append(settled)
        if self._told and not self._is_telling:
            self._is_telling = True
            self._slices.do(by_steps(self._tellings(), self._reactor.seconds))

    def _tellings(self) -> Iterator[None]:
        while self._told:
            settled = self._told.popleft()
            numbers = iter(settled.numbers or ())
            for change, taker in settled.changes:
                number = next(numbers) if isinstance(change, (Append, Put)) else 0
                if taker is not None:
                    self._tell(taker, number)
                    yield
            for each in settled.ended:
                yield from self._tell_ended(each)
        self._is_telling = False

    def _tell(self, taker: Taker, number: int) -> None:
        try:
            taker(number)
        except Exception:
            self._failed()

    def _tell_ended(self, changes: _Changes) -> Iterator[None]:
        if self._last.get(changes.writer) is changes:
            del self._last[changes.writer]
        for each in changes.waiting:
            if changes.failure is None:
                each.callback(None)
            else:
                each.errback(Failure(changes.failure))
            yield
