"""A journal read from outside: whole, from its end, and while it is written."""

import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal import reading
from bussrv.journal.chain import START
from bussrv.journal.reading import Line, follow, read_end, read_journal
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import segment_name
from tests.journal.support import chained


def numbered(first: int, last: int, actor: str = "ann") -> list[Record]:
    return [
        Record(seq, seq * 1_000_000, seq, "hall", "boot", ev.AuthSucceeded(actor=actor))
        for seq in range(first, last + 1)
    ]


def write(directory: Path, *segments: list[Record]) -> list[Path]:
    """A chained journal of these segments, without seals."""
    directory.parent.mkdir(exist_ok=True)
    chained(directory, *segments)
    return [directory / segment_name(each[0].seq) for each in segments]


def lines_of(directory: Path, *segments: list[Record]) -> list[list[bytes]]:
    """The lines of such a journal, to be put elsewhere bit by bit."""
    return [path.read_bytes().splitlines(keepends=True) for path in write(directory / "whole", *segments)]


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def seqs(lines: Iterator[Line] | list[Line]) -> list[int]:
    return [line.record.seq for line in lines]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 20), st.integers(1, 4), st.integers(1, 3))
def test_the_end_is_the_end_of_the_whole(sizes: list[int], count: int, first: int, step: int) -> None:
    with TemporaryDirectory() as name:
        segments, seq = [], first
        for size in sizes:
            segments.append(numbered(seq, seq + size - 1))
            seq += size
        write(Path(name), *segments)
        every = list(read_journal(Path(name)))
        assert [replace(each, prev=START) for each in every] == [each for segment in segments for each in segment]
        found, reader, _ = read_end(Path(name), count, lambda record: record.seq % step == 0)
        reader.close()
        wanted = [each for each in every if each.seq % step == 0]
        assert [line.record for line in found] == wanted[max(0, len(wanted) - count) :]
        assert [line.text for line in found] == [encode(line.record) for line in found]
        assert reader.next_seq == seq


def test_older_segments_are_left_alone_when_they_are_not_needed(tmp_path: Path) -> None:
    old, _ = write(tmp_path, numbered(1, 3), numbered(4, 6))
    old.write_text("junk\n")
    found, reader, _ = read_end(tmp_path, 3, lambda _: True)
    reader.close()
    assert seqs(found) == [4, 5, 6]
    newer = numbered(4, 6)[0].time
    found, reader, salvage = read_end(tmp_path, 1000, lambda each: each.time >= newer, newer)
    reader.close()
    assert (seqs(found), salvage) == ([4, 5, 6], None)


