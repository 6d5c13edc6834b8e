"""A segment is read past everything that is wrong with it, and every wrong is found where it is."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.journal import bounds
from bussrv.journal import scan as module
from bussrv.journal.chain import line_hash
from bussrv.journal.digests import Digests, digests_of
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.numbers import Numbers
from bussrv.journal.record import Record
from bussrv.journal.scan import Scan
from bussrv.journal.segment import segment_name
from tests.journal.support import chained
from tests.tamperings.copies import changed

Change = Callable[[list[bytes]], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A header, and the records 1 to 9 in the lines 2 to 10."""
    event = ev.AuthSucceeded(actor="ann")
    chained(tmp_path, [Record(seq, seq, seq, "hall", "boot", event) for seq in range(1, 10)])
    return tmp_path / segment_name(1)


def found(path: Path, change: Change) -> list[tuple[str, int | None, int | None, int | None]]:
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))
    judged = Scan(path).judge
    findings = [*judged.findings, *judged.numbers.findings()]
    assert all(each.segment == 1 for each in findings)
    return [(each.code, each.line, each.first_seq, each.last_seq) for each in findings]


def put(index: int, line: bytes) -> Change:
    return lambda lines: lines.__setitem__(index, line)


def renumber(index: int, seq: int) -> Change:
    return lambda lines: lines.__setitem__(index, lines[index].replace(b'"seq":%d,' % index, b'"seq":%d,' % seq))


def move(start: int, target: int) -> Change:
    return lambda lines: lines.insert(target, lines.pop(start))


def block(start: int, end: int, target: int) -> Change:
    def change(lines: list[bytes]) -> None:
        moved = lines[start:end]
        del lines[start:end]
        lines[target:target] = moved

    return change


def both(*changes: Change) -> Change:
    def change(lines: list[bytes]) -> None:
        for each in changes:
            each(lines)

    return change


def alter(index: int) -> Change:
    return lambda lines: lines.__setitem__(index, changed(lines[index]))


def put_hash(index: int) -> Change:
    return lambda lines: lines.__setitem__(
        index, re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"%b"' % (b"0" * 64), lines[index])
    )


def parts(number: int) -> Change:
    return lambda lines: lines.__setitem__(0, lines[0].replace(b'"parts":0', b'"parts":%d' % number))


def chain(lines: list[bytes]) -> None:
    """Let each line hold the hash of the one before it, as who knows the format does."""
    for index in range(1, len(lines)):
        hashed = line_hash(lines[index - 1]).encode()
        lines[index] = re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"%b"' % hashed, lines[index], count=1)


LINE, CHAIN, LINK, GAP, TWICE = "bad-line", "broken-chain", "broken-link", "seq-gap", "seq-duplicate"

