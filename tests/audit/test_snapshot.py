from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bussrv.audit.fold.segments import read_segment
from bussrv.audit.reading.judged import tables
from bussrv.audit.reading.snapshot import JournalSnapshot, choose
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.reading.stripes import sources_of
from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.record import encode
from bussrv.journal.segment import segment_name
from tests.audit.journals import compress, day, write_journal, write_lines


@contextmanager
def taken(*journals: Path, since: int | None = None, until: int | None = None) -> Iterator[JournalSnapshot]:
    """A snapshot of journals of this machine, which takes no Spark."""
    with take_snapshot([*map(str, journals)], since=since, until=until) as snapshot:
        yield snapshot


def contents(snapshot: JournalSnapshot) -> dict[str, bytes]:
    """The bytes that are read of each segment, by its name in the snapshot."""
    paths = {each.taken: each.path_in(snapshot.local) for each in snapshot.segments}
    return {taken + "".join(path.suffixes): path.read_bytes() for taken, path in paths.items()}


def test_segments_are_taken_under_the_index_of_their_journal(tmp_path: Path) -> None:
    records = day().records
    one = write_journal(tmp_path / "one [*]", records[:4], records[4:])
    two = write_journal(tmp_path / "two", records)
    for name in (f"{segment_name(9)}.torn", f"{segment_name(9)}.new", "manifest.jsonl", "rotate"):
        (one / name).write_bytes(b"aside")
    files = [one / segment_name(1), one / segment_name(5), two / segment_name(1)]
    wanted = {f"{index}/{path.name}": path.read_bytes() for index, path in zip((0, 0, 1), files, strict=True)}
    with taken(one, two) as snapshot:
        assert [journal.location for journal in snapshot.journals] == [str(one), str(two)]
        assert [segment.file for segment in snapshot.segments] == [*map(str, files)]
        assert [f"{segment.taken}.jsonl" for segment in snapshot.segments] == list(wanted)
        assert sum(segment.bytes for segment in snapshot.segments) == sum(map(len, wanted.values()))
        assert {(each.torn, each.lines) for each in snapshot.segments} == {(0, 0)}
        assert contents(snapshot) == wanted
        # Only to the last segment of a journal a server may still write.
        assert [each.in_place for each in snapshot.segments] == [True, False, False]
        snapshot.check()
    assert not snapshot.local.exists()


def test_compressed_segments_are_taken_as_they_are(tmp_path: Path) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:4], records[4:])
    packed = [compress(journal / segment_name(number)) for number in (1, 5)]
    with taken(journal) as snapshot:
        assert contents(snapshot) == {f"0/{path.name}": path.read_bytes() for path in packed}
        assert [segment.is_compressed for segment in snapshot.segments] == [True, True]
        assert snapshot.segments[0].taken == "0/00000000000000000001"


def test_a_segment_that_is_there_twice_is_taken_as_it_was(tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    before = (journal / segment_name(1)).read_bytes()
    compress(journal / segment_name(1))
    (journal / segment_name(1)).write_bytes(before)
    with taken(journal) as snapshot:
        assert contents(snapshot) == {f"0/{segment_name(1)}": before}


def test_a_segment_that_goes_away_meanwhile_is_named(tmp_path: Path) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:4], records[4:])
    with taken(journal) as snapshot:
        compress(journal / segment_name(1))
        with pytest.raises(JournalError, match=r"0001\.jsonl went away while it was read, .*: try again"):
            snapshot.check()


def test_a_directory_named_twice_is_taken_once(tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    (tmp_path / "link").symlink_to(journal)
    with taken(journal, tmp_path / "link", Path(os.path.relpath(journal))) as snapshot:
        assert [each.location for each in snapshot.journals] == [str(journal)]


def test_what_a_running_server_writes_meanwhile_is_not_seen(tmp_path: Path) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:4], records[4:8])
    with taken(journal) as snapshot:
        before = contents(snapshot)
        with (journal / segment_name(5)).open("ab") as file:
            file.write(encode(records[8]))
        assert contents(snapshot) == before


