"""A journal read from outside: whole, from its end, and while it is written."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal import reading
from bussrv.journal.reading import Line, follow, read_end, read_journal
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import segment_name


def numbered(first: int, last: int, actor: str = "ann") -> list[Record]:
    return [
        Record(seq, seq * 1_000_000, seq, "hall", "boot", ev.AuthSucceeded(actor=actor))
        for seq in range(first, last + 1)
    ]


def write(directory: Path, *segments: list[Record]) -> list[Path]:
    paths = [directory / segment_name(each[0].seq) for each in segments]
    for path, each in zip(paths, segments, strict=True):
        path.write_bytes(b"".join(map(encode, each)))
    return paths


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
        assert every == [each for segment in segments for each in segment]
        found, reader = read_end(Path(name), count, lambda record: record.seq % step == 0)
        reader.close()
        wanted = [each for each in every if each.seq % step == 0]
        assert [line.record for line in found] == wanted[max(0, len(wanted) - count) :]
        assert [line.text for line in found] == [encode(line.record) for line in found]
        assert reader.next_seq == seq


def test_older_segments_are_left_alone_when_they_are_not_needed(tmp_path: Path) -> None:
    old, _ = write(tmp_path, numbered(1, 3), numbered(4, 6))
    old.write_text("junk\n")
    found, reader = read_end(tmp_path, 3, lambda _: True)
    reader.close()
    assert seqs(found) == [4, 5, 6]


def test_an_unfinished_line_is_no_record(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    append(path, b'{"v":1')
    assert [each.seq for each in read_journal(tmp_path)] == [1, 2]


def test_an_empty_segment_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, numbered(1, 2))
    (tmp_path / segment_name(3)).touch()
    assert [each.seq for each in read_journal(tmp_path)] == [1, 2]


def refusal(directory: Path) -> str:
    with pytest.raises(JournalError) as caught:
        list(read_journal(directory))
    return str(caught.value)


def test_what_is_no_record_is_named(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    append(path, b"junk\n")
    assert refusal(tmp_path).startswith(f"{path}, line 3: not a journal record")


def test_a_record_that_is_missing_is_named(tmp_path: Path) -> None:
    _, path = write(tmp_path, numbered(1, 2), numbered(4, 5))
    assert refusal(tmp_path).startswith(f"{path}, line 1: record 3 should stand where record 4 stands")


def test_a_file_that_is_one_long_line_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINE", 1000)
    path = tmp_path / segment_name(1)
    path.write_bytes(b"\0" * 5000)
    assert refusal(tmp_path) == f"{path}, line 1: not a journal record: the line is too long"


def test_what_is_no_journal_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere").startswith(f"cannot read the journal directory {tmp_path}/nowhere: ")
    assert refusal(tmp_path) == f"{tmp_path} holds no journal: there is no segment in it"
    (tmp_path / segment_name(1)).mkdir()
    assert refusal(tmp_path) == f"cannot read {tmp_path / segment_name(1)}: Is a directory"


class Writing:
    """Does one thing to a journal at each pause of what follows it from its end."""

    def __init__(self, directory: Path, *steps: Callable[[], object]) -> None:
        self._steps = iter(steps)
        _, reader = read_end(directory, 0, lambda _: True)
        self.lines = follow(directory, reader, self._pause)

    def _pause(self) -> None:
        next(self._steps)()

    def next(self, count: int) -> list[int]:
        return seqs(islice(self.lines, count))


def test_following_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    text = encode(numbered(3, 3)[0])
    writing = Writing(tmp_path, lambda: append(path, text[:20]), lambda: append(path, text[20:]))
    assert writing.next(1) == [3]


def test_following_goes_on_in_the_segments_behind(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))

    def go_on() -> None:
        append(path, encode(numbered(3, 3)[0]))
        write(tmp_path, numbered(4, 5), numbered(6, 7))

    writing = Writing(tmp_path, go_on, lambda: append(tmp_path / segment_name(6), encode(numbered(8, 8)[0])))
    assert writing.next(6) == [3, 4, 5, 6, 7, 8]


def test_following_a_batch_that_is_cut_off_and_written_again(tmp_path: Path) -> None:
    (path,) = write(tmp_path, numbered(1, 2))
    size = path.stat().st_size

    def cut_off() -> None:
        with path.open("r+b") as file:
            file.truncate(size)
        write(tmp_path, numbered(3, 5, "bob"))

    writing = Writing(tmp_path, lambda: append(path, b"".join(map(encode, numbered(3, 4)))), cut_off)
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
