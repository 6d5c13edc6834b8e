"""Segments: names, torn tails, extents, and the file that is written."""

import errno
import gzip
import os
from contextlib import nullcontext
from hashlib import sha256

import pytest
from msgspec.structs import replace

from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.digests import digests_of
from bussrv.journal.header import Header, Previous, decode_header, decode_part, encode_header
from bussrv.journal.outside_changes import Changed
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import (
    CORRUPT,
    Extent,
    SegmentFile,
    first_seq,
    is_compressed,
    is_there,
    list_segments,
    segment_name,
    set_end_aside,
    torn_size,
)
from tests.journal.support import contents, note

HEADER = Header(prev=START, segment=5, parts=0, time=0, server="hall", boot="boot")
BEGINNING = encode_header(HEADER)
RECORDS = [Record(seq, seq * 10, 0, "hall", "boot", note(f"n{seq}").event) for seq in range(5, 8)]
LINES = [encode(record) for record in RECORDS]
GOOD = len(BEGINNING + LINES[0])


def write(file, *numbers):
    file.write(
        b"".join(LINES[number] for number in numbers), line_hash(LINES[numbers[-1]]), [RECORDS[n] for n in numbers]
    )


def grown(directory, disk=None):
    """A segment with one good record and one that is not."""
    file = SegmentFile(directory, HEADER, [], *([disk] if disk else []))
    write(file, 0)
    file.mark_good()
    write(file, 1)
    return file


# Names.


def test_names_sort_as_records_do():
    assert segment_name(1) == "00000000000000000001.jsonl"
    assert segment_name(813) == "00000000000000000813.jsonl"
    numbers = [1, 9, 10, 99, 100, 2**63]
    assert sorted(map(segment_name, numbers)) == [segment_name(number) for number in numbers]


def test_only_segments_are_listed(tmp_path):
    for name in (
        "lock",
        "manifest.jsonl",
        segment_name(7),
        segment_name(1) + ".gz",
        segment_name(7) + ".torn",
        segment_name(9) + ".new",
        segment_name(9) + ".gz.new",
        "notes.jsonl",
        "0x1.jsonl",
        segment_name(2**63),
        "9" * 20 + ".jsonl",
    ):
        tmp_path.joinpath(name).touch()
    found = list_segments(tmp_path)
    assert found == [tmp_path / (segment_name(1) + ".gz"), tmp_path / segment_name(7)]
    assert [first_seq(path) for path in found] == [1, 7]
    assert [is_compressed(path) for path in found] == [True, False]
    assert [is_there(tmp_path, number) for number in (1, 7, 9)] == [True, True, False]


def test_of_a_segment_that_is_there_twice_the_plain_one_counts(tmp_path):
    for name in (segment_name(7) + ".gz", segment_name(7)):
        tmp_path.joinpath(name).touch()
    assert list_segments(tmp_path) == [tmp_path / segment_name(7)]


def test_what_is_no_directory_cannot_be_listed(tmp_path):
    with pytest.raises(JournalError, match=r"cannot read the journal directory .*missing"):
        list_segments(tmp_path / "missing")


# What a segment ends with.


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("before", [b"", b"x\n", b"x" * 65_535 + b"\n", b"\n" * 3])
def test_the_torn_tail_is_what_follows_the_last_newline(tmp_path, before, size):
    path = tmp_path / segment_name(1)
    path.write_bytes(before + b"y" * size)
    assert torn_size(path) == size


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1])
def test_what_is_set_aside_is_kept_beside_the_segment(tmp_path, size):
    path = tmp_path / segment_name(1)
    path.write_bytes(b"good\n" + b"y" * size)
    set_end_aside(path, 5)
    assert path.read_bytes() == b"good\n"
    assert path.with_name(path.name + ".torn").read_bytes() == b"y" * size


SETTING_ASIDE = ["create", "write", "sync", "sync_directory", "reopen", "truncate", "sync"]