def test_an_unfinished_line_is_no_record(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    append(path, b'{"v":1')
    assert [each.seq for each in read_journal(tmp_path)] == [1, 2]


def test_a_segment_without_records_is_passed_over(tmp_path: Path) -> None:
    _, header = lines_of(tmp_path, numbered(1, 2), numbered(3, 3))
    write(tmp_path, numbered(1, 2))
    (tmp_path / segment_name(3)).write_bytes(header[0])
    assert [each.seq for each in read_journal(tmp_path)] == [1, 2]


def test_what_a_salvage_left_behind_is_not_looked_at() -> None:
    directory = Path(__file__).parents[2] / "docs" / "reference" / "journal-format" / "salvaged"
    with pytest.raises(JournalError):
        list(read_journal(directory))
    lines, reader, salvage = read_end(directory, 1000, lambda record: True)
    reader.close()
    assert reader.header.salvaged is not None
    assert salvage == reader.header
    enough = read_end(directory, len(lines), lambda record: True)
    enough.reader.close()
    assert enough.salvage is None
    assert seqs(lines) == list(range(reader.header.segment, reader.next_seq))


def refusal(directory: Path) -> str:
    with pytest.raises(JournalError) as caught:
        list(read_journal(directory))
    return str(caught.value)


def test_what_is_no_record_is_named(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    append(path, b"junk\n")
    assert refusal(tmp_path).startswith(f"{path}, line 4: not a journal record")


def test_a_record_that_is_missing_is_named(tmp_path: Path) -> None:
    _, path = write(tmp_path, numbered(1, 2), numbered(4, 5))
    assert refusal(tmp_path).startswith(f"{path}, line 1: server hall: record 3 is missing")


def test_a_file_that_is_one_long_line_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINE", 1000)
    path = tmp_path / segment_name(1)
    path.write_bytes(b"\0" * 5000)
    assert refusal(tmp_path) == f"{path}, line 1: the line is too long"


def test_what_is_no_journal_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere").startswith(f"cannot read the journal directory {tmp_path}/nowhere: ")
    assert refusal(tmp_path) == f"{tmp_path} holds no journal: there is no segment in it"
    (tmp_path / segment_name(1)).mkdir()
    assert refusal(tmp_path) == f"cannot read {tmp_path / segment_name(1)}: Is a directory"


class Writing:
    """Does one thing to a journal at each pause of what follows it from its end."""

    def __init__(self, directory: Path, *steps: Callable[[], object]) -> None:
        self._steps = iter(steps)
        _, reader, _ = read_end(directory, 0, lambda _: True)
        self.lines = follow(directory, reader, self._pause)

    def _pause(self) -> None:
        next(self._steps)()

    def next(self, count: int) -> list[int]:
        return seqs(islice(self.lines, count))


def test_following_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    text = lines_of(tmp_path, numbered(1, 3))[0][-1]
    writing = Writing(tmp_path, lambda: append(path, text[:20]), lambda: append(path, text[20:]))
    assert writing.next(1) == [3]


def test_following_goes_on_in_the_segments_behind(tmp_path: Path) -> None:
    first, second, third = lines_of(tmp_path, numbered(1, 3), numbered(4, 5), numbered(6, 8))
    path, behind, last = (tmp_path / segment_name(seq) for seq in (1, 4, 6))
    path.write_bytes(b"".join(first[:-1]))

    def go_on() -> None:
        append(path, first[-1])
        behind.write_bytes(b"".join(second))
        last.write_bytes(b"".join(third[:-1]))

    writing = Writing(tmp_path, go_on, lambda: append(last, third[-1]))
    assert writing.next(6) == [3, 4, 5, 6, 7, 8]


def test_following_a_segment_that_is_compressed_and_then_removed(tmp_path: Path) -> None:
    first, second, third = lines_of(tmp_path, numbered(1, 3), numbered(4, 5), numbered(6, 8))
    path, behind, last = (tmp_path / segment_name(seq) for seq in (1, 4, 6))
    path.write_bytes(b"".join(first[:-1]))

    def compress() -> None:
        append(path, first[-1])
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()

    def go_on() -> None:
        behind.write_bytes(b"".join(second))

    def remove() -> None:
        for each in tmp_path.glob("*.jsonl*"):
            each.unlink()
        last.write_bytes(b"".join(third))

    writing = Writing(tmp_path, compress, go_on, remove)
    assert writing.next(6) == [3, 4, 5, 6, 7, 8]


def test_following_a_batch_that_is_cut_off_and_written_again(tmp_path: Path) -> None:
    ((*lines, third, fourth),) = lines_of(tmp_path / "a", numbered(1, 4))
    again = lines_of(tmp_path / "b", numbered(1, 2), numbered(3, 5, "bob"))[1]
    path = tmp_path / segment_name(1)
    path.write_bytes(b"".join(lines))

    def cut_off() -> None:
        path.write_bytes(b"".join(lines))
        (tmp_path / segment_name(3)).write_bytes(b"".join(again))

    writing = Writing(tmp_path, lambda: append(path, third + fourth), cut_off)
    assert writing.next(5) == [3, 4, 3, 4, 5]


def test_following_a_segment_that_is_removed_and_made_again(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    writing = Writing(tmp_path, path.unlink, lambda: write(tmp_path, numbered(1, 3, "bob")))
    assert writing.next(3) == [1, 2, 3]


def test_following_names_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path, numbered(1, 2))
    writing = Writing(tmp_path, lambda: write(tmp_path, numbered(4, 5)))
    with pytest.raises(JournalError, match=r"00004\.jsonl follows record 2; records are missing in between"):
        writing.next(1)
