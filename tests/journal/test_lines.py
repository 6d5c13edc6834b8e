"""The lines after a record, read while the journal is written: each once, in order, none before it is durable."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bussrv.errors import JournalError
from bussrv.journal import lines as lines_module
from bussrv.journal.batch import Rotation
from bussrv.journal.lines import LinesAfter
from bussrv.journal.record import Record, decode
from bussrv.journal.recovery import Recovered
from bussrv.journal.segment import list_segments
from tests.journal.support import Disk, fact, writer
from tests.size import sized


def read_all(lines: LinesAfter, until: int) -> list[Any]:
    found: list[Any] = []
    while page := lines.page(until):
        found += page
    return found


@pytest.mark.parametrize("block", [7, 400, 64 << 10])
@pytest.mark.parametrize("page", [1, 1 << 20])
def test_every_line_after_a_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, page: int) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", block)
    monkeypatch.setattr(lines_module, "PAGE", page)
    batches = writer(tmp_path, rotation=Rotation(bytes=1500), recovered=Recovered(next_seq=3))
    for number in range(20):
        batches.commit([fact(f"{number}"), fact("ü" * number)])
    batches.close()
    assert len(list_segments(tmp_path)) > 4
    first, *_ = list_segments(tmp_path)
    first.with_name(first.name + ".gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    written = [line for path in list_segments(tmp_path) for line in text_of(path).splitlines() if b'"seq":' in line]
    for after in (0, 2, 3, 7, 22, 41, 42, 43):
        lines = LinesAfter(tmp_path, after)
        found = read_all(lines, 42)
        assert [each.text for each in found] == written[max(0, after - 2) :]
        assert [each.seq for each in found] == list(range(max(after, 2) + 1, 43))
        assert all(decode(each.text).seq == each.seq for each in found)
        lines.close()


def text_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_a_journal_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot read the journal directory"):
        LinesAfter(tmp_path / "none", 0).page(1)
    batches = writer(tmp_path)
    batches.commit([fact("a")])
    batches.close()
    (path,) = list_segments(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"seq":1', b'"seq":x'))
    with pytest.raises(JournalError, match="the records after 0 cannot be read"):
        LinesAfter(tmp_path, 0).page(1)


def cut(path: Path) -> None:
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes())[:-30])
    path.unlink()


def bend(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"seq":5', b'"seq":\xff'))


def fill(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def block(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("page", [1, 1 << 20])
@pytest.mark.parametrize(("harm", "lost"), [(cut, {4, 5, 6}), (bend, {5}), (fill, {4, 5, 6}), (block, {4, 5, 6})])
def test_only_what_cannot_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int, harm: Callable[[Path], None], lost: set[int]
) -> None:
    monkeypatch.setattr(lines_module, "PAGE", page)
    batches = writer(tmp_path, rotation=Rotation(bytes=1))
    for _ in range(4):
        batches.commit([fact("a"), fact("b"), fact("c")])
    batches.close()
    harm(list_segments(tmp_path)[1])
    for after in (0, 3, 4, 6, 9):
        lines = LinesAfter(tmp_path, after)
        found = {each.seq for each in read_all(lines, 12)}
        assert found == set(range(after + 1, 13)) - lost
        lines.close()


def as_another_number(number: int) -> Callable[[bytes], bytes]:
    return lambda line: line.replace(b'"seq":', b'"seq":%d,"x":' % number)


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "the number is beyond the end": as_another_number(10**9),
    "the number is that of a later record": as_another_number(150),
    "the number is that of an earlier record": as_another_number(3),
    "the number is that of no record": as_another_number(0),
    "it is not UTF-8": lambda line: line.replace(b'"actor":"', b'"actor":"\xff'),
    "its event would forge others": lambda line: line.replace(b'"event":"', b'"event":"\\n\\nid: 7\\nevent: '),
    "it has the end of a line of other systems": lambda line: line.replace(b'"actor":"', b'"actor":"\r'),
    "it is nothing": lambda line: b"\0" * len(line),
}


@pytest.mark.dear
@pytest.mark.parametrize("block", [400, 64 << 10])
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_line_costs_one_record_whatever_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str, block: int
) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", block)
    batches = writer(tmp_path)
    for number in range(100):
        batches.commit([fact(f"{number}"), fact(f"{number} again")])
    batches.close()
    (path,) = list_segments(tmp_path)
    whole = path.read_bytes().split(b"\n")
    for damaged in (1, 2, 60, 199, 200):
        bent = [HARMS[harm](line) if b'"seq":%d,' % damaged in line else line for line in whole]
        assert bent != whole
        path.write_bytes(b"\n".join(bent))
        for after in (0, 1, 58, 60, 120, 198):
            lines = LinesAfter(tmp_path, after)
            found: list[int] = []
            while (page := pages_of(lines, 200)) is not None:
                found += page
            assert found == [each for each in range(after + 1, 201) if each != damaged], (damaged, after)
            lines.close()


def pages_of(lines: LinesAfter, until: int) -> list[int] | None:
    """The numbers of the next page; ``None``: no further record can be read."""
    try:
        return [each.seq for each in lines.page(until)] or None
    except JournalError:
        return None


def test_lines_that_are_missing_are_passed(tmp_path: Path) -> None:
    batches = writer(tmp_path)
    batches.commit([fact(f"{number}") for number in range(20)])
    batches.close()
    (path,) = list_segments(tmp_path)
    kept = [line for line in path.read_bytes().split(b"\n") if not any(b'"seq":%d,' % n in line for n in range(5, 9))]
    path.write_bytes(b"\n".join(kept))
    assert [each.seq for each in read_all(LinesAfter(tmp_path, 0), 20)] == [*range(1, 5), *range(9, 21)]


def test_what_is_not_durable_is_read_again_later(tmp_path: Path) -> None:
    batches = writer(tmp_path)
    batches.commit([fact(f"{number}") for number in range(6)])
    (path,) = list_segments(tmp_path)
    whole = path.read_bytes()
    lines = LinesAfter(tmp_path, 0)
    assert [each.seq for each in lines.page(4)] == [1, 2, 3, 4]
    # Records 5 and 6 are cut off, others get their numbers, and the last of these is not complete yet.
    kept, fifth, sixth, _ = whole.rsplit(b"\n", 3)
    anew = b"\n".join([kept, fifth.replace(b'"actor":"4"', b'"actor":"another"'), b""])
    path.write_bytes(anew + b'{"v":4,"prev":"x')
    assert [decode(each.text).event.actor for each in lines.page(6)] == ["another"]
    assert lines.page(6) == []
    # It is cut off, too.
    path.write_bytes(anew + sixth + b"\n")
    assert [each.text for each in lines.page(6)] == [sixth]


class SlowDisk(Disk):
    """:ivar in_between: called when lines are written, but not durable yet."""

    def __init__(self) -> None:
        super().__init__()
        self.in_between = lambda: None

    def sync(self, descriptor: int) -> None:
        self.in_between()
        super().sync(descriptor)


class LinesMachine(RuleBasedStateMachine):
    """A journal is written, fails, is compressed and pruned, while it is read."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.directory = Path(self.place.name)
        self.disk = SlowDisk()
        self.batches = writer(self.directory, rotation=Rotation(bytes=2000), files=self.disk)
        self.durable: list[bytes] = []
        self.batches.commit([fact("first")], self.take)
        self.lines = LinesAfter(self.directory, 0)
        self.got: list[bytes] = []
        self.pruned = 0

    def teardown(self) -> None:
        if hasattr(self, "lines"):
            self.lines.close()
            self.place.cleanup()

    def take(self, entries: Any, records: list[Record]) -> None:
        self.durable += [each.event.actor or "" for each in records]

    @rule(count=st.integers(1, 8), pages=st.integers(0, 2))
    def write(self, count: int, pages: int) -> None:
        self.disk.in_between = lambda: self.read(pages)
        entries = [fact(f"{len(self.durable)}.{number}" + "x" * 50) for number in range(count)]
        self.batches.commit(entries, self.take)

    @rule(name=st.sampled_from(["write", "sync"]))
    def a_write_fails(self, name: str) -> None:
        self.disk.failing = {name}
        self.disk.in_between = lambda: self.read(1)
        with pytest.raises(OSError, match="Input/output error"):
            self.batches.commit([fact("lost" * 20)])
        self.read(1)
        self.disk.failing = set()
        self.disk.in_between = lambda: None

    @rule()
    def rotate(self) -> None:
        self.batches.rotate()

    @rule()
    def compress(self) -> None:
        for path in list_segments(self.directory)[:-1]:
            if path.suffix != ".gz":
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()

    @rule(pages=st.integers(1, 3))
    def read(self, pages: int) -> None:
        for _ in range(pages):
            self.got += [decode(each.text).event.actor or "" for each in self.lines.page(len(self.durable))]

    @rule()
    def read_anew_from_here(self) -> None:
        self.lines.close()
        self.lines = LinesAfter(self.directory, self.lines.seq)

    @invariant()
    def what_was_read_is_durable_and_in_order(self) -> None:
        if hasattr(self, "got"):
            assert self.got == self.durable[: len(self.got)]
            assert self.lines.seq == len(self.got)

    @rule()
    def read_to_the_end(self) -> None:
        while self.lines.seq < len(self.durable):
            before = self.lines.seq
            self.read(1)
            assert self.lines.seq > before


TestLines = LinesMachine.TestCase
TestLines.settings = settings(max_examples=sized(360), stateful_step_count=25, deadline=None)