@pytest.mark.parametrize("number", range(len(SETTING_ASIDE)))
def test_what_is_set_aside_is_durable_before_it_is_cut_off(tmp_path, disk, number):
    path = tmp_path / segment_name(1)
    path.write_bytes(LINES[0] + b"torn")
    disk.fail_at([number])
    with pytest.raises(OSError, match="Input/output error"):
        set_end_aside(path, len(LINES[0]), disk)
    assert disk.calls[SETTING_ASIDE[number]]
    assert path.read_bytes() == LINES[0] + (b"torn" if number < 6 else b"")
    disk.fail_at([])
    if number < 6:
        set_end_aside(path, len(LINES[0]), disk)
    assert path.read_bytes() == LINES[0]
    assert path.with_name(path.name + ".torn").read_bytes() == b"torn"


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("size", [None, 0, 1, 1 << 20, 1 << 30])
def test_the_digest_is_that_of_what_was_written(tmp_path, compress, size):
    data = b"x" * ((1 << 20) + 7)
    path = tmp_path / (segment_name(1) + ".gz" * compress)
    path.write_bytes(gzip.compress(data) if compress else data)
    found = digests_of(path, [] if size is None else [size])
    assert (found.size, found.digest) == (len(data), sha256(data).hexdigest())
    is_there = size is not None and size <= len(data)
    assert found.beginnings == ({size: sha256(data[:size]).hexdigest()} if is_there else {})


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"x" + data, lambda data: data[:10] + b"\xff" * 9]
)
def test_what_cannot_be_decompressed(tmp_path, damage):
    path = tmp_path / (segment_name(1) + ".gz")
    path.write_bytes(damage(gzip.compress(b"x" * 1000)))
    with pytest.raises(CORRUPT):
        digests_of(path)


# A segment that is written.


def test_a_segment_begins_with_header_and_snapshot(tmp_path):
    states = [b'{"sessions":[]}', b'{"services":{}}']
    file = SegmentFile(tmp_path, replace(HEADER, parts=2), states)
    header, *parts = file.path.read_bytes().splitlines()
    assert decode_header(header) == replace(HEADER, parts=2)
    found = [decode_part(text) for text in parts]
    assert [bytes(part.state) for part in found] == states
    assert [(part.snapshot, part.part) for part in found] == [(5, 1), (5, 2)]
    assert [part.prev for part in found] == [line_hash(header), line_hash(parts[0])]
    assert file.good.hash == line_hash(parts[1])
    assert (file.good.records, file.good.bytes) == (0, file.path.stat().st_size)
    file.close()


def test_a_segment_grows_and_knows_its_extent(tmp_path):
    file = SegmentFile(tmp_path, HEADER, [])
    assert file.path == tmp_path / segment_name(5)
    assert file.good.extent() == Extent(segment=5, bytes=len(BEGINNING), digest=sha256(BEGINNING).hexdigest())
    for numbers in ((0,), (1, 2)):
        before = file.good.extent()
        write(file, *numbers)
        assert file.good.extent() == before
        file.mark_good()
    file.close()
    data = BEGINNING + b"".join(LINES)
    assert file.path.read_bytes() == data
    extent = Extent(
        segment=5,
        bytes=len(data),
        digest=sha256(data).hexdigest(),
        records=3,
        first_seq=5,
        last_seq=7,
        first_time=50,
        last_time=70,
    )
    assert file.good.extent() == extent
    assert extent.as_previous() == Previous(5, len(data), sha256(data).hexdigest())
    assert file.good.hash == line_hash(LINES[2])


def test_a_segment_is_cut_back_to_what_is_good(tmp_path):
    file = grown(tmp_path)
    assert file.path.read_bytes() == BEGINNING + LINES[0] + LINES[1]
    file.cut_back()
    file.close()
    assert file.path.read_bytes() == BEGINNING + LINES[0]
    assert (file.good.bytes, file.good.records, file.good.hash) == (len(BEGINNING + LINES[0]), 1, line_hash(LINES[0]))


