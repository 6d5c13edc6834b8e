"""Moments of a journal, as people name them."""

from __future__ import annotations

import re

from msgspec import Struct

from bussrv.journal.record import Record, format_time, parse_time

_TIME = re.compile(r"([0-9-]{10}T[0-9:]{8})(?:\.([0-9]{1,6}))?Z")


class Moment(Struct, frozen=True):
    """A place in a journal: after record ``seq``, before the first record later than ``time``, or at its end.

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
    try:
        return Moment(time=parse_instant(text))
    except ValueError:
        said = f"{text!r} is neither the number of a record nor a time such as 2026-11-21T14:02:03Z"
        raise ValueError(said) from None


def parse_instant(text: str) -> int:
    """The time that a person names, with a fraction of a second or without: UTC microseconds since 1970.

    :raises ValueError: if it is none.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 2026-11-21T14:02:03Z")
    seconds, fraction = found.groups("")
    return parse_time(f"{seconds}.{fraction:0<6}Z")
