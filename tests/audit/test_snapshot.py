from __future__ import annotations

import os
from pathlib import Path

import pytest

from bussrv.audit.snapshot import TornTail, take_snapshot
from bussrv.errors import JournalError
from bussrv.journal.segment import segment_name
from tests.audit.journals import day, lines, write_journal


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_segments_are_taken_under_the_index_of_their_journal(tmp_path: Path) -> None:
    records = lines(day().records)
    one = write_journal(tmp_path / "one [*]", records[:4], records[4:])
    two = write_journal(tmp_path / "two", records)
    (one / f"{segment_name(9)}.torn").write_bytes(b"aside")
    with take_snapshot([one, two]) as snapshot:
        assert snapshot.journals == (one, two)
        assert snapshot.segments == 3
        assert snapshot.size == 2 * len(b"".join(records))
        assert snapshot.torn_tails == ()
        assert contents(snapshot.root) == {
            f"0/{segment_name(1)}": b"".join(records[:4]),
            f"0/{segment_name(5)}": b"".join(records[4:]),
            f"1/{segment_name(1)}": b"".join(records),
        }
    assert not snapshot.root.exists()


def test_a_directory_named_twice_is_taken_once(tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", lines(day().records))
    (tmp_path / "link").symlink_to(journal)
    with take_snapshot([journal, tmp_path / "link", Path(os.path.relpath(journal))]) as snapshot:
        assert snapshot.journals == (journal,)


def test_what_a_running_server_writes_meanwhile_is_not_seen(tmp_path: Path) -> None:
    records = lines(day().records)
    journal = write_journal(tmp_path / "journal", records[:4], records[4:8])
    with take_snapshot([journal]) as snapshot:
        before = contents(snapshot.root)
        with (journal / segment_name(5)).open("ab") as file:
            file.write(records[8])
        assert contents(snapshot.root) == before


@pytest.mark.parametrize("tail", [b"{", b'{"v":1', lines(day().records)[8][:-1]])
def test_an_unfinished_record_is_left_out(tmp_path: Path, tail: bytes) -> None:
    records = lines(day().records)
    journal = write_journal(tmp_path / "journal", records[:2], [*records[2:5], tail])
    with take_snapshot([journal]) as snapshot:
        assert snapshot.torn_tails == (TornTail(journal / segment_name(3), line=4, size=len(tail), last=True),)
        assert contents(snapshot.root)[f"0/{segment_name(3)}"] == b"".join(records[2:5])
    assert (journal / segment_name(3)).read_bytes().endswith(tail)


def test_so_it_is_before_the_end(tmp_path: Path) -> None:
    records = lines(day().records)
    journal = write_journal(tmp_path / "journal", [*records[:2], records[2][:-1]], records[3:])
    with take_snapshot([journal]) as snapshot:
        assert snapshot.torn_tails == (TornTail(journal / segment_name(1), 3, len(records[2]) - 1, last=False),)
        assert contents(snapshot.root)[f"0/{segment_name(1)}"] == b"".join(records[:2])


def test_a_journal_that_is_one_unfinished_record_holds_none(tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", [b'{"v":1,'])
    with pytest.raises(JournalError, match="holds no journal records"), take_snapshot([journal]):
        pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "cannot read the journal directory .*journal: No such file"),
        (lambda path: path.touch(), "cannot read the journal directory .*journal: Not a directory"),
        (lambda path: path.mkdir(), "journal holds no journal records"),
        (lambda path: write_journal(path), "journal holds no journal records"),
        (lambda path: write_journal(path, []), "journal holds no journal records"),
        (lambda path: (path / segment_name(1)).mkdir(parents=True), "cannot read the segment .*jsonl: Is a directory"),
    ],
)
def test_what_is_no_journal_is_said(tmp_path: Path, make, said: str) -> None:  # type: ignore[no-untyped-def]
    sound = write_journal(tmp_path / "sound", lines(day().records))
    make(tmp_path / "journal")
    with pytest.raises(JournalError, match=said), take_snapshot([sound, tmp_path / "journal"]):
        pass


def test_a_segment_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = write_journal(tmp_path / "journal", lines(day().records))

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr("shutil.copyfile", refuse)
    with (
        pytest.raises(JournalError, match=r"cannot read the segment .*0001\.jsonl: Permission denied"),
        take_snapshot([journal]),
    ):
        pass
