"""On a cluster, the process that directs it does none of the work, and keeps nothing on a disk that only it sees.

Here, the one Spark session of all tests is taken for a cluster: its workers are processes of their own.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bussrv.audit.job import audit
from bussrv.audit.output import PUBLISHED
from bussrv.audit.report import summary
from bussrv.audit.spark import session
from bussrv.audit.spark.session import is_spread
from bussrv.audit.spark.tables import _Making
from bussrv.audit.sql.database import Database
from tests.audit.conftest import Rows, without_patience, without_report
from tests.audit.source.growing import write_whole
from tests.size import sample

COMPUTED = {*sample(PUBLISHED, 6), "boots", "servers"}
"""The tables that Spark computes here; the last two are read by the queries of others. At full size it computes all."""


@pytest.fixture
def cluster(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    for module in ("session", "workers"):
        monkeypatch.setattr(f"bussrv.audit.spark.{module}.is_spread", lambda _: True)
    monkeypatch.setattr("bussrv.audit.spark.tables.LARGEST_ON_CLUSTER", -1)
    return spark


def test_workers_do_everything(
    cluster: SparkSession, read_table: Callable[[Path, str], Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folding, tables, and what is copied: beside the results. The answers are those of one machine.

    Spark reads the queries of all tables, and knows all names and types in them.
    The cluster is free before the report, and so is the memory of Java.
    """

    def refuse(*_: object) -> None:
        pytest.fail("this is for a worker")

    hall, away = write_whole(tmp_path / "hall"), tmp_path / "away"
    memory: list[str] = []
    understood: set[str] = set()
    done: list[object] = []
    made, publish, finish = Database.__init__, _Making._publish, summary.finish

    def finished(*given: Any, **named: Any) -> dict[str, Any]:
        done.append("report")
        return finish(*given, **named)

    def remember(database: Database, directory: Path, limit: str) -> None:
        memory.append(limit)
        made(database, directory, limit)

    def compute_some(making: _Making, name: str, table: DataFrame) -> None:
        if table.columns:
            understood.add(name)
        if name in COMPUTED:
            publish(making, name, table)
        else:
            shutil.copytree(tmp_path / "near" / "tables" / name, making._place / name)

    with without_report(), without_patience():
        near = audit(None, [hall], tmp_path / "near")
        monkeypatch.setattr("bussrv.audit.spark.workers.perform", refuse)
        monkeypatch.setattr("bussrv.audit.sql.tables.make_tables", refuse)
        monkeypatch.setattr(Database, "__init__", remember)
        monkeypatch.setattr(_Making, "_publish", compute_some)
        monkeypatch.setattr("tempfile.tempdir", str(away))
        monkeypatch.setattr(session, "end", done.append)
        monkeypatch.setattr(summary, "finish", finished)
        far = audit(cluster, [hall], tmp_path / "far", ends_cluster=True)
    assert done == [cluster, "report"]
    assert {*memory} == {"256MB"}
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("bussrv-audit-")]
    assert understood == {*PUBLISHED}
    for name in COMPUTED:
        one, other = (Counter(map(repr, read_table(out, name))) for out in (tmp_path / "near", tmp_path / "far"))
        assert (name, one - other, other - one) == (name, Counter(), Counter())
    assert far.summary["records"] == near.summary["records"]


def test_who_is_a_cluster(spark: SparkSession) -> None:
    assert not is_spread(spark)
    assert is_spread(object())  # type: ignore[arg-type]  # that of Spark Connect is of another class


@pytest.mark.parametrize(
    ("master", "address", "heap"),
    [("local[2]", "127.0.0.1", "2g"), ("spark://hall:7077", None, "512m"), ("local-cluster[2,1,1024]", None, "512m")],
)
def test_executors_can_reach_the_driver(
    master: str, address: str | None, heap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listens on loopback only if they are on this machine."""
    given: dict[str, str] = {}

    class Conf:
        def set(self, name: str, value: str) -> None:
            given[name] = value

    class Enough(Exception):
        pass

    def launch(*_: object) -> None:
        raise Enough

    monkeypatch.setattr(session, "SparkConf", Conf)
    monkeypatch.setattr(session, "launch_gateway", launch)
    with pytest.raises(Enough):
        session._start(master, tmp_path, True)
    assert given.get("spark.driver.host") == given.get("spark.driver.bindAddress") == address
    assert given["spark.driver.memory"] == heap
    assert (
        ("spark.ui.retainedTasks" in given) == ("-Xms" in given["spark.driver.extraJavaOptions"]) == (address is None)
    )
