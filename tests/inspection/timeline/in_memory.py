"""Journals in memory, and their timelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bussrv.inspection.timeline.journals import EVER, Period
from bussrv.inspection.timeline.query import told
from bussrv.journal.record import Record
from tests.audit.journals import chained


class InMemory:
    """A journal in memory, see :class:`bussrv.inspection.timeline.journals.Segments`.

    :param damage: lines that stand between records.
    """

    def __init__(self, records: Sequence[Record], size: int = 7, damage: bytes | None = None) -> None:
        self._segments = [records[begin : begin + size] for begin in range(0, len(records), size)]
        self.numbers = [each[0].seq for each in self._segments]
        lines = chained(self._segments, self.numbers)
        self._contents = [(damage or b"").join([*each, b""]) for each in lines]
        self.was_read: set[int] = set()

    def begun(self, index: int) -> int:
        return self._segments[index][0].time

    def read(self, index: int) -> bytes:
        self.was_read.add(index)
        return self._contents[index]


def rows_of(journals: Sequence[InMemory], name: str, period: Period = EVER) -> list[dict[str, Any]]:
    return [row for each in told(journals, name, period) for _, row in each]
