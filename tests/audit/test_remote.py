"""Journals that are named by a URL give what the directory gives, but for where they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.reading.sources import size_of, take_snapshot
from bussrv.audit.spark.workers import SparkWorkers
from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation
from bussrv.journal.segment import is_compressed, list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.synth.journal import write_journal
from tests.audit.days import Shape, write_days
from tests.audit.ingested import ingested
from tests.audit.journals import change_line
from tests.inspection.journals import KEY

pytestmark = pytest.mark.timeout(900)


def url_of(path: Path) -> str:
    return f"file://{path}"


@pytest.mark.long
def test_urls_give_what_directories_give(spark: SparkSession, tmp_path: Path) -> None:
    """Signed, compressed, damaged, with a segment missing, with a record that a crash left unfinished, and under names
    that Spark would take for patterns; one journal by its directory, as before."""
    hall = write_days(
        tmp_path / "the hall [1] {a,b} ä%20", Shape(events=160, segment=40, policy=UpkeepPolicy(compress=True)), "hall"
    )
    barn = tmp_path / "barn"
    write_journal(barn, events=2500, server="barn", rotation=Rotation(bytes=40_000))
    shed = write_days(tmp_path / "shed", Shape(events=60, segment=40), "shed")
    loft = write_days(tmp_path / "loft", Shape(events=100, segment=40), "loft")
    # Nothing is written after a closing seal, not even a part of a line.
    with list_segments(loft)[-1].open("ab") as file:
        file.write(b'{"v":3,"prev":"')
    one, other, *_ = list_segments(barn)
    change_line(one, 9, lambda line: line.replace(b'"mono":', b'"mono":1'))
    other.unlink()
    assert any(map(is_compressed, list_segments(hall)))

    local = ingested(spark, [hall, barn, loft, shed], tmp_path / "local", trusted=KEY.public)
    urls = [url_of(hall), f"{url_of(barn)}/", url_of(loft), shed]
    far = ingested(spark, urls, tmp_path / "far", trusted=KEY.public)
    assert {"broken-chain", "broken-seal", "segment-missing", "seq-gap"} <= {*local.kinds}
    assert far.without_places() == local.without_places()
    places = {each["file"] for each in local.found} - {None}
    assert {each["file"] for each in far.found} - {None} == {f"file://{place}" for place in places}
    assert {(each["kind"], each["file"]) for each in far.found if str(loft) in (each["file"] or "")} == {
        (kind, url_of(list_segments(loft)[-1])) for kind in ("torn-tail", "broken-seal")
    }


@pytest.mark.long
def test_what_is_kept_of_urls(spark: SparkSession, tmp_path: Path) -> None:
    barn = write_days(tmp_path / "the barn", Shape(events=100, segment=40), "barn")
    kept = tmp_path / "kept"
    first = ingested(spark, [url_of(barn)], tmp_path / "1", kept=kept)
    assert len([*(kept / "stripes").iterdir()]) == len(list_segments(barn)) > 2
    with pytest.MonkeyPatch.context() as patch:
        # Nothing is read any more.
        patch.setattr(SparkWorkers, "_files", None)
        assert ingested(spark, [url_of(barn)], tmp_path / "2", kept=kept) == first
    assert first.found == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("file://{}/nowhere", r"cannot read the journal file://.*/nowhere: .*does not exist"),
        ("file://{}/empty", r"file://.*/empty holds no journal records"),
        ("file://{}/blank", r"file://.*/blank holds no journal records"),
        ("file://{}/lost/00000000000000000001.jsonl", r"\.jsonl is a segment: name the directory that holds it"),
        ("nope://hall/journal", r'cannot read the journal nope://hall/journal: .*No FileSystem for scheme "nope"'),
    ],
)
def test_urls_of_nothing(spark: SparkSession, tmp_path: Path, name: str, sentence: str) -> None:
    for each in ("empty", "blank", "lost"):
        (tmp_path / each).mkdir()
    (tmp_path / "blank" / "00000000000000000001.jsonl").touch()
    with (
        pytest.raises(JournalError, match=sentence) as caught,
        take_snapshot([name.format(tmp_path)], SparkWorkers(spark, tmp_path).directory),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_nobody_knows_how_large_they_are(tmp_path: Path) -> None:
    assert size_of([url_of(tmp_path)]) is None
    shutil.rmtree(tmp_path)
    assert size_of([url_of(tmp_path)]) is None
