"""What is kept from one audit to the next: everything comes out as if nothing were, and less is read."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from bussrv.audit.job import audit
from bussrv.audit.reading.checkpoint import MARKER, Checkpoint, CheckpointRefused, opened
from bussrv.audit.tables.kinds import PUBLISHED
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.segment import is_compressed, list_segments
from tests.audit.conftest import Rows, Whole, without_report
from tests.audit.days import Shape, write_days
from tests.audit.ingested import Ingested, ingested
from tests.audit.journals import compress

pytestmark = pytest.mark.timeout(1200)

LONG_AGO = 1_500_000_000


class Halls:
    """Two journals of which one grows, and what is kept of them."""

    def __init__(self, root: Path, spark: SparkSession, whole: Whole) -> None:
        self.root = root
        self.spark = spark
        self.whole = whole.hall
        self.hall, self.barn = root / "the hall [1]", whole.barn
        self.kept = root / "kept [1]"
        self._reads = 0

    @property
    def segments(self) -> list[Path]:
        return list_segments(self.hall)

    def begin(self) -> None:
        """The journal as it was when its fourth segment was closed, and the next one had grown for a while."""
        self.hall.mkdir()
        *closed, growing = list_segments(self.whole)[:5]
        for path in closed:
            shutil.copy2(path, self.hall)
        lines = growing.read_bytes().splitlines(keepends=True)
        text = b"".join(lines[: len(lines) // 2])
        (self.hall / growing.name).write_bytes(text)
        entries = (self.whole / MANIFEST_NAME).read_bytes().splitlines(keepends=True)
        until = next(index for index, entry in enumerate(entries) if self._is_later(json.loads(entry), growing, text))
        (self.hall / MANIFEST_NAME).write_bytes(b"".join(entries[:until]))

    def _is_later(self, entry: dict[str, int], growing: Path, text: bytes) -> bool:
        number = int(growing.name.partition(".")[0])
        return entry.get("segment", 0) > number or (entry.get("segment") == number and entry["bytes"] > len(text))

    def go_on(self) -> None:
        """The rest of the journal; those segments that are there stay the same files."""
        for path in list_segments(self.whole)[4:]:
            (self.hall / path.name).write_bytes(path.read_bytes())
        (self.hall / MANIFEST_NAME).write_bytes((self.whole / MANIFEST_NAME).read_bytes())

    @property
    def batches(self) -> set[str]:
        """The names of those of lines that are kept."""
        return {path.name for path in (self.kept / "lines").iterdir()}

    def read(self, *journals: Path) -> Ingested:
        return self._read(journals, None)

    def read_on(self, *journals: Path) -> Ingested:
        """The same with what is kept."""
        return self._read(journals, self.kept)

    def _read(self, journals: tuple[Path, ...], kept: Path | None) -> Ingested:
        self._reads += 1
        return ingested(self.spark, journals, self.root / f"read-{self._reads}", kept=kept)


@dataclass
class Interrupted:
    """Two journals, one of which an audit was interrupted in, and what the next one read.

    :ivar left: the batches of lines that the interrupted one left.
    :ivar kept: those that were there in the end.
    :ivar away: a segment that is not where it belongs.
    """

    halls: Halls
    left: set[str]
    again: Ingested
    fresh: Ingested
    kept: set[str]
    away: Path


class _PowerCut(Exception):
    pass


@pytest.fixture(scope="module")
def interrupted(spark: SparkSession, whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """Behind what the stream has read and noted as read, before the ledger says so."""
    halls = Halls(tmp_path_factory.mktemp("halls"), spark, whole)
    halls.begin()
    away = halls.root / halls.segments[1].name
    shutil.move(halls.segments[1], away)
    halls.read_on(halls.barn)

    def cut(_: Checkpoint) -> None:
        assert (halls.kept / "stream" / "commits" / "1").exists()
        raise _PowerCut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "save", cut)
        with pytest.raises(_PowerCut):
            halls.read_on(halls.hall, halls.barn)
    left = halls.batches
    again, fresh = halls.read_on(halls.hall, halls.barn), halls.read(halls.hall, halls.barn)
    return Interrupted(halls, left, again, fresh, halls.batches, away)


@pytest.fixture
def was_hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which the bytes were looked at."""
    import bussrv.audit.reading.ingest as module

    seen: list[str] = []
    read_digests = module.read_digests

    def watching(spark: object, snapshot: object, segments: list[object], sizes: object) -> object:
        seen.extend(Path(each.file).name for each in segments)  # type: ignore[attr-defined]
        return read_digests(spark, snapshot, segments, sizes)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "read_digests", watching)
    return seen


@pytest.mark.long
def test_an_audit_that_is_interrupted_loses_nothing(interrupted: Interrupted) -> None:
    assert interrupted.left == {"stream-0", "stream-1"}
    assert interrupted.again == interrupted.fresh
    assert interrupted.again.kinds["segment-missing"] == 1
    assert interrupted.kept == {"stream-0", "batch-1"}


