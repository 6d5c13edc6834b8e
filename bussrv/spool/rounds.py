"""What many writers change in a spool: in rounds of bounded size, and the writers in turn.

A *writer* is a session, or anything else with a key. Its changes are made in its order. A round is one change of the
spool, all of it or nothing. What a writer changes in one turn of the reactor goes into one round if it has to, and else
into as many as it takes: then much of one writer does not make the others wait.

What is published in a turn may get its changes at the end of it, when the bus hands on what it has collected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bussrv.spool.entries import Append, Change, Written
from bussrv.spool.interfaces import ISpool
from bussrv.spool.merging import ADDING, Alone, Changes, Made, Receiver, Taker, ToAll
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

MOST_EXPECTED = 1 << 16
"""So many changes may be expected from what the bus has collected."""

RETRY = 1.0
"""After so many seconds a change that failed is tried again, if it has to be made."""


class _Round(Struct, eq=False):
    """A round. The spool's waiter.

    :ivar parts: whose changes they are.
    :ivar ended: those of them whose last changes are in this round.
    :ivar count: what its changes count.
    :ivar size: the bytes of entries in it.
    :ivar numbers: those of the entries; ``None``: it is not settled.
    """

    rounds: Rounds
    changes: list[Made] = []
    parts: list[Changes] = []
    ended: list[Changes] = []
    count: int = 0
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
        self.numbers = (0,) * sum(isinstance(each.change, ADDING) for each in self.changes)
        self.rounds.settled()


class Rounds:
    """The rounds of one spool.

    :param slices: tells those who wait, who may be many.
    :param flush: is called at the end of a turn, before its rounds are made. It returns whether everything is handed
        on; otherwise the turn goes on until it is, when what ``caught_up`` returns fires.
    :param address_of: finds the address of a writer: those of one address are one in turn.
    :param failed: is called when a taker or receiver has failed, and the exception is being handled. The others are
        told all the same.
    :ivar turn: another number when nothing more belongs to what was begun before.
    """

    def __init__(
        self,
        spool: ISpool,
        slices: Slices,
        reactor: Any,
        *,
        flush: Callable[[], bool],
        caught_up: Callable[[], Deferred[None]],
        address_of: Callable[[str], str],
        failed: Callable[[], object],
    ) -> None:
        self.turn = 0
        self._spool = spool
        self._slices = slices
        self._reactor = reactor
        self._flush = flush
        self._caught_up = caught_up
        self._address_of = address_of
        self._failed = failed
        self._end_of_turn = EndOfReactorTurn(self._turn_ends, reactor)
        self._turn: dict[str, Changes] = {}
        self._writers: dict[str, deque[Changes]] = {}  # what is to be put into rounds
        self._last: dict[str, Changes] = {}  # the last of each writer that nobody was told of yet
        self._little: InTurn[str] = InTurn()
        self._much: InTurn[str] = InTurn()
        self._is_for_much = False
        self._rounds: deque[_Round] = deque()  # those that the spool was given, in order
        self._size = self._count = self._expected = 0
        self._writing = self._writing_bytes = 0  # changes and bytes that the spool was given
        self._told: deque[_Round] = deque()
        self._is_making = self._is_telling = False

    @property
    def are_many(self) -> bool:
        """Whether so much is not durable that writers have to wait before they have more."""
        count, size = self._count, self._size
        for changes in self._turn.values():
            for each in changes.parts:
                count += len(each.receivers) if isinstance(each, ToAll) else 1
                size += len(each.payload) if isinstance(each, ToAll) else each.size
        return size >= MOST_UNSETTLED or count >= MOST_UNSETTLED_CHANGES

    def append(self, writer: str, entry: Append, taker: Taker) -> None:
        """Add an entry."""
        self._of(writer).parts.append(Made(entry, [Alone(entry.owner, taker)], [entry]))

    def append_to_all(self, writer: str, entry: ToAll) -> None:
        """Add an entry for each of many owners."""
        self._of(writer).parts.append(entry)

    def change(self, writer: str, change: Change) -> None:
        """Make a change."""
        self._of(writer).parts.append(Made(change))

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
        """What the writer changes from now on is not in one with anything before, unless that is not handed on yet."""
        if writer in self._turn and self._flush():
            self.turn += 1
            self._queue(self._turn.pop(writer))
            self._make()

    def _of(self, writer: str) -> Changes:
        found = self._turn.get(writer)
        if found is None:
            found = self._turn[writer] = Changes(writer)
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
        if not self._flush():
            self._caught_up().addCallback(lambda _: self._end_of_turn.wait())
            return
        self.turn += 1
        turn, self._turn = self._turn, {}
        for each in turn.values():
            self._queue(each)
        self._make()

    def _queue(self, changes: Changes) -> None:
        writer = changes.writer
        changes.end_turn()
        self._count += changes.count
        self._size += changes.size
        if not changes.changes and writer not in self._last:
            self._told.append(_Round(self, ended=[changes]))  # There is nothing to wait for.
            return
        if writer not in self._writers:
            self._writers[writer] = deque([changes])
            self._wait(self._address_of(writer), writer)
        else:
            self._writers[writer].append(changes)
        self._last[writer] = changes

    # Rounds.

    def _make(self) -> None:
        """Give the spool rounds, as many as it may have."""
        if self._is_making:
            return
        self._is_making = True
        while (
            (self._little.size or self._much.size) and self._writing < MOST_CHANGES and self._writing_bytes < MOST_BYTES
        ):
            made = self._next()
            self._rounds.append(made)
            self._writing += made.count
            self._writing_bytes += made.size
            if made.changes:
                self._spool.append_changes([each.change for each in made.changes], made)
            else:
                made.numbers = ()
        self._is_making = False
        self._tell_settled()

    def _wait(self, address: str, writer: str) -> None:
        """A writer waits for its turn: with little to write it does not wait for those with much."""
        left = self._writers[writer][0]
        is_little = sum(each.count for each in islice(left.changes, left.begun, left.begun + A_TURN)) < A_TURN
        (self._little if is_little else self._much).put(address, writer)

    def _next(self) -> _Round:
        """A round of those with little to write, or with much: they alternate."""
        made = _Round(self)
        self._is_for_much = bool(self._much.size and (self._is_for_much or not self._little.size))
        in_turn = self._much if self._is_for_much else self._little
        self._is_for_much = not self._is_for_much
        while in_turn.size and made.count < MOST_CHANGES and made.size < MOST_BYTES:
            address, writer = in_turn.take()
            waiting = self._writers[writer]
            if self._take(waiting[0], made):
                made.ended.append(waiting.popleft())
            if waiting:
                self._wait(address, writer)
            else:
                del self._writers[writer]
        return made

    def _take(self, changes: Changes, made: _Round) -> bool:
        """Put changes into a round. :returns: whether they are all in rounds now."""
        until = made.count + A_TURN
        for each in islice(changes.changes, changes.begun, None):
            made.changes.append(each)
            made.count += each.count
            made.size += each.size
            changes.begun += 1
            if (made.size >= MOST_BYTES or made.count >= until) and not changes.is_whole:
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
            self._size -= sum(each.size for each in settled.ended)
            self._count -= sum(each.count for each in settled.ended)
            self._writing -= settled.count
            self._writing_bytes -= settled.size
            self._told.append(settled)
        if self._told and not self._is_telling:
            self._is_telling = True
            self._slices.do(by_steps(self._tellings(), self._reactor.seconds))

    def _tellings(self) -> Iterator[None]:
        while self._told:
            settled = self._told.popleft()
            numbers = iter(settled.numbers or ())
            for made in settled.changes:
                first = next(numbers) if isinstance(made.change, ADDING) else 0
                for place, receiver in enumerate(made.receivers):
                    self._tell(receiver, made.entries[place], first and first + place)
                    yield
            for each in settled.ended:
                yield from self._tell_ended(each)
        self._is_telling = False

    def _tell(self, receiver: Receiver, entry: Any, number: int) -> None:
        try:
            receiver.written(entry, number)
        except Exception:
            self._failed()

    def _tell_ended(self, changes: Changes) -> Iterator[None]:
        if self._last.get(changes.writer) is changes:
            del self._last[changes.writer]
        for each in changes.waiting:
            if changes.failure is None:
                each.callback(None)
            else:
                each.errback(Failure(changes.failure))
            yield
