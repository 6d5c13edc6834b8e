"""Through a segment past what is wrong: one fault for one wrong, and what is behind it is still looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.journal import walk as module
from bussrv.journal.record import Record
from bussrv.journal.segment import segment_name
from bussrv.journal.walk import walk
from tests.journal.support import chained
from tests.tampering import changed

Change = Callable[[list[bytes]], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A header, and the records 1 to 9 in the lines 2 to 10."""
    event = ev.AuthSucceeded(actor="ann")
    chained(tmp_path, [Record(seq, seq, seq, "hall", "boot", event) for seq in range(1, 10)])
    return tmp_path / segment_name(1)


def found(path: Path, change: Change) -> list[tuple[int | None, int | None, str]]:
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))
    return [(fault.line, fault.seq, fault.message) for fault in walk(path).faults]


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


JUNK = "not a journal record: JSON is malformed: invalid character (byte 0)"

CASES: dict[str, tuple[Change, list[tuple[int, int | None, str]]]] = {
    "nothing": (lambda lines: None, []),
    "changed": (alter(3), [(4, 3, "it was changed")]),
    "two changed": (both(alter(3), alter(6)), [(4, 3, "it was changed"), (7, 6, "it was changed")]),
    "the last but one changed": (alter(8), [(9, 8, "it was changed, or the hash of it in record 9")]),
    "dropped": (lambda lines: lines.pop(3), [(4, 4, "records 3 to 3 are missing before it")]),
    "many dropped": (block(3, 6, 99), [
        (4, 6, "records 3 to 5 are missing before it"),
        (8, 3, "it stands behind record 9: it was moved, repeated or put in"),
    ]),
    "repeated": (lambda lines: lines.insert(3, lines[3]), [
        (5, 3, "it stands behind record 3: it was moved, repeated or put in"),
    ]),
    "repeated at the end": (lambda lines: lines.extend(lines[2:6]), [
        (11, 2, "it stands behind record 9: it was moved, repeated or put in"),
    ]),
    "moved back": (move(6, 2), [
        (3, 6, "records 2 to 5 are missing before it"),
        (8, 7, "records 6 to 6 are missing before it"),
    ]),
    "moved on": (move(2, 6), [
        (3, 3, "records 2 to 2 are missing before it"),
        (7, 2, "it stands behind record 6: it was moved, repeated or put in"),
    ]),
    "swapped": (move(3, 4), [
        (4, 4, "records 3 to 3 are missing before it"),
        (6, 5, "records 4 to 4 are missing before it"),
    ]),
    "another number": (renumber(4, 700), [(5, 700, "record 4 should stand here")]),
    "a smaller number": (renumber(4, 2), [(5, 2, "record 4 should stand here")]),
    "junk in its place": (put(4, b"junk\n"), [(5, 4, JUNK)]),
    "junk between": (lambda lines: lines.insert(4, b"junk\n"), [
        (5, 4, JUNK),
    ]),
    "much junk between": (lambda lines: lines.__setitem__(slice(4, 4), [b"junk\n"] * 50), [
        (5, 4, JUNK),
    ]),
    "no header": (lambda lines: lines.pop(0), [
        (1, None, "not the header of a segment: Object missing required field `segment`"),
        (2, 2, "records 1 to 1 are missing before it"),
    ]),
    "nothing at all": (lambda lines: lines.clear(), [(1, None, "it is empty")]),
    "a header that is not whole": (lambda lines: lines.__setitem__(slice(0, 99), [b'{"v":2']), [
        (1, None, "its header is not whole"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_named_once(path: Path, name: str) -> None:
    change, wanted = CASES[name]
    assert found(path, change) == wanted


def test_one_endless_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 1000)
    assert found(path, lambda lines: lines.insert(4, b"\0" * 10_000 + b"\n")) == [(5, 4, "it is too long")]


def test_an_unfinished_line_is_left_alone(path: Path) -> None:
    size = path.stat().st_size
    assert found(path, lambda lines: lines.append(b'{"v":2')) == []
    assert (walk(path).bytes, walk(path).size, walk(path).next_seq) == (size, size + 6, 10)


def test_what_seals_are_about(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    size = sum(map(len, lines[:5]))
    whole = walk(path).digest
    beginnings = walk(path, [size, path.stat().st_size]).beginnings
    path.write_bytes(b"".join(lines[:5]))
    assert beginnings == {size: walk(path).digest, sum(map(len, lines)): whole}
    assert walk(path, [size - 1, size + 1]).beginnings == walk(path).beginnings == {}
