"""One Spark session for all tests, and audits that several modules ask: of many journals, of two as a whole, and two
by the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit import job
from bussrv.audit.job import Verdict, audit
from bussrv.audit.session import spark_session
from bussrv.cli.main import main as bussrv
from bussrv.journal.batch import Rotation
from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal as write_long_journal
from tests.audit.cases import CASES
from tests.audit.commands import Ended, called
from tests.audit.days import Shape, write_days
from tests.audit.journals import barn, change_line, day, write_journal
from tests.audit.plans import Plan, draw, write
from tests.audit.segment_cases import SEGMENT_CASES

Rows = list[dict[str, Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that needs Spark waits for its start, and so may any."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", quick_start=True) as session:
        yield session


@pytest.fixture(scope="session")
def read_table(spark: SparkSession) -> Callable[[Path, str], Rows]:
    """``read_table(out, name)``: its rows, timestamps as UTC microseconds."""

    def read(out: Path, name: str) -> Rows:
        pattern = str(out / "tables" / name).replace("[", "\\[").replace("]", "\\]")
        table = spark.read.parquet(pattern)
        columns = [
            F.unix_micros(column).alias(column) if kind == "timestamp" else F.col(column)
            for column, kind in table.dtypes
        ]
        return [row.asDict() for row in table.select(*columns).collect()]

    return read


@dataclass
class Collection:
    """All the cases and many journals that were drawn, audited together, since an audit of its own for each would take
    a while.

    :ivar root: holds the journals, each named like its server.
    :ivar plans: of those that were drawn, by server.
    """

    root: Path
    journals: list[Path]
    plans: dict[str, Plan]
    verdict: Verdict
    tables: dict[str, Rows]


@pytest.fixture(scope="session")
def collection(
    spark: SparkSession, read_table: Callable[[Path, str], Rows], tmp_path_factory: pytest.TempPathFactory
) -> Collection:
    root = tmp_path_factory.mktemp("collection")
    cases = {make.__name__: make(make.__name__) for make in (*CASES, *SEGMENT_CASES)}
    plans = {f"server{number}": plan for number, plan in enumerate(draw(80))}
    journals = [case.write(root / name) for name, case in cases.items()]
    journals += [write(root / name, plan) for name, plan in plans.items()]
    out = root / "out [1]"
    verdict = audit(spark, journals, out)
    tables = {name: read_table(out, name) for name in ("findings", "sessions", "services", "events")}
    return Collection(root, journals, plans, verdict, tables)


@dataclass
class Whole:
    """Journals of two servers, and what an audit of them came to that is compared with others of the same journals.

    :ivar hall: a long one, in which nothing is wrong.
    :ivar barn: one that somebody tampered with.
    :ivar out: where the audit is.
    """

    hall: Path
    barn: Path
    out: Path


@pytest.fixture(scope="session")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole")
    written = Whole(root / "hall", root / "barn", root / "out")
    write_long_journal(written.hall, events=3000, server="hall", rotation=Rotation(bytes=40_000))
    write_days(written.barn, Shape(events=160, segment=40), "barn")
    change_line(list_segments(written.barn)[1], 9, lambda line: line.replace(b'"mono":', b'"mono":1'))
    audit(spark, [written.hall, written.barn], written.out)
    return written


@dataclass
class Commands:
    """Two audits by the commands. That these are programs, too, is for those tests to see that start them as such: of
    the README, and with other places for Spark.

    :ivar clean: the directory where the journals ``hall`` and ``barn`` were audited.
    :ivar junk: where ``journal`` was, which holds one line that is no record.
    """

    clean: Path
    clean_ended: Ended
    junk: Path
    junk_ended: Ended


@pytest.fixture(scope="session")
def commands(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    clean, junk = tmp_path_factory.mktemp("clean"), tmp_path_factory.mktemp("junk")
    write_journal(clean / "hall", day().records[:5], day().records[5:])
    write_journal(clean / "barn", [*barn().records, b"{"], first_seqs=[11])
    write_journal(junk / "journal", [b"junk\n"])
    clean_ended = called(spark, bussrv, clean, "audit", "hall", "barn")
    junk_ended = called(spark, job.main, junk, "journal", "--out", "an [other] place", encoding="ascii")
    return Commands(clean, clean_ended, junk, junk_ended)
