"""Hostile journals: the audit reads no more than the bounds allow, and finds what ``verify`` and the oracle find."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.audit.fold import segments
from bussrv.audit.fold.lines import SegmentContent
from bussrv.audit.fold.segments import SegmentSource, read_segment
from bussrv.audit.job import audit
from bussrv.audit.reading import remote
from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.segment import compressed_path, list_segments, segment_name
from tests.audit.conftest import without_patience, without_report
from tests.audit.journals import day, write_journal
from tests.audit.oracles import integrity
from tests.inspection.journals import clean_journal
from tests.journal.test_bounds import HARMS, append, last

pytestmark = [pytest.mark.dear, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    with without_patience(), without_report():
        yield


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that the journal itself does not exceed."""
    monkeypatch.setattr(bounds, "SEGMENT", 200_000)
    monkeypatch.setattr(bounds, "SEGMENT_LINES", 1000)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    clean_journal(tmp_path / "journal", 1)
    return tmp_path / "journal"


def kinds(journal: Path) -> Counter[str]:
    """How often each kind about the journal as such is found."""
    found = audit(None, [journal], journal.parent / "out").summary["kinds"]
    return Counter({kind: number for kind, number in found.items() if kind in integrity.KINDS | {"bad-manifest"}})


def expected(journal: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for (kind, *_), number in integrity.audit([journal]).items():
        found[kind] += number
    return found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["a bomb", "empty lines", "zeros"])
def test_a_segment_beyond_the_bounds_is_one_finding(journal: Path, name: str) -> None:
    assert kinds(journal) == expected(journal) == Counter()
    harm, _ = HARMS[name]
    harm(journal)
    assert kinds(journal) == expected(journal) == Counter({"unreadable-segment": 1})


def test_what_follows_the_manifest_is_one_finding(journal: Path) -> None:
    append(journal / MANIFEST_NAME, b"[" * 300_000)
    assert kinds(journal) == Counter({"bad-manifest": 1})


def test_an_unfinished_record_is_not_longer_than_a_line(tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    append(last(journal), b"[" * bounds.MAX_LINE)
    assert kinds(journal) == Counter({"bad-line": 1})


def test_a_segment_that_is_all_wrong_has_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[SegmentContent] = []
    monkeypatch.setattr(segments, "read_lines", lambda *given, **named: read.append(named))
    monkeypatch.setattr(bounds, "BAD_LINES", 20)
    path = tmp_path / segment_name(1)
    path.write_bytes(b"junk\n" * 100)
    found, none = read_segment(SegmentSource(segment_name(1), str(path), 1, 500))
    assert (none, read) == (None, [])
    assert found.judged is not None
    assert found.judged.is_over
    assert "this line and all after it are not judged" in found.judged.findings[-1].message


def test_content_that_is_given_has_the_same_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SEGMENT", 1000)
    for content, name in ((bytes(1001), "x.jsonl"), (gzip.compress(bytes(1001)), "x.jsonl.gz")):
        found, read = read_segment(SegmentSource("x", f"hdfs://{name}", 1, 500), content)
        assert read is None
        assert found.unreadable == "the segment is read no further: it has more than 1000 bytes, which no server writes"


def test_findings_of_many_segments_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ALL_FINDINGS", 10)
    journal = write_journal(tmp_path / "journal", day().records)
    for number in range(20):
        (journal / segment_name(1000 + number)).write_bytes(b"junk\n" * 5)
    summary = audit(None, [journal], tmp_path / "out").summary
    assert "which are not listed" in str(summary["findings"])
    assert sum(summary["kinds"].values()) < 20


def test_a_copy_beside_its_segment_is_not_read(journal: Path) -> None:
    """A crash while a segment is compressed leaves it."""
    path = list_segments(journal)[0]
    compressed_path(path).write_bytes(gzip.compress(bytes(10)))
    assert kinds(journal) == Counter()


def test_a_manifest_at_a_url_is_not_fetched_if_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stored:
        def files(self) -> Iterator[remote.RemoteFile]:
            yield remote.RemoteFile(MANIFEST_NAME, bounds.MANIFEST + 1, "")
            yield remote.RemoteFile(segment_name(1), remote.LARGEST_FETCHED + 1, "")

        def fetch(self, name: str, target: Path) -> None:
            raise AssertionError(name)

    with pytest.raises(JournalError, match=r"the manifest of s3://a is too large \(1073741825 bytes\)"):
        remote.take_remote(Stored(), "s3://a", 0, tmp_path, None)
