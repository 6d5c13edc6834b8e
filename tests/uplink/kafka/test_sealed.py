"""Sealed records, read while a server writes them."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation
from bussrv.journal.chain import line_hash
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import read_header
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.uplink.kafka.sealed import Mark, MissingRecords, OtherJournal, SealedJournal, SealedRecord
from tests.journal.kept import Kept
from tests.journal.support import FakeClock, every_record

SMALL = Rotation(bytes=900)
INTERVAL = UpkeepPolicy().seal_interval


def kept(directory: Path, **options: object) -> Kept:
    """A server with a new journal."""
    directory.mkdir(exist_ok=True)
    return Kept(directory, **options)


def read_all(journal: SealedJournal) -> list[SealedRecord]:
    found: list[SealedRecord] = []
    while page := journal.page():
        found += page
    return found


def mark_of(record: SealedRecord) -> Mark:
    return Mark(record.seq, record.hash, record.boot, "the topic")


def begun(directory: Path, mark: Mark | None = None, *, skips: bool = False) -> SealedJournal:
    journal = SealedJournal(directory, skips_missing=skips)
    journal.begin(mark)
    return journal


def lines_of(directory: Path) -> list[bytes]:
    """The lines of all records, as they stand in the segments, and whatever is sealed."""
    found = []
    for path in list_segments(directory):
        found += [line for line in path.read_bytes().splitlines() if b'"seq":' in line[:100]]
    return found


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 5)),
        st.sampled_from([("seal", 0), ("crash", 0), ("stop", 0), ("read", 0), ("resume", 0)]),
    ),
    max_size=30,
)


@given(actions=ACTIONS)
def test_each_sealed_record_comes_once_in_order(actions: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as name:
        directory, clock, count = Path(name), FakeClock(), 0
        server = Kept(directory, clock=clock, rotation=SMALL)
        server.write("first")
        journal, sent = begun(directory), list[SealedRecord]()
        for action, size in [*actions, ("stop", 0), ("read", 0)]:
            if action == "write":
                server.write(*(f"ann{count + each}" for each in range(size)))
                count += size
            elif action == "seal":
                server.idle(INTERVAL)
            elif action == "read":
                sent += read_all(journal)
                sealed = [seal.last_seq or 0 for seal in read_manifest(directory / MANIFEST_NAME).seals.values()]
                assert len(sent) == max(sealed) == journal.last_sealed
            elif action == "resume":
                journal = begun(directory, mark_of(sent[-1]) if sent else None)
            else:
                if action == "stop":
                    server.end()
                server = Kept(directory, clock=clock, rotation=SMALL)
        assert [each.text for each in sent] == lines_of(directory)[: len(sent)]
        assert [each.seq for each in sent] == [*range(1, len(sent) + 1)]
        assert all(each.hash == line_hash(each.text) for each in sent)


def test_an_unsealed_record_waits_and_may_become_another(tmp_path: Path) -> None:
    """A batch that the disk did not take is cut off, and its numbers are used again."""
    for name in ("as-lost", "as-kept"):
        server = kept(tmp_path / name)
        server.write("ann")
        server.write("lost" if name == "as-lost" else "kept")
        if name == "as-kept":
            server.idle(INTERVAL)
    directory, other = tmp_path / "as-lost", tmp_path / "as-kept"
    journal = begun(directory)
    assert [each.seq for each in read_all(journal)] == [1]
    (path,) = list_segments(directory)
    path.write_bytes((other / path.name).read_bytes())
    shutil.copy(other / MANIFEST_NAME, directory / MANIFEST_NAME)
    (record,) = read_all(journal)
    assert (record.seq, b'"actor":"kept"' in record.text) == (2, True)


@pytest.fixture
def pruned(tmp_path: Path) -> Path:
    """A journal of which only the last records are left, in two compressed segments and one that is not."""
    directory = tmp_path / "journal"
    server = kept(directory, rotation=SMALL, policy=UpkeepPolicy(compress=True))
    for number in range(24):
        server.write(f"ann{number}")
    server.end()
    for path in list_segments(directory)[:-3]:
        path.unlink()
    shutil.copytree(directory, tmp_path / "whole")
    return directory


def test_the_first_record_that_is_left_comes_first(pruned: Path) -> None:
    first = int(list_segments(pruned)[0].name.partition(".")[0])
    assert first > 1
    (record, *_) = read_all(begun(pruned))
    assert (record.seq, record.missing) == (first, None)


def test_records_that_are_gone_are_told(pruned: Path) -> None:
    first = int(list_segments(pruned)[0].name.partition(".")[0])
    mark = Mark(2, "0" * 64, "boot", "the topic")
    with pytest.raises(MissingRecords, match=f"records 3 to {first - 1} cannot be sent") as caught:
        begun(pruned, mark)
    assert (caught.value.first, caught.value.last) == (3, first - 1)
    (record, following, *_) = read_all(begun(pruned, mark, skips=True))
    assert (record.seq, record.missing, following.missing) == (first, (3, first - 1), None)


def test_the_header_proves_the_record_before_it(pruned: Path) -> None:
    first = int(list_segments(pruned)[0].name.partition(".")[0])
    (line, *_) = [each for each in every_record(pruned) if each.seq == first]
    hashed = read_header(list_segments(pruned)[0]).prev
    assert read_all(begun(pruned, Mark(first - 1, hashed, "boot")))[0].seq == line.seq
    with pytest.raises(OtherJournal, match=f"record {first - 1} of server server at the topic"):
        begun(pruned, Mark(first - 1, "0" * 64, "boot", "the topic"))


def test_another_journal_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        server = kept(tmp_path / name)
        server.write("ann", name)
        server.end()
    (*_, last) = read_all(begun(tmp_path / "one"))
    with pytest.raises(OtherJournal, match=r"hash .* is not record 2 .* this is another journal"):
        begun(tmp_path / "other", mark_of(last))
    with pytest.raises(OtherJournal, match=r"the topic has record 9 .* is sealed up to record 2: this"):
        begun(tmp_path / "other", Mark(9, last.hash, "boot", "the topic"))
    with pytest.raises(JournalError, match="holds no journal"):
        SealedJournal(tmp_path)


def test_a_changed_segment_is_not_sent_unless_it_is_left_out(tmp_path: Path) -> None:
    server = Kept(tmp_path, rotation=SMALL)
    for number in range(24):
        server.write(f"ann{number}")
    server.end()
    first, second, *_ = (int(path.name.partition(".")[0]) for path in list_segments(tmp_path)[1:])
    path = list_segments(tmp_path)[1]
    path.write_bytes(path.read_bytes().replace(b'"actor":"ann', b'"actor":"bob', 1))
    journal = begun(tmp_path)
    assert len(journal.page()) == first - 1
    for _ in range(2):
        with pytest.raises(JournalError, match="is not what was sealed"):
            journal.page()
    found = read_all(begun(tmp_path, skips=True))
    assert [(each.seq, each.missing) for each in found[first - 1 : first]] == [(second, (first, second - 1))]
    mark = Mark(first, "0" * 64, "boot", "the topic")
    with pytest.raises(JournalError, match="is not what was sealed"):
        begun(tmp_path, mark)
    after = read_all(begun(tmp_path, mark, skips=True))[0]
    assert (after.seq, after.missing) == (second, (first + 1, second - 1))


def test_a_manifest_that_was_changed_is_refused(tmp_path: Path) -> None:
    server = Kept(tmp_path)
    server.write("ann")
    journal = begun(tmp_path)
    assert len(read_all(journal)) == 1
    server.idle(INTERVAL)
    server.write("bob")
    server.idle(INTERVAL)
    path = tmp_path / MANIFEST_NAME
    path.write_bytes(path.read_bytes().replace(b'"entry":2', b'"entry":5'))
    with pytest.raises(JournalError, match="manifest, line 2: it is entry 5"):
        journal.page()
