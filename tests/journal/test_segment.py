"""Segments: names, reading, torn tails, and the file that is written."""

import pytest

from bussrv.errors import JournalError
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import (
    SegmentFile,
    list_segments,
    read_segment,
    segment_name,
    set_torn_tail_aside,
    torn_tail,
)
from tests.journal.support import note

LINES = [encode(Record(seq, 0, 0, "s", "b", note(f"n{seq}").event)) for seq in range(1, 4)]


def test_names_sort_as_records_do():
    assert segment_name(1) == "00000000000000000001.jsonl"
    assert segment_name(813) == "00000000000000000813.jsonl"
    numbers = [1, 9, 10, 99, 100, 2**63]
    assert sorted(map(segment_name, numbers)) == [segment_name(number) for number in numbers]


def test_only_segments_are_listed(tmp_path):
    for name in ("lock", segment_name(7), segment_name(1), segment_name(7) + ".torn", "notes.jsonl", "0x1.jsonl"):
        tmp_path.joinpath(name).touch()
    assert list_segments(tmp_path) == [tmp_path / segment_name(1), tmp_path / segment_name(7)]


def test_what_is_no_directory_cannot_be_listed(tmp_path):
    with pytest.raises(JournalError, match=r"cannot read the journal directory .*missing"):
        list_segments(tmp_path / "missing")


def test_an_unfinished_last_line_is_no_record(tmp_path):
    path = tmp_path / segment_name(1)
    path.write_bytes(b"".join(LINES)[:-1])
    assert [record.seq for record in read_segment(path)] == [1, 2]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / segment_name(1)
    path.write_bytes(LINES[0] + LINES[1].replace(b'"seq"', b'"sea"') + LINES[2])
    with pytest.raises(JournalError, match=rf"{path}, line 2: not a journal record"):
        list(read_segment(path))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("before", [b"", b"x\n", b"x" * 65_535 + b"\n", b"\n" * 3])
def test_the_torn_tail_is_what_follows_the_last_newline(tmp_path, before, size):
    path = tmp_path / segment_name(1)
    path.write_bytes(before + b"y" * size)
    assert torn_tail(path) == b"y" * size
    assert set_torn_tail_aside(path) == size
    assert path.read_bytes() == before
    aside = path.with_name(path.name + ".torn")
    assert aside.exists() == bool(size)
    if size:
        assert aside.read_bytes() == b"y" * size
    assert set_torn_tail_aside(path) == 0


@pytest.mark.parametrize("number", range(6))
def test_what_is_set_aside_is_durable_before_it_is_cut_off(tmp_path, disk, number):
    path = tmp_path / segment_name(1)
    path.write_bytes(LINES[0] + b"torn")
    disk.fail_at([number])
    with pytest.raises(OSError, match="Input/output error"):
        set_torn_tail_aside(path)
    # Making the aside file durable is the first open and sync of six; until then nothing is cut off.
    assert path.read_bytes() == LINES[0] + (b"torn" if number < 2 else b"")
    assert path.with_name(path.name + ".torn").read_bytes() == b"torn"
    disk.fail_at([])
    set_torn_tail_aside(path)
    assert path.read_bytes() == LINES[0]
    assert path.with_name(path.name + ".torn").read_bytes() == b"torn"


def test_a_segment_grows_and_is_cut_back_to_what_is_good(tmp_path):
    file = SegmentFile(tmp_path, 5)
    assert file.path == tmp_path / segment_name(5)
    file.write(LINES[0])
    file.mark_good()
    file.write(LINES[1])
    assert file.size == len(LINES[0] + LINES[1])
    file.abandon()
    assert file.path.read_bytes() == LINES[0]


def test_a_segment_without_anything_good_is_removed(tmp_path):
    file = SegmentFile(tmp_path, 5)
    file.write(LINES[0])
    file.abandon()
    assert list_segments(tmp_path) == []


def test_an_empty_segment_that_was_left_behind_is_used(tmp_path):
    tmp_path.joinpath(segment_name(5)).touch()
    file = SegmentFile(tmp_path, 5)
    file.write(LINES[0])
    file.close()
    assert file.path.read_bytes() == LINES[0]


def test_a_segment_that_holds_something_is_left_alone(tmp_path):
    path = tmp_path / segment_name(5)
    path.write_bytes(LINES[0])
    with pytest.raises(FileExistsError):
        SegmentFile(tmp_path, 5)
    assert path.read_bytes() == LINES[0]


def test_a_disk_that_takes_little_at_once_is_given_it_all(tmp_path, disk, monkeypatch):
    write = disk.write
    monkeypatch.setattr(disk, "write", lambda descriptor, data: write(descriptor, data[:7]), raising=False)
    file = SegmentFile(tmp_path, 1)
    file.write(LINES[0])
    file.close()
    assert file.path.read_bytes() == LINES[0]
    assert disk.calls["write"] > 5