@pytest.mark.long
def test_more_is_written_and_every_table_is_that_of_a_full_audit(
    interrupted: Interrupted, whole: Whole, read_table: Callable[[Path, str], Rows], was_hashed: list[str]
) -> None:
    """Meanwhile a segment was compressed, and one that was away is back, as old as it was. The journals are named the
    other way round."""
    halls, away = interrupted.halls, interrupted.away.name
    halls.go_on()
    shutil.move(interrupted.away, halls.hall / away)
    os.utime(halls.hall / away, (LONG_AGO, LONG_AGO))
    compressed = compress(halls.segments[2])
    out = halls.root / "short"
    with without_report():
        audit(halls.spark, [halls.barn, halls.hall], out, checkpoint=halls.kept)
    one, _, three, _, *new = halls.segments
    assert three == compressed
    assert is_compressed(three)
    assert one.name not in was_hashed
    assert {away, three.name, *(path.name for path in new)} <= {*was_hashed}
    assert halls.batches == {"stream-0", "batch-1", "stream-2"}
    assert {row["server"] for row in read_table(whole.out, "findings")} == {"barn"}

    def placed(row: dict[str, Any]) -> dict[str, Any]:
        """A row about the same segment there, as it is here."""
        here = {name: row[name].replace(str(whole.hall), str(halls.hall)) for name in ("journal", "file")}
        return {**row, **here, "file": here["file"] + ".gz" * (here["file"] == str(three.with_suffix("")))}

    for name in PUBLISHED:
        full = [placed(row) if name == "segments" else row for row in read_table(whole.out, name)]
        missing, surplus = (Counter(map(repr, rows)) for rows in (full, read_table(out, name)))
        assert (name, missing - surplus, surplus - missing) == (name, Counter(), Counter())


@dataclass
class Torn:
    """A journal that was first read when a checkpoint was interrupted in the middle of its stream.

    :ivar read: what was read behind that.
    """

    journal: Path
    kept: Path
    read: Ingested
    fresh: Ingested


@pytest.fixture
def torn(spark: SparkSession, tmp_path: Path) -> Torn:
    """A segment of the batch that was read in part is gone since."""
    journal, kept = write_days(tmp_path / "barn", Shape(events=160, segment=40), "barn"), tmp_path / "kept"

    def cut(*_: object) -> None:
        raise _PowerCut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bussrv.audit.reading.checkpoint.write_parquet", cut)
        with pytest.raises(StreamingQueryException, match="_PowerCut"):
            ingested(spark, [journal], tmp_path / "1", kept=kept)
    list_segments(journal)[0].unlink()
    read, fresh = (ingested(spark, [journal], tmp_path / name, kept=at) for name, at in (("2", kept), ("3", None)))
    return Torn(journal, kept, read, fresh)


@pytest.mark.long
def test_what_an_audit_began_and_did_not_end_may_be_gone_and_what_is_kept_is_not_read_again_until_somebody_writes_to_it(
    spark: SparkSession, torn: Torn, tmp_path: Path
) -> None:
    """The stream goes on with a batch of which a part is gone; it is not stuck for ever."""
    assert torn.read == torn.fresh
    assert {*torn.read.kinds} == {"segment-missing"}

    victim, _, gone, *_ = list_segments(torn.journal)
    before, text = victim.stat(), victim.read_bytes()
    with victim.open("r+b") as file:
        file.write(text.replace(b'"outcome":"ok"', b'"outcome":"OK"'))
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (victim.stat().st_ino, victim.stat().st_size) == (before.st_ino, before.st_size)
    assert victim.read_bytes() != text
    assert ingested(spark, [torn.journal], tmp_path / "4", kept=torn.kept) == torn.fresh

    os.utime(victim)
    gone.unlink()
    again, fresh = (
        ingested(spark, [torn.journal], tmp_path / name, kept=at) for name, at in (("5", torn.kept), ("6", None))
    )
    assert again == fresh
    assert {"bad-line", "broken-seal", "broken-chain", "broken-link", "segment-missing"} <= {*again.kinds}


def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(CheckpointRefused, match=r"is neither empty nor a checkpoint of the audit: name another"):
        opened(tmp_path).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]
    with pytest.raises(CheckpointRefused, match="letters is not a directory"):
        opened(tmp_path / "letters").__enter__()


def test_another_audit_uses_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with opened(kept), pytest.raises(CheckpointRefused, match=f"another audit uses {kept}"):
        opened(kept).__enter__()
    with opened(kept):
        pass


@pytest.mark.parametrize(
    "ledger", ["", "{", "[]", '{"format": [2, 3], "segments": 7}', '{"format": [2, 3], "batches": ["stream-0"]}']
)
def test_a_damaged_ledger(tmp_path: Path, ledger: str) -> None:
    (tmp_path / MARKER).touch()
    (tmp_path / "ledger.json").write_text(ledger)
    with pytest.raises(CheckpointRefused, match=rf"is damaged .*: remove {tmp_path}, or name another"):
        opened(tmp_path).__enter__()


def test_what_another_version_kept_is_not_used(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    (tmp_path / "ledger.json").write_text('{"format": [999, 2], "batches": {"new": "form"}}')
    (tmp_path / "stream" / "commits").mkdir(parents=True)
    with opened(tmp_path):
        assert not (tmp_path / "stream").exists()
