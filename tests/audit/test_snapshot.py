from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from bussrv.audit.snapshot import TornTail, take_snapshot
from bussrv.errors import JournalError
from bussrv.journal.record import encode
from bussrv.journal.segment import segment_name
from tests.audit.journals import compress, day, write_journal, write_lines


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_segments_are_taken_under_the_index_of_their_journal(tmp_path: Path) -> None:
    records = day().records
    one = write_journal(tmp_path / "one [*]", records[:4], records[4:])
    two = write_journal(tmp_path / "two", records)
    for name in (f"{segment_name(9)}.torn", f"{segment_name(9)}.new", "manifest.jsonl", "rotate"):
        (one / name).write_bytes(b"aside")
    files = [one / segment_name(1), one / segment_name(5), two / segment_name(1)]
    taken = {f"{index}/{path.name}": path.read_bytes() for index, path in zip((0, 0, 1), files, strict=True)}
    with take_snapshot([one, two]) as snapshot:
        assert snapshot.journals == (one, two)
        assert [segment.path for segment in snapshot.segments] == files
        assert [segment.taken for segment in snapshot.segments] == list(taken)
        assert [segment.digest for segment in snapshot.segments] == [
            sha256(files[0].read_bytes()).hexdigest(),
            None,
            None,
        ]
        assert snapshot.size == sum(map(len, taken.values()))
        assert snapshot.torn_tails == ()
        assert contents(snapshot.root) == taken
        snapshot.check()
    assert not snapshot.root.exists()


def test_compressed_segments_are_taken_as_they_are_and_measured_as_they_were(tmp_path: Path) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:4], records[4:])
    before = (journal / segment_name(1)).read_bytes()
    packed = compress(journal / segment_name(1))
    last = compress(journal / segment_name(5))
    with take_snapshot([journal]) as snapshot:
        taken = {f"0/{path.name}": path.read_bytes() for path in (packed, last)}
        assert contents(snapshot.root) == taken
        assert snapshot.segments[0].bytes == len(before)
        assert snapshot.segments[0].digest == sha256(before).hexdigest()


def test_a_segment_that_is_there_twice_is_taken_as_it_was(tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    before = (journal / segment_name(1)).read_bytes()
    compress(journal / segment_name(1))
    (journal / segment_name(1)).write_bytes(before)
    with take_snapshot([journal]) as snapshot:
        assert contents(snapshot.root) == {f"0/{segment_name(1)}": before}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda packed: packed[:-20], "end-of-stream marker"),
        (lambda packed: b"{}" + packed, "Not a gzipped file"),
        (lambda packed: packed[:-8] + bytes(8), "CRC check failed"),
        (lambda packed: packed[:10] + b"\xff" * 40 + packed[50:], "Error -3"),
    ],
)
def test_what_cannot_be_decompressed_is_left_out(tmp_path: Path, damage, said: str) -> None:  # type: ignore[no-untyped-def]
    journal = write_journal(tmp_path / "journal", day().records)
    packed = compress(journal / segment_name(1))
    packed.write_bytes(damage(packed.read_bytes()))
    with take_snapshot([journal]) as snapshot:
        assert contents(snapshot.root) == {}
        (segment,) = snapshot.segments
        assert said in (segment.unreadable or "")
        snapshot.check()


def test_a_segment_that_goes_away_meanwhile_is_named(tmp_path: Path) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:4], records[4:])
    with take_snapshot([journal]) as snapshot:
        compress(journal / segment_name(1))
        with pytest.raises(JournalError, match=r"0001\.jsonl went away while it was read, .*: try again"):
            snapshot.check()


def test_a_directory_named_twice_is_taken_once(tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    (tmp_path / "link").symlink_to(journal)
    with take_snapshot([journal, tmp_path / "link", Path(os.path.relpath(journal))]) as snapshot:
        assert snapshot.journals == (journal,)


def test_what_a_running_server_writes_meanwhile_is_not_seen(tmp_path: Path) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:4], records[4:8])
    with take_snapshot([journal]) as snapshot:
        before = contents(snapshot.root)
        with (journal / segment_name(5)).open("ab") as file:
            file.write(encode(records[8]))
        assert contents(snapshot.root) == before


@pytest.mark.parametrize("tail", [b"{", b'{"v":2', encode(day().records[8])[:-1]])
def test_an_unfinished_record_is_left_out(tmp_path: Path, tail: bytes) -> None:
    records = day().records
    journal = write_journal(tmp_path / "journal", records[:2], [*records[2:5], tail])
    whole = (journal / segment_name(3)).read_bytes().removesuffix(tail)
    with take_snapshot([journal]) as snapshot:
        assert snapshot.torn_tails == (TornTail(journal / segment_name(3), line=6, size=len(tail), last=True),)
        assert contents(snapshot.root)[f"0/{segment_name(3)}"] == whole
    assert (journal / segment_name(3)).read_bytes().endswith(tail)


def test_so_it_is_before_the_end(tmp_path: Path) -> None:
    records = day().records
    tail = encode(records[2])[:-1]
    journal = write_journal(tmp_path / "journal", [*records[:2], tail], records[3:])
    before = (journal / segment_name(1)).read_bytes()
    with take_snapshot([journal]) as snapshot:
        assert snapshot.torn_tails == (TornTail(journal / segment_name(1), 4, len(tail), last=False),)
        assert contents(snapshot.root)[f"0/{segment_name(1)}"] == before.removesuffix(tail)
    assert (journal / segment_name(1)).read_bytes() == before


def test_a_journal_that_is_one_unfinished_record_holds_none(tmp_path: Path) -> None:
    journal = write_lines(tmp_path / "journal", [[b'{"v":2,']], [1])
    with pytest.raises(JournalError, match="holds no journal records"), take_snapshot([journal]):
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
    with pytest.raises(JournalError, match=said), take_snapshot([sound, tmp_path / "journal"]):
        pass


def test_a_segment_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = write_journal(tmp_path / "journal", day().records)

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr("shutil.copyfile", refuse)
    with (
        pytest.raises(JournalError, match=r"cannot read the segment .*0001\.jsonl: Permission denied"),
        take_snapshot([journal]),
    ):
        pass
