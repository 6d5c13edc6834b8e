"""The registry at any moment that a journal knows of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Record, format_time, parse_time
from bussrv.registry.snapshot import Snapshot, snapshot
from bussrv.registry.state import RegistryState

_TIME = re.compile(r"([0-9-]{10}T[0-9:]{8})(?:\.([0-9]{1,6}))?Z")


class Moment(Struct, frozen=True):
    """A place in a journal: behind record ``seq``, before the first record later than ``time``, or at its end.

    :ivar time: UTC in microseconds since 1970.
    """

    seq: int | None = None
    time: int | None = None

    def is_before(self, record: Record) -> bool:
        """Whether ``record`` is not part of it any more."""
        if self.seq is not None:
            return record.seq > self.seq
        return self.time is not None and record.time > self.time

    def __str__(self) -> str:
        if self.seq is not None:
            return f"record {self.seq}"
        return "the end" if self.time is None else format_time(self.time)


END = Moment()


def parse_moment(text: str) -> Moment:
    """The moment that a person names: the number of a record, or a time in UTC.

    :raises ValueError: if it is neither.
    """
    if text.isdecimal() and text.isascii():
        return Moment(seq=int(text))
    found = _TIME.fullmatch(text)
    seconds, fraction = found.groups("") if found else ("", "")
    try:
        return Moment(time=parse_time(f"{seconds}.{fraction:0<6}Z"))
    except ValueError:
        said = f"{text!r} is neither the number of a record nor a time such as 2026-11-21T14:02:03Z"
        raise ValueError(said) from None


def snapshots(directory: Path, moments: Sequence[Moment]) -> list[Snapshot]:
    """The registry of a journal at each of ``moments``, in their order; the journal is read once.

    :raises JournalError: if the journal is damaged as far as it takes, or does not reach as far back or forth.
    """
    past = _Past(directory)
    waiting = set(moments)
    for record in read_journal(directory):
        past.take(each for each in waiting if each.is_before(record))
        past.apply(record)
        past.take(each for each in waiting if each.seq == record.seq)
        waiting -= past.taken.keys()
        if not waiting:
            break
    past.end(waiting)
    return [past.taken[each] for each in moments]


class _Past:
    """A registry that is folded from the first record on.

    :ivar taken: what it was like, at the moments that have been passed.
    """

    def __init__(self, directory: Path) -> None:
        self.taken: dict[Moment, Snapshot] = {}
        self._directory = directory
        self._state = RegistryState()
        self._seq: int | None = None
        self._first: Record | None = None

    def apply(self, record: Record) -> None:
        if self._first is None:
            self._first = record
            if record.seq > 1 and self.taken:
                raise JournalError(
                    f"the journal {self._directory} begins with record {record.seq} of {format_time(record.time)}; "
                    f"{next(iter(self.taken))} is before that"
                )
        self._state.apply(record.event, record.time)
        self._seq = record.seq

    def take(self, moments: Iterable[Moment]) -> None:
        for each in moments:
            if each not in self.taken:
                self.taken[each] = snapshot(self._seq or 0, self._state)

    def end(self, moments: Iterable[Moment]) -> None:
        """There is no record behind those that were applied."""
        for each in moments:
            if each.seq is not None and each.seq != (self._seq or 0):
                raise JournalError(f"the journal {self._directory} ends with record {self._seq or 0}, before {each}")
            self.take([each])
