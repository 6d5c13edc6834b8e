"""Spark and the embedded engine make the same tables, the same summary and the same report.

So does Spark without DuckDB, as of large facts.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit import job
from bussrv.audit.fold.stripe import Period
from bussrv.audit.job import audit
from bussrv.audit.output import PUBLISHED
from bussrv.audit.reading.processes import ProcessWorkers
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.reading.stripes import fold_journals
from bussrv.audit.spark import tables as with_spark
from bussrv.audit.sql import tables
from tests.audit.commands import BUSSRV, die, run
from tests.audit.conftest import (
    Collection,
    Rows,
    Whole,
    by_workers,
    last_job,
    of_spark_alone,
    without_patience,
    without_report,
)
from tests.audit.days import Shape, write_days
from tests.audit.journals import STEP, day, write_journal
from tests.audit.test_docs import TEXT
from tests.audit.unruly import stormy, wild_journal
from tests.audit.wild_records import MOMENT
from tests.size import FULL, further

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]

VECTORS = Path(__file__).parents[1] / "vectors" / "journals"

ReadTable = Callable[[Path, str], Rows]


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    with without_patience():
        yield


def plain(rows: Rows) -> Counter[str]:
    """Rows, so that they can be compared; sums of fractions differ in the last digit."""

    def value(one: Any) -> Any:
        return float(f"{one:.12g}") if isinstance(one, float) else one

    return Counter(json.dumps({name: value(row[name]) for name in sorted(row)}, default=str) for row in rows)


def assert_same(read_table: ReadTable, out: Path, other: Path) -> None:
    for name in PUBLISHED:
        expected, found = plain(read_table(out, name)), plain(read_table(other, name))
        assert (name, [*(expected - found)][:5], [*(found - expected)][:5]) == (name, [], [])


def test_of_every_journal_of_the_collection(collection: Collection, read_table: ReadTable, tmp_path: Path) -> None:
    """The cases, those that were drawn, those that were tampered with, and those in which nothing is wrong."""
    others = [each.directory for each in collection.mutants.values()]
    clean = [*collection.untouched.values(), *collection.clean.values()]
    with nullcontext() if FULL else without_report():
        verdict = audit(None, [*collection.journals, *others, *clean], tmp_path / "out")
    assert {**verdict.summary, "audited": None} == {**collection.verdict.summary, "audited": None}
    assert_same(read_table, collection.verdict.path.parent, tmp_path / "out")


@pytest.mark.long
@pytest.mark.parametrize("period", [Period(), Period(MOMENT - 60 * STEP, MOMENT + 20 * STEP)])
def test_of_journals_in_which_nothing_fits(
    spark: SparkSession, read_table: ReadTable, tmp_path: Path, period: Period
) -> None:
    journals = [wild_journal(tmp_path / f"wild{seed}", seed) for seed in range(4)]
    journals = [each for each in journals if period == Period() or each.name not in ("wild2",)]
    journals += [stormy(tmp_path / "stormy")] if period == Period() else []
    for out, engine in (("spark", spark), ("embedded", None)):
        with without_report(), by_workers(), of_spark_alone():
            audit(engine, journals, tmp_path / out, since=period.since, until=period.until)
    assert_same(read_table, tmp_path / "spark", tmp_path / "embedded")
    if period == Period():
        assert all(read_table(tmp_path / "spark", name) for name in PUBLISHED if name != "orphans")


@pytest.mark.long
def test_spark_makes_the_same_tables_of_the_same_facts(
    spark: SparkSession, collection: Collection, read_table: ReadTable, tmp_path: Path
) -> None:
    """Of large ones, which are several files and partitions."""
    journals = [wild_journal(tmp_path / f"wild{seed}", seed) for seed in range(3)]
    journals += [stormy(tmp_path / "stormy"), *collection.journals]
    with take_snapshot([str(each) for each in journals]) as snapshot:
        fold_journals(snapshot, Period(), tmp_path / "facts", ProcessWorkers(), size=300_000)
    assert len([*(tmp_path / "facts").iterdir()]) > 3
    outs = [tmp_path / name / "tables" for name in ("spark", "embedded")]
    for out in outs:
        out.mkdir(parents=True)
    before = last_job(spark)
    with of_spark_alone():
        with_spark.make_tables(spark, tmp_path / "facts", outs[0], Period())
    assert last_job(spark) - before >= len(PUBLISHED)
    tables.make_tables(tmp_path / "facts", outs[1], Period())
    assert_same(read_table, tmp_path / "spark", tmp_path / "embedded")


def test_tables_of_which_a_part_is_kept_are_the_same(whole: Whole, read_table: ReadTable, tmp_path: Path) -> None:
    """A checkpoint knows one journal, then both; then they are in another order."""
    hall, house = whole.hall, write_days(tmp_path / "house", Shape(events=160, segment=40), "house")
    with without_report():
        for journals in ([hall], [hall, house], [hall, house], [house, hall]):
            audit(None, journals, tmp_path / "out", checkpoint=tmp_path / "kept")
        audit(None, [house, hall], tmp_path / "fresh")
    assert len([*(tmp_path / "kept" / "sessions").iterdir()]) == 2
    assert_same(read_table, tmp_path / "fresh", tmp_path / "out")


def _report(path: Path) -> str:
    text = re.sub("</?span>", "", path.read_text("utf-8"))
    text = re.sub(r"bussrv audit [^-<][^<]*<| --out [^<]*<", "<", text)
    return re.sub(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "", text)


def test_the_command_says_the_same(whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    journals = [str(whole.hall), str(whole.barn)]
    arguments = [*journals, "--engine", "embedded", "--checkpoint", str(tmp_path / "kept"), "--out", str(out)]
    assert job.main(arguments) == whole.ended.returncode == job.FINDINGS
    said = capsys.readouterr().out.splitlines()
    assert said[:-1] == whole.ended.stdout.splitlines()[:-1]
    assert Path(said[-1]) == out / "summary.json"
    assert _report(out / "report.html") == _report(whole.out / "report.html")
    assert {each.name for each in out.iterdir()} == {each.name for each in whole.out.iterdir()}
    assert whole.jobs == 0, "Spark does nothing for small journals"


@pytest.mark.parametrize(
    "journal", further(sorted(each.parent for each in VECTORS.rglob("manifest")), 2), ids=lambda each: each.name
)
def test_of_journals_of_every_version_there_is_a_report(journal: Path, tmp_path: Path) -> None:
    """They are small: of some tables nothing is there."""
    verdict = audit(None, [journal], tmp_path / "out")
    assert verdict.summary["records"]
    assert "</html>" in verdict.path.with_name("report.html").read_text("utf-8")


def test_on_a_terminal_it_tells_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(tmp_path / "hall", day().records)
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True)
    assert job.main([str(tmp_path / "hall"), "--engine", "embedded", "--out", str(tmp_path / "out")]) == job.CLEAN
    said = capsys.readouterr().err
    assert re.search(r"reading: 100%.* 1/1 ", said)
    assert all(f"{phase}:" in said for phase in ("tables", "report"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["hall", "--master", "local"], "--master is not allowed with --engine embedded"),
        (["hall", "--remote", "sc://x"], "--remote is not allowed with --engine embedded"),
        (["hdfs://store/hall"], "--engine embedded reads directories and s3:// only"),
        (["nothing"], "holds no journal records"),
    ],
)
def test_what_it_cannot_do_is_said(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        write_journal(tmp_path / "hall", day().records)
        assert job.main([*arguments, "--engine", "embedded"]) == job.NOT_JUDGED
    assert complaint in capsys.readouterr().err
    assert {each.name for each in tmp_path.iterdir()} <= {"hall", "nothing", "bussrv-audit"}


@pytest.mark.processes
def test_a_process_that_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system does when memory runs out."""
    journals = [str(tmp_path / name) for name in ("hall", "attic")]
    for each in journals:
        write_journal(Path(each), day().records)
    monkeypatch.setitem(fold_journals.__kwdefaults__, "size", 1)
    monkeypatch.setattr(ProcessWorkers, "_useful", lambda *_: 2)
    monkeypatch.setattr("bussrv.audit.reading.processes.perform", die)
    assert job.main([*journals, "--engine", "embedded", "--out", str(tmp_path / "out")]) == job.NOT_JUDGED
    assert capsys.readouterr().err == (
        "bussrv audit: a process that reads journals was killed, maybe because memory ran out\n"
    )


@pytest.mark.processes
def test_it_needs_no_java(tmp_path: Path) -> None:
    """The command as the documentation has it."""
    command = re.findall(r"^\$ bussrv (audit .*--engine embedded)$", TEXT, re.MULTILINE)[0]
    write_journal(tmp_path / "bussrv-journal", day().records)
    ended = run(tmp_path, BUSSRV, *command.split(), JAVA_HOME=str(tmp_path), PATH="")
    assert (ended.returncode, ended.stderr) == (job.CLEAN, "")


def test_a_path_that_is_not_utf8_is_shown_with_escapes(tmp_path: Path) -> None:
    journal, out = tmp_path / os.fsdecode(b"h\xff"), tmp_path / os.fsdecode(b"o\xff")
    write_journal(journal, day().records)
    segment = next(journal.glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes() + b"{}\n")
    assert job.main([str(journal), "--engine", "embedded", "--out", str(out)]) == job.FINDINGS
    for file in (out / "summary.json", out / "report.html"):
        assert f"{tmp_path}/h\\xff/{segment.name}" in file.read_text().replace("\\\\", "\\")