@pytest.mark.parametrize("tail", [b"{", b'{"v":4', encode(day().records[8])[:-1]])
def test_an_unfinished_record_is_left_out(tmp_path: Path, tail: bytes) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:2], [*records[2:5], tail])
    whole = (journal / segment_name(3)).read_bytes().removesuffix(tail)
    with taken(journal) as snapshot:
        assert [(each.number, each.torn, each.lines) for each in snapshot.segments] == [(1, 0, 0), (3, len(tail), 5)]
        assert contents(snapshot)[f"0/{segment_name(3)}"] == whole
    assert (journal / segment_name(3)).read_bytes().endswith(tail)


def test_so_it_is_before_the_end(tmp_path: Path) -> None:
    records = day().records
    tail = encode(records[2])[:-1]
    journal = write_journal(tmp_path / "journal", [*records[:2], tail], records[3:])
    before = (journal / segment_name(1)).read_bytes()
    with taken(journal) as snapshot:
        assert [(each.number, each.torn, each.lines) for each in snapshot.segments] == [(1, len(tail), 3), (4, 0, 0)]
        assert contents(snapshot)[f"0/{segment_name(1)}"] == before.removesuffix(tail)
    assert (journal / segment_name(1)).read_bytes() == before


def test_a_journal_that_is_one_unfinished_record_holds_none(tmp_path: Path) -> None:
    journal = write_lines(tmp_path / "journal", [[b'{"v":4,']], [1])
    with pytest.raises(JournalError, match="holds no journal records"), taken(journal):
        pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "cannot read the journal directory .*journal: No such file"),
        (lambda path: path.touch(), "cannot read the journal directory .*journal: Not a directory"),
        (lambda path: path.mkdir(), "journal holds no journal records"),
        (lambda path: write_journal(path), "journal holds no journal records"),
        (lambda path: write_lines(path, [[]], [1]), "journal holds no journal records"),
        (lambda path: (path / segment_name(1)).mkdir(parents=True), "cannot read the segment .*jsonl: Is a directory"),
    ],
)
def test_what_is_no_journal_is_said(tmp_path: Path, make, said: str) -> None:  # type: ignore[no-untyped-def]
    sound = write_journal(tmp_path / "sound", day().records)
    make(tmp_path / "journal")
    with pytest.raises(JournalError, match=said), taken(sound, tmp_path / "journal"):
        pass


def test_a_segment_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = write_journal(tmp_path / "journal", day().records)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("bussrv.audit.reading.snapshot.read_regular", refuse)
    with (
        pytest.raises(JournalError, match=r"cannot read the segment .*0001\.jsonl: Permission denied"),
        taken(journal),
    ):
        pass


def test_a_period_takes_the_segments_that_may_hold_some_of_it(tmp_path: Path) -> None:
    """Each was begun when its first record was written."""
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:3], records[3:6], records[6:])
    paths = [journal / segment_name(number) for number in (1, 4, 7)]
    first, second, third = (records[number].time for number in (0, 3, 6))
    assert choose(paths, None, None) == paths
    assert choose(paths, first - 1, None) == paths
    assert choose(paths, second - 1, None) == paths
    assert choose(paths, second, None) == paths[1:]
    assert choose(paths, third + 1, None) == paths[2:]
    assert choose(paths, None, third) == paths[:2]
    assert choose(paths, second, second + 1) == paths[1:2]
    with pytest.raises(JournalError, match="holds no journal records before the end of the period"):
        choose(paths, None, first)
    with taken(journal, since=second, until=third) as snapshot:
        assert [segment.number for segment in snapshot.segments] == [4]
        assert snapshot.journals[0].numbers == {1, 4, 7}


def test_findings_that_are_not_listed_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FINDINGS", 3)
    journal = write_journal(tmp_path / "journal", [*day().records, *[b"junk\n"] * 50])
    with taken(journal) as snapshot:
        (source,), *_ = sources_of(snapshot)
        found = tables(snapshot, {source.taken: read_segment(source)[0]})["findings"].to_pylist()
    assert [each["line"] for each in found[:3]] == [11, 12, 13]
    assert [(each["kind"], each["segment"], each["file"], each["message"]) for each in found[3:]] == [
        ("bad-line", 1, str(journal / segment_name(1)), "and 47 more in this segment, which are not listed")
    ]
