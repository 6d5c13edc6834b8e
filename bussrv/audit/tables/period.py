"""The period that an audit is about: ``--since`` and ``--until``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Period:
    """From ``since`` on, and before ``until``. UTC microseconds since 1970; ``None``: no bound.

    Moments are in it or not. Intervals are clipped to it.
    """

    since: int | None = None
    until: int | None = None

    def holds(self, moment: Column) -> Column:
        """Whether a moment is in it."""
        return self.is_begun(moment) & self.is_not_over(moment)

    def is_begun(self, moment: Column) -> Column:
        """Whether a moment is not before it."""
        return F.lit(True) if self.since is None else moment >= timestamp(self.since)

    def is_not_over(self, moment: Column) -> Column:
        """Whether a moment is not after it."""
        return F.lit(True) if self.until is None else moment < timestamp(self.until)

    def clip_begin(self, begin: Column) -> Column:
        """The begin of an interval, clipped. After ``until`` if the interval begins too late."""
        return begin if self.since is None else F.greatest(begin, timestamp(self.since))

    def clip_end(self, end: Column) -> Column:
        """The end of an interval, clipped. Before ``since`` if the interval ends too early."""
        return end if self.until is None else F.least(end, timestamp(self.until))


def timestamp(micros: int) -> Column:
    """A moment, UTC microseconds since 1970, as a timestamp."""
    return F.lit(as_datetime(micros))


def as_datetime(micros: int) -> datetime:
    """A moment, UTC microseconds since 1970, as a ``datetime``."""
    return _EPOCH + timedelta(microseconds=micros)
