"""Numbers of records: which are missing, and which are there more than once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
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


_BITS = 1024


class Numbers:
    """The numbers of records, of one segment or of many, in whatever order they are added.

    The first record of a server need not have number 1, since old segments may be removed. But a segment begins with
    the record that it is named by, also if it has none any more: see :meth:`expect`.

    :ivar _bits: a bit for each number in the first ``_known`` ranges of a server, ``_BITS`` of them in an integer. To
        look one up takes as long in any disorder.
    """

    def __init__(self) -> None:
        self._ranges: dict[str, list[_Range]] = {}
        self._expected: dict[str, int] = {}
        self._last: _Range | None = None
        self._last_server = ""
        self._bits: dict[tuple[str, int], int] = {}
        self._known: Counter[str] = Counter()

    def add(self, server: str, first: int, last: int, segment: int) -> None:
        """Add the records ``first`` to ``last`` of a server, which stand in a segment."""
        before = self._last
        if before is not None and before.last + 1 == first and (self._last_server, before.segment) == (server, segment):
            before.last = last
        else:
            self._last, self._last_server = _Range(first, last, segment), server
            self._ranges.setdefault(server, []).append(self._last)

    def expect(self, server: str, first: int) -> None:
        """The records of a server begin with ``first``, or with one before it."""
        self._expected[server] = min(first, self._expected.get(server, first))

    def reach(self, last: int) -> None:
        """Add the records from the one that was added last up to ``last``."""
        if self._last is not None:
            self._last.last = last

    def extend(self, other: Numbers) -> None:
        """Add all that another one has."""
        for server, ranges in other._ranges.items():
            self._ranges.setdefault(server, []).extend(ranges)
        self._last = None

    def ranges(self) -> Iterator[tuple[str, int, int, int]]:
        """Everything that was added: server, first and last number, segment."""
        for server, ranges in self._ranges.items():
            for each in ranges:
                yield server, each.first, each.last, each.segment

    def contains(self, server: str, seq: int) -> bool:
        """Whether a record of that number was added."""
        ranges = self._ranges.get(server, [])
        # The last one may still grow.
        while self._known[server] < len(ranges) - 1:
            self._learn(server, ranges[self._known[server]])
            self._known[server] += 1
        block, bit = divmod(seq, _BITS)
        is_known = self._bits.get((server, block), 0) >> bit & 1 == 1
        return is_known or any(each.first <= seq <= each.last for each in ranges[-1:])

    def _learn(self, server: str, which: _Range) -> None:
        for block in range(which.first // _BITS, which.last // _BITS + 1):
            begin, end = block * _BITS, (block + 1) * _BITS
            bits = (1 << min(which.last + 1, end) - begin) - (1 << max(which.first, begin) - begin)
            self._bits[server, block] = self._bits.get((server, block), 0) | bits

    def findings(self) -> Iterator[Finding]:
        """``seq-gap`` and ``seq-duplicate``, one for each range of numbers."""
        for server, ranges in self._ranges.items():
            in_order = sorted(ranges, key=lambda each: (each.first, each.segment))
            yield from _gaps(server, in_order, self._expected.get(server))
            yield from _duplicates(server, in_order)


def out_of_order(server: str, expected: int, seq: int, segment: int) -> Finding:
    """Record ``seq`` stands where record ``expected`` should."""
    if seq > expected:
        return _finding("seq-gap", server, _Range(expected, seq - 1, segment), "missing")
    return _finding("seq-duplicate", server, _Range(seq, seq, segment), "there up to 2 times")


def _gaps(server: str, ranges: Sequence[_Range], expected: int | None) -> Iterator[Finding]:
    first = ranges[0]
    reached = min(first.first, first.segment, first.first if expected is None else expected) - 1
    for each in ranges:
        if each.first > reached + 1:
            yield _finding("seq-gap", server, _Range(reached + 1, each.first - 1, each.segment), "missing")
        reached = max(reached, each.last)


def _duplicates(server: str, ranges: Sequence[_Range]) -> Iterator[Finding]:
    found: list[_Repeated] = []
    for each in _repeated(ranges):
        before = found[-1] if found else None
        if before is not None and before.last + 1 == each.first:
            before.last = each.last
            before.segment = min(before.segment, each.segment)
            before.times = max(before.times, each.times)
        else:
            found.append(each)
    for each in found:
        yield _finding("seq-duplicate", server, each, f"there up to {each.times} times")


def _repeated(ranges: Sequence[_Range]) -> Iterator[_Repeated]:
    """The numbers that are in several of the ranges, from the lowest to the highest.

    :param ranges: by their first numbers.
    """
    ended = Counter(each.last + 1 for each in ranges)
    # The highest segment comes first. Ranges that have ended are taken out when they come first.
    there: list[tuple[int, int]] = []
    coming = count = 0
    for begin, end in pairwise(sorted({*ended, *(each.first for each in ranges)})):
        count -= ended[begin]
        while coming < len(ranges) and ranges[coming].first == begin:
            heappush(there, (-ranges[coming].segment, ranges[coming].last))
            coming, count = coming + 1, count + 1
        while there and there[0][1] < begin:
            heappop(there)
        if count > 1:
            yield _Repeated(begin, end - 1, -there[0][0], count)


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
