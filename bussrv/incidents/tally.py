"""Sums of records that belong together, in tables of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from bussrv.journal.record import Record

QUIET = 600
"""Seconds without anything new after which an incident is over."""

LONGEST = 256
"""The most characters of a name that are kept. Strangers choose names."""

_SEVERAL = "\0several"
"""No name has these characters before its end: records that differ."""

_NOT_YET = "\0none"

Key = TypeVar("Key")
Value = TypeVar("Value")


class Table(Generic[Key, Value]):
    """A table that keeps the entries that were used last.

    :param most: so many of them.
    :param make: makes a new entry.
    :param drop: is told each entry that is dropped because of others.
    """

    def __init__(self, most: int, make: Callable[[], Value], drop: Callable[[Key, Value], None]) -> None:
        self._most = most
        self._make = make
        self._drop = drop
        self._entries: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterator[tuple[Key, Value]]:
        """All entries. The table may lose entries meanwhile."""
        return iter(tuple(self._entries.items()))

    def get(self, key: Key) -> Value | None:
        """An entry, if there is one."""
        return self._entries.get(key)

    def used(self, key: Key) -> Value:
        """An entry, made if there is none."""
        entry = self._entries.pop(key, None)
        if entry is None:
            if len(self._entries) >= self._most:
                oldest = next(iter(self._entries))
                self._drop(oldest, self._entries.pop(oldest))
            entry = self._make()
        self._entries[key] = entry
        return entry

    def forget(self, key: Key) -> None:
        """Remove an entry."""
        self._entries.pop(key, None)


class Tally(Struct):
    """The sum of some records. Times are UTC microseconds.

    :ivar number: how many, also of those that were left out of the journal.
    :ivar events: their names.
    """

    number: int = 0
    events: frozenset[str] = frozenset()
    claimed_by: str | None = _NOT_YET
    acted_by: str | None = _NOT_YET
    first_seq: int | None = None
    begin: int | None = None
    end: int | None = None

    def add(self, record: Record, event: str, number: int = 1) -> None:
        """Add a record."""
        about = record.event
        if event not in self.events:
            self.events |= {event}
        names = cut(about.claimed), cut(about.actor)
        self.join(Tally(number, self.events, *names, record.seq, record.time, record.time))

    def join(self, other: Tally) -> None:
        """Add another sum."""
        self.number += other.number
        self.events |= other.events
        self.claimed_by = _same(self.claimed_by, other.claimed_by)
        self.acted_by = _same(self.acted_by, other.acted_by)
        self.first_seq = least(self.first_seq, other.first_seq)
        self.begin = least(self.begin, other.begin)
        self.end = most(self.end, other.end)

    @property
    def claimed(self) -> str | None:
        """The name that all of them claim."""
        return _name(self.claimed_by)

    @property
    def actor(self) -> str | None:
        """The user that all of them proved to be."""
        return _name(self.acted_by)


def is_quiet(end: int, before: int) -> bool:
    """Whether something is over, of which nothing happened since a moment.

    A clock that was set back by more than ``QUIET`` leaves times in the future. What happened then is over, too:
    otherwise it would go on until the clock comes there again.

    :param end: the last time at which it happened. ``before``: that moment, ``QUIET`` seconds ago.
    """
    return not before <= end <= before + 2 * QUIET * 1_000_000


def cut(name: str | None) -> str | None:
    """As much of a name as is kept."""
    return None if name is None else name[:LONGEST]


def _same(one: str | None, other: str | None) -> str | None:
    if one in (_NOT_YET, other):
        return other
    return one if other == _NOT_YET else _SEVERAL


def _name(text: str | None) -> str | None:
    return None if text in (_NOT_YET, _SEVERAL) else text


def least(one: int | None, other: int | None) -> int | None:
    """The smaller number that is known."""
    return other if one is None else one if other is None else min(one, other)


def most(one: int | None, other: int | None) -> int | None:
    """The greater number that is known."""
    return other if one is None else one if other is None else max(one, other)