def test_a_segment_without_a_good_record_is_removed(tmp_path):
    file = SegmentFile(tmp_path, HEADER, [])
    write(file, 0)
    file.cut_back()
    file.close()
    assert contents(tmp_path) == {}


def test_what_is_written_to_a_file_that_is_gone_is_an_error(tmp_path):
    file = grown(tmp_path)
    file.path.unlink()
    write(file, 2)
    with pytest.raises(Changed, match=f"another program changed {file.path}: it was removed"):
        file.check()
    file.close()


@pytest.mark.parametrize("left", [0, 1, len(BEGINNING), GOOD - len(LINES[0]) + 1, GOOD - 1, GOOD])
@pytest.mark.parametrize("written", [0, 1, GOOD, None])
def test_what_was_cut_off_before_a_write_of_any_size_is_missed(tmp_path, left, written, monkeypatch):
    file = SegmentFile(tmp_path, HEADER, [])
    write(file, 0)
    file.mark_good()
    assert file.path.stat().st_size == GOOD
    os.truncate(file.path, left)
    data = LINES[1] * 4

    def write_part(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:written])
        raise OSError(errno.ENOSPC, "no room")

    if written is not None:
        monkeypatch.setattr(file._files, "write", write_part)
    with pytest.raises(OSError, match="no room") if written is not None else nullcontext():
        file.write(data, line_hash(LINES[1]), [])
    found = file.change()
    file.close()
    assert (found is None) is (left == GOOD)
    if found is not None:
        assert "it was cut" in found.what
        # Nothing that was written after the cut counts as what was there before it.
        assert found.left <= left


MAKING = ["create", "write", "sync", "rename", "sync_directory", "reopen"]


@pytest.mark.parametrize("span", [1, 2, 3])
@pytest.mark.parametrize("number", range(len(MAKING)))
def test_a_segment_that_could_not_be_made_is_made_later(tmp_path, disk, number, span):
    disk.fail_at(range(number, number + span))
    with pytest.raises(OSError, match="Input/output error"):
        SegmentFile(tmp_path, HEADER, [], disk)
    assert disk.calls[MAKING[number]]
    disk.fail_at([])
    file = SegmentFile(tmp_path, HEADER, [], disk)
    write(file, 0)
    file.close()
    assert contents(tmp_path) == {segment_name(5): BEGINNING + LINES[0]}


def test_it_appears_when_header_and_snapshot_are_on_the_disk(tmp_path, disk, monkeypatch):
    calls = []
    monkeypatch.setattr(disk, "_call", calls.append)
    SegmentFile(tmp_path, HEADER, [], disk).close()
    assert calls == MAKING


@pytest.mark.parametrize("data", [BEGINNING + LINES[0], BEGINNING + LINES[0][:9], LINES[0], b""])
def test_a_segment_that_holds_something_is_left_alone(tmp_path, data):
    path = tmp_path / segment_name(5)
    path.write_bytes(data)
    with pytest.raises(FileExistsError):
        SegmentFile(tmp_path, HEADER, [])
    assert contents(tmp_path) == {path.name: data}


def test_a_segment_with_a_snapshot_and_no_record_is_made_anew(tmp_path):
    with_snapshot = replace(HEADER, parts=1)
    for state in (b'{"first":1}', b'{"second":2}'):
        SegmentFile(tmp_path, with_snapshot, [state]).close()
    (kept,) = contents(tmp_path).values()
    assert b"second" in kept
    assert b"first" not in kept


def test_a_disk_that_takes_little_at_once_is_given_it_all(tmp_path, monkeypatch):
    write_some = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write_some(descriptor, data[:7]))
    file = SegmentFile(tmp_path, HEADER, [])
    write(file, 0)
    file.close()
    assert file.path.read_bytes() == BEGINNING + LINES[0]
