"""One Spark session for all tests, and audits that several modules ask: of many journals, of two as a whole, and two
by the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.parquet import read_table as read_parquet
from pyspark.sql import SparkSession

from bussrv.audit import job
from bussrv.audit.job import Verdict, audit
from bussrv.audit.reading import snapshot
from bussrv.audit.reading.stripes import fold_journals
from bussrv.audit.report.facts import Facts
from bussrv.audit.spark.session import spark_session
from bussrv.cli.main import main as bussrv
from bussrv.journal.batch import Rotation
from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal as write_long_journal
from tests.audit.cases import CASES
from tests.audit.commands import Ended, called
from tests.audit.days import Shape, clean_shape, litter, write_days
from tests.audit.journals import barn, change_line, day, write_journal
from tests.audit.mutants import SHAPES, Mutant, make, write_mutants
from tests.audit.mutations import TRIED
from tests.audit.plans import Plan, draw, write
from tests.audit.segment_cases import SEGMENT_CASES
from tests.size import FULL, sized

Rows = list[dict[str, Any]]

CLEAN = sized(200, 8)
"""How many journals have nothing wrong with them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that needs Spark waits for its start, and so may any."""
    for item in items:
        if item.nodeid.startswith("tests/audit/") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", quick_start=True) as session:
        if not FULL:
            # To compile a query takes longer than to interpret it for a few thousand rows.
            session.conf.set("spark.sql.codegen.wholeStage", "false")
            session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        yield session


def last_job(spark: SparkSession) -> int:
    """The number of the last job."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1)


@pytest.fixture(scope="session")
def read_table() -> Callable[[Path, str], Rows]:
    """``read_table(out, name)``: its rows, timestamps as UTC microseconds. An audit is taken to stay what it is.

    Spark would take a job for each of hundreds of tables. That it reads them as well, and what types their columns have
    there, is a test of ``test_summary``.
    """

    @cache
    def read(out: Path, name: str) -> Rows:
        table = read_parquet(out / "tables" / name)
        columns = [
            column.cast(pa.timestamp("us")).cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            for column in table.columns
        ]
        return pa.table(columns, names=table.column_names).to_pylist()

    return read


@dataclass
class Collection:
    """All the cases, many journals that were drawn, all that were tampered with, some of the same shapes that were not,
    and many more in which nothing is wrong: audited together, since an audit of its own for each would take a while.
    Workers of Spark fold them.

    :ivar root: holds the journals of cases and those that were drawn, each named like its server.
    :ivar journals: these.
    :ivar plans: of those that were drawn, by server.
    :ivar mutants: those that were tampered with, by name, each named like its server, too.
    :ivar untouched: by name.
    :ivar clean: by name, each of another shape.
    :ivar jobs: how many jobs of Spark it took.
    """

    root: Path
    journals: list[Path]
    plans: dict[str, Plan]
    mutants: dict[str, Mutant]
    untouched: dict[str, Path]
    clean: dict[str, Path]
    verdict: Verdict
    findings: Rows
    jobs: int

    def journal_facts(self) -> Rows:
        """The findings about ``journals``, which are those about none of the others."""
        places = (*{f"{each.parent}/" for each in (*self.untouched.values(), *self.clean.values())},)
        names = {name for each in self.mutants for name in (each, f"{each}-stranger")} | {*self.clean}
        return [
            each
            for each in self.findings
            if each["server"] not in names and not (each["file"] or "").startswith(places)
        ]


@pytest.fixture(scope="session")
def collection(
    spark: SparkSession, read_table: Callable[[Path, str], Rows], tmp_path_factory: pytest.TempPathFactory
) -> Collection:
    root, other = tmp_path_factory.mktemp("collection"), tmp_path_factory.mktemp("mutants")
    cases = {each.__name__: each(each.__name__) for each in (*CASES, *SEGMENT_CASES)}
    plans = {f"server{number}": plan for number, plan in enumerate(draw(sized(80, 6)))}
    journals = [case.write(root / name) for name, case in cases.items()]
    journals += [write(root / name, plan) for name, plan in plans.items()]
    mutants = write_mutants(other, TRIED)
    untouched = {
        f"untouched-{shape}": make(other / f"untouched-{shape}", shape, f"untouched-{shape}") for shape in SHAPES
    }
    clean = {f"clean-{seed}": write_clean(other / "clean" / f"clean-{seed}", seed) for seed in range(CLEAN)}
    out = root / "out [1]"
    before = last_job(spark)
    with without_report(), without_patience(), by_workers():
        tampered = [each.directory for each in mutants.values()]
        verdict = audit(spark, [*journals, *tampered, *untouched.values(), *clean.values()], out)
    jobs = last_job(spark) - before
    findings = read_table(out, "findings")
    return Collection(root, journals, plans, mutants, untouched, clean, verdict, findings, jobs)


@contextmanager
def without_report() -> Iterator[None]:
    """Audits of which nobody asks for the report: finding out what stands in it takes a third of a small one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bussrv.audit.report.summary.facts", lambda *_: Facts())
        yield


@contextmanager
def by_workers() -> Iterator[None]:
    """Audits in which workers of Spark fold the journals, in several stripes, as if they were large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bussrv.audit.spark.workers.SMALL", -1)
        patch.setitem(fold_journals.__kwdefaults__, "size", 1 << 19)
        yield


@contextmanager
def of_spark_alone() -> Iterator[None]:
    """Tables that Spark makes, in partitions, as of large facts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bussrv.audit.spark.tables.LARGEST", -1)
        patch.setattr("bussrv.audit.spark.tables.SMALL", -1)
        yield


@contextmanager
def without_patience() -> Iterator[None]:
    """Nobody is about to seal anything here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "PATIENCE", 0.0)
        yield


def write_clean(directory: Path, seed: int) -> Path:
    """A journal in which nothing is wrong, with what a server may leave beside it."""
    write_days(directory, clean_shape(seed), directory.name, seed)
    litter(directory, seed)
    return directory


@dataclass
class Whole:
    """Journals of two servers, and an audit of them by the command, with which others of the same journals are
    compared.

    :ivar hall: a long one, in which nothing is wrong.
    :ivar barn: one that somebody tampered with.
    :ivar out: where the audit is.
    :ivar jobs: how many jobs of Spark it took.
    """

    hall: Path
    barn: Path
    out: Path
    ended: Ended
    jobs: int


@pytest.fixture(scope="session")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole")
    write_long_journal(root / "hall", events=3000, server="hall", rotation=Rotation(bytes=40_000))
    tampered = write_days(root / "barn", Shape(events=160, segment=40), "barn")
    change_line(list_segments(tampered)[1], 9, lambda line: line.replace(b'"mono":', b'"mono":1'))
    before = last_job(spark)
    ended = called(spark, job.main, root, "hall", "barn", "--out", "an [other] place", encoding="ascii")
    jobs = last_job(spark) - before
    return Whole(root / "hall", tampered, root / "an [other] place", ended, jobs)


@dataclass
class Clean:
    """An audit by the command, without Spark, of the journals ``hall`` and ``barn`` in ``root``. That the command is a
    program, too, is for those tests to see that start it as such: of the README, and with other places for Spark.
    """

    root: Path
    ended: Ended


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Clean:
    root = tmp_path_factory.mktemp("clean")
    write_journal(root / "hall", day().records[:5], day().records[5:])
    write_journal(root / "barn", [*barn().records, b"{"], first_seqs=[11])
    return Clean(root, called(None, bussrv, root, "audit", "hall", "barn", "--engine", "embedded"))
