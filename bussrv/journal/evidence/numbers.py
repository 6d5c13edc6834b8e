"""Numbers of records: which are missing, and which are there more than once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from bussrv.journal.evidence.findings import Finding


class _Range(Struct):
    """The records ``first`` to ``last``, all in one segment."""

    first: int
    last: int
    segment: int


class _Repeated(_Range):
    """Records that are there up to ``times`` times; ``segment`` is the last one that has one of them."""

    times: int


class Numbers:
    """The numbers of records, of one segment or of many, in whatever order they are added.

    The first record of a server need not have number 1, since old segments may be removed. But a segment begins with
    the record that it is named by.
    """

    def __init__(self) -> None:
        self._ranges: dict[str, list[_Range]] = {}
        self._last: _Range | None = None
        self._last_server = ""

    def add(self, server: str, first: int, last: int, segment: int) -> None:
        """Add the records ``first`` to ``last`` of a server, which stand in a segment."""
        before = self._last
        if before is not None and before.last + 1 == first and (self._last_server, before.segment) == (server, segment):
            before.last = last
        else:
            self._last, self._last_server = _Range(first, last, segment), server
            self._ranges.setdefault(server, []).append(self._last)

    def extend(self, other: Numbers) -> None:
        """Add all that another one has."""
        for server, ranges in other._ranges.items():
            self._ranges.setdefault(server, []).extend(ranges)

    def contains(self, server: str, seq: int) -> bool:
        """Whether a record of that number was added."""
        return any(each.first <= seq <= each.last for each in self._ranges.get(server, ()))

    def findings(self) -> Iterator[Finding]:
        """``seq-gap`` and ``seq-duplicate``, one for each range of numbers."""
        for server, ranges in self._ranges.items():
            in_order = sorted(ranges, key=lambda each: (each.first, each.segment))
            yield from _gaps(server, in_order)
            yield from _duplicates(server, in_order)


def out_of_order(server: str, expected: int, seq: int, segment: int) -> Finding:
    """Record ``seq`` stands where record ``expected`` should."""
    if seq > expected:
        return _finding("seq-gap", server, _Range(expected, seq - 1, segment), "missing")
    return _finding("seq-duplicate", server, _Range(seq, seq, segment), "there up to 2 times")


def _gaps(server: str, ranges: Sequence[_Range]) -> Iterator[Finding]:
    reached = min(ranges[0].first, ranges[0].segment) - 1
    for each in ranges:
        if each.first > reached + 1:
            yield _finding("seq-gap", server, _Range(reached + 1, each.first - 1, each.segment), "missing")
        reached = max(reached, each.last)


def _duplicates(server: str, ranges: Sequence[_Range]) -> Iterator[Finding]:
    found: list[_Repeated] = []
    for group in _overlapping(ranges):
        for each in _repeated(group):
            before = found[-1] if found else None
            if before is not None and before.last + 1 == each.first:
                before.last = each.last
                before.segment = min(before.segment, each.segment)
                before.times = max(before.times, each.times)
            else:
                found.append(each)
    for each in found:
        yield _finding("seq-duplicate", server, each, f"there up to {each.times} times")


def _overlapping(ranges: Sequence[_Range]) -> Iterator[list[_Range]]:
    """Groups of ranges that have numbers in common. Most ranges have none."""
    group = [ranges[0]]
    reached = ranges[0].last
    for each in ranges[1:]:
        if each.first > reached:
            yield group
            group = []
        group.append(each)
        reached = max(reached, each.last)
    yield group


def _repeated(group: Sequence[_Range]) -> Iterator[_Repeated]:
    for begin, end in pairwise(sorted({end for each in group for end in (each.first, each.last + 1)})):
        there = [each.segment for each in group if each.first <= begin <= each.last]
        if len(there) > 1:
            yield _Repeated(begin, end - 1, max(there), len(there))


def _finding(code: str, server: str, which: _Range, what: str) -> Finding:
    first, last = which.first, which.last
    records = f"record {first} is" if first == last else f"records {first} to {last} are"
    return Finding(
        code=code,
        message=f"server {server}: {records} {what}",
        server=server,
        segment=which.segment,
        first_seq=first,
        last_seq=last,
    )
