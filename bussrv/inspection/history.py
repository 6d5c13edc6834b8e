"""The registry at any moment that a journal knows of."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.reading import read_header, read_segments, segments
from bussrv.journal.record import Record, format_time, parse_time
from bussrv.journal.segment import first_seq
from bussrv.registry.fold import RegistryFold
from bussrv.registry.snapshot import Snapshot, snapshot

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
    """The registry of a journal at each of ``moments``, in their order.

    The journal is read once, from the last segment on that begins before the first of them.

    :raises JournalError: if the journal is damaged as far as it takes, or does not reach as far back or forth.
    """
    paths = segments(directory)
    past = _Past(directory, _since(paths, moments))
    waiting = set(moments)
    for record in past.records():
        past.take(each for each in waiting if each.is_before(record))
        past.apply(record)
        past.take(each for each in waiting if each.seq == record.seq)
        waiting -= past.taken.keys()
        if not waiting:
            break
    past.end(waiting)
    return [past.taken[each] for each in moments]


def _since(paths: Sequence[Path], moments: Sequence[Moment]) -> Sequence[Path]:
    """The segments to read for ``moments``: those since the last one that begins before all of them.

    Where the clock was set back, an earlier segment may begin later; so they are looked at from the first one on.
    """
    begin = len(paths) - 1
    for moment in moments:
        if moment.seq is not None:
            begin = min(begin, max(0, bisect_right(paths, moment.seq + 1, key=first_seq) - 1))
        elif moment.time is not None:
            later = (index for index, path in enumerate(paths) if read_header(path).time > moment.time)
            begin = min(begin, max(0, next(later, len(paths)) - 1))
    return paths[begin:]


class _Past:
    """A registry that is folded from the snapshot of a segment on.

    :ivar taken: what it was like, at the moments that have been passed.
    """

    def __init__(self, directory: Path, paths: Sequence[Path]) -> None:
        self.taken: dict[Moment, Snapshot] = {}
        self._directory = directory
        self._paths = paths
        self._fold = RegistryFold()
        self._first = first_seq(paths[0])
        self._seq = self._first - 1

    def records(self) -> Iterator[Record]:
        return read_segments(self._paths, self._fold.take)

    def apply(self, record: Record) -> None:
        if record.seq == self._first > 1 and self.taken:
            moment = next(iter(self.taken))
            if moment.seq != self._first - 1:
                raise JournalError(
                    f"the journal {self._directory} begins with record {record.seq} of {format_time(record.time)}; "
                    f"{moment} is before that"
                )
        self._fold.apply(record.event, record.time)
        self._seq = record.seq

    def take(self, moments: Iterable[Moment]) -> None:
        for each in moments:
            if each not in self.taken:
                self.taken[each] = snapshot(self._seq, self._fold.state)

    def end(self, moments: Iterable[Moment]) -> None:
        """There is no record behind those that were applied."""
        for each in moments:
            if each.seq is not None and each.seq != self._seq:
                raise JournalError(f"the journal {self._directory} ends with record {self._seq}, before {each}")
            self.take([each])