CASES: dict[str, tuple[Change, list[tuple[str, int | None, int | None, int | None]]]] = {
    "nothing": (lambda lines: None, []),
    "changed": (alter(3), [(CHAIN, 5, 3, 4)]),
    "two changed": (both(alter(3), alter(6)), [(CHAIN, 5, 3, 4), (CHAIN, 8, 6, 7)]),
    "the last but one changed": (alter(8), [(CHAIN, 10, 8, 9)]),
    "another hash": (put_hash(4), [(CHAIN, 5, 4, 4)]),
    "dropped": (lambda lines: lines.pop(3), [(CHAIN, 4, 2, 4), (GAP, None, 3, 3)]),
    "many moved": (block(3, 6, 99), [(CHAIN, 4, 2, 6), (CHAIN, 8, 3, 3)]),
    "repeated": (lambda lines: lines.insert(3, lines[3]), [(CHAIN, 5, 3, 3), (TWICE, None, 3, 3)]),
    "repeated at the end": (lambda lines: lines.extend(lines[2:6]), [(CHAIN, 11, 2, 2), (TWICE, None, 2, 5)]),
    "moved back": (move(6, 2), [(CHAIN, 3, 6, 6), (CHAIN, 8, 5, 7)]),
    "moved on": (move(2, 6), [(CHAIN, 3, 1, 3), (CHAIN, 7, 2, 2)]),
    "swapped": (move(3, 4), [(CHAIN, 4, 4, 4), (CHAIN, 5, 3, 3)]),
    "swapped and chained": (both(move(3, 4), chain), [(CHAIN, 5, 3, 3)]),
    "dropped and chained": (both(lambda lines: lines.pop(3), chain), [(GAP, None, 3, 3)]),
    "repeated and chained": (both(lambda lines: lines.insert(5, lines[3]), chain), [(TWICE, None, 3, 3)]),
    "another number": (renumber(4, 700), [(CHAIN, 6, 5, 5), (GAP, None, 4, 4), (GAP, None, 10, 699)]),
    "a smaller number": (renumber(4, 2), [(CHAIN, 6, 2, 5), (GAP, None, 4, 4), (TWICE, None, 2, 2)]),
    "junk in its place": (put(4, b"junk\n"), [(LINE, 5, 4, None), (CHAIN, 6, 5, 5), (GAP, None, 4, 4)]),
    "junk between": (lambda lines: lines.insert(4, b"junk\n"), [(LINE, 5, 4, None), (CHAIN, 6, 4, 4)]),
    "a header between": (lambda lines: lines.insert(4, lines[0]), [(LINE, 5, 4, None), (CHAIN, 6, 4, 4)]),
    "no header": (lambda lines: lines.pop(0), [(LINK, 1, None, None)]),
    "nothing at all": (lambda lines: lines.clear(), [(LINK, 1, None, None)]),
    "a header that is not whole": (lambda lines: lines.__setitem__(slice(0, 99), [b'{"v":4']), [
        (LINK, 1, None, None),
    ]),
    "a snapshot that is not there": (parts(2), [(CHAIN, 2, 1, 1), (LINE, 1, None, None)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_everything_wrong_is_found(path: Path, name: str) -> None:
    change, wanted = CASES[name]
    assert found(path, change) == wanted


def test_one_endless_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 1000)
    assert found(path, lambda lines: lines.insert(4, b"\0" * 10_000 + b"\n")) == [(LINE, 5, 4, None)]


def test_no_more_findings_are_listed_than_anybody_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FINDINGS", 3)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4:4] = [b"junk\n"] * 50
    path.write_bytes(b"".join([*lines[:-2], changed(lines[-2]), lines[-1]]))
    listed, more = Scan(path).judge.findings[:3], Scan(path).judge.findings[3:]
    assert [(each.code, each.line) for each in listed] == [(LINE, 5), (LINE, 6), (LINE, 7)]
    assert [(each.code, each.segment, each.line, each.message) for each in more] == [
        (LINE, 1, None, "and 47 more in this segment, which are not listed"),
        (CHAIN, 1, None, "and 2 more in this segment, which are not listed"),
    ]


def test_as_many_as_are_listed_leave_nothing_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FINDINGS", 3)
    assert found(path, lambda lines: lines.extend([b"junk\n"] * 3)) == [
        (LINE, 11, 10, None),
        (LINE, 12, None, None),
        (LINE, 13, None, None),
    ]


ORDERS: dict[str, Callable[[int], list[int]]] = {
    "swapped": lambda count: [1, *(seq for even in range(2, count, 2) for seq in (even + 1, even))],
    "backwards": lambda count: [1, *range(count, 1, -1)],
    "every second one repeated": lambda count: [*range(1, count), *range(2, count, 2)],
    "again and again": lambda count: [*range(1, count // 10)] * 10,
}


@pytest.mark.parametrize("name", ORDERS)
def test_no_order_of_records_makes_much_work(tmp_path: Path, name: str) -> None:
    """Twice as many records make about twice as much work, whoever put them into that order and chained them."""
    some, twice = (work(tmp_path / str(count), ORDERS[name](count)) for count in (500, 1000))
    assert twice < 2.5 * some


def work(directory: Path, numbers: list[int]) -> int:
    """How many lines of the judge's code are run for a segment with these records."""
    event = ev.AuthSucceeded(actor="ann")
    chained(directory, [Record(seq, seq, seq, "hall", "boot", event) for seq in numbers])
    counted = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal counted
        counted += event == "line"
        return trace if "/evidence/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        judged = Scan(directory / segment_name(1)).judge
        assert [*judged.findings, *judged.numbers.findings()]
    finally:
        sys.settrace(before)
    return counted


def test_an_unfinished_line_is_left_alone(path: Path) -> None:
    size = path.stat().st_size
    assert found(path, lambda lines: lines.append(b'{"v":4')) == []
    segment = Scan(path).segment
    assert segment is not None
    assert (segment.digests.size, segment.torn, segment.lines, segment.records) == (size, 6, 10, 9)


def test_beginnings_have_digests(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    sizes = [len(b"".join(lines[:5])), path.stat().st_size]
    for asked in ([], sizes):
        assert digests(path, asked) == digests_of(path, asked)
    # No seal ends within a line.
    assert digests(path, [sizes[0] - 1, sizes[1] + 1]).beginnings == {sizes[0] - 1: ""}


def digests(path: Path, sizes: list[int]) -> Digests:
    segment = Scan(path, sizes).segment
    assert segment is not None
    return segment.digests


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=6))
def test_ranges_of_numbers_are_judged_like_single_ones(ranges: list[tuple[int, int, int]]) -> None:
    whole, single = Numbers(), Numbers()
    for first, more, segment in ranges:
        whole.add("hall", first, first + more, segment)
        for seq in range(first, first + more + 1):
            single.add("hall", seq, seq, segment)
    counts = Counter(seq for first, more, _ in ranges for seq in range(first, first + more + 1))
    found = list(whole.findings())
    assert found == list(single.findings())
    assert numbers_in(found, "seq-duplicate") == {seq for seq, count in counts.items() if count > 1}
    begin = min(min(counts), min(segment for first, _, segment in ranges if first == min(counts)))
    assert numbers_in(found, "seq-gap") == {*range(begin, max(counts))} - {*counts}


def numbers_in(found: list[Finding], code: str) -> set[int]:
    return {seq for each in found if each.code == code for seq in range(each.first_seq or 0, (each.last_seq or 0) + 1)}
