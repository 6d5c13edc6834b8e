"""The changes of one writer in a turn of the reactor, put together into as few changes of the spool as can be.

Entries with the same payload are one change for many owners. Those of each owner stay in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred

from bussrv.spool.entries import Append, AppendToAll, Change, Put

FEW = 16
"""Entries for fewer owners are added one by one, also if they have their payload in common."""

MOST_OWNERS = 1024
"""So many owners at most have entries in common. For more there are several changes."""

OWNERS_A_CHANGE = 4
"""Entries in common count as a change for each so many owners, and one more."""

Taker = Callable[[int], object]
"""Is told the number of an entry that is durable; 0: it was dropped, or could not be written."""

ADDING = Append, AppendToAll, Put
"""The changes that add entries."""


class Receiver(Protocol):
    """Gets an entry of its own of those that are added for many.

    :ivar owner: its owner in the spool.
    """

    owner: str

    def written(self, entry: ToAll, number: int) -> object:
        """Its entry is durable. The number is 0 if it could not be written, or was dropped alone."""


class ToAll(Struct, eq=False):
    """An entry for each of many owners. If it has no room there, or its owner is gone, it is dropped.

    :ivar head: what precedes the payload.
    :ivar payload: if others have the same object, it is kept once.
    :ivar receivers: more may be added until the turn is over: see :attr:`Rounds.turn`.
    """

    kind: str
    head: bytes
    payload: bytes
    receivers: list[Receiver]
    expires: int | None = None


class Alone(Struct, eq=False):
    """The receiver of an entry that is added alone."""

    owner: str
    taker: Taker

    def written(self, entry: Any, number: int) -> object:
        """Its entry is durable."""
        return self.taker(number)


class Made(Struct, eq=False):
    """A change for a round.

    :ivar receivers: who is told the numbers of its entries.
    :ivar entries: what each of them was sent.
    """

    change: Change
    receivers: Sequence[Receiver] = ()
    entries: Sequence[Any] = ()

    @property
    def count(self) -> int:
        """How many changes it counts as."""
        return 1 + (len(self.receivers) // OWNERS_A_CHANGE if isinstance(self.change, AppendToAll) else 0)

    @property
    def size(self) -> int:
        """The bytes of entries that it writes."""
        return len(self.change.payload) if isinstance(self.change, ADDING) else 0


class _Together(Struct, eq=False):
    """Entries with the same payload, each for another owner."""

    receivers: list[Receiver] = []
    entries: list[ToAll] = []

    def made(self) -> Iterator[Made]:
        """The changes, as few as can be."""
        if len(self.receivers) < FEW:
            for receiver, each in zip(self.receivers, self.entries, strict=True):
                payload = each.head + each.payload
                entry = Append(
                    owner=receiver.owner, kind=each.kind, payload=payload, expires=each.expires, or_drop=True
                )
                yield Made(entry, [receiver], [each])
            return
        for begin in range(0, len(self.receivers), MOST_OWNERS):
            receivers = self.receivers[begin : begin + MOST_OWNERS]
            entries = self.entries[begin : begin + MOST_OWNERS]
            to_all = AppendToAll(
                owners=tuple([each.owner for each in receivers]),
                kind=entries[0].kind,
                heads=tuple([each.head for each in entries]),
                payload=entries[0].payload,
                expires=entries[0].expires,
            )
            yield Made(to_all, receivers, entries)


class _Merging:
    """Puts together what has the same payload. The entries of each owner stay in their order."""

    def __init__(self) -> None:
        self._places: list[_Together | Made] = []
        self._last: dict[str, int] = {}  # by owner, the place of its last entry
        self._latest: dict[tuple[int, str, int | None], int] = {}  # by what they have in common, their last place

    def put(self, part: ToAll | Made) -> None:
        """The next one."""
        if isinstance(part, Made):
            if isinstance(part.change, Append):
                self._last[part.change.owner] = len(self._places)
            self._places.append(part)
            return
        in_common, last = (id(part.payload), part.kind, part.expires), self._last
        place = self._latest.get(in_common, -1)
        if place < 0 or any(last.get(each.owner, -1) >= place for each in part.receivers):
            place = self._latest[in_common] = len(self._places)
            self._places.append(_Together())
        together = self._places[place]
        assert isinstance(together, _Together)
        together.receivers += part.receivers
        together.entries += [part] * len(part.receivers)
        last.update(dict.fromkeys([each.owner for each in part.receivers], place))

    def made(self) -> Iterator[Made]:
        """The changes."""
        for each in self._places:
            if isinstance(each, Made):
                yield each
            else:
                yield from each.made()


class Changes(Struct, eq=False):
    """The changes of one writer in one turn of the reactor.

    :ivar parts: those of the turn that is not over.
    :ivar changes: all of them when it is.
    :ivar count: how many changes and entries they are.
    :ivar size: the bytes of payloads.
    :ivar is_whole: whether they go into one round.
    :ivar begun: how many of them are in rounds.
    :ivar waiting: who is told when all of them are durable.
    :ivar failure: why some of them were not made.
    """

    writer: str
    parts: list[ToAll | Made] = []
    changes: list[Made] = []
    count: int = 0
    size: int = 0
    is_whole: bool = False
    begun: int = 0
    waiting: list[Deferred[None]] = []
    failure: Exception | None = None

    def end_turn(self) -> None:
        """Nothing more comes in this turn."""
        merging = _Merging()
        for each in self.parts:
            merging.put(each)
            self.count += len(each.receivers) if isinstance(each, ToAll) else 1
        self.parts = []
        self.changes += merging.made()
        self.size += sum(
            {id(each.change.payload): each.size for each in self.changes if isinstance(each.change, ADDING)}.values()
        )
