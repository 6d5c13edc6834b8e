"""The same answer with one worker and with several, in processes of their own, row for row."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from bussrv.audit.job import FINDINGS
from bussrv.journal.upkeep import UpkeepPolicy
from tests.audit import far_reading
from tests.audit.commands import JOB, Started
from tests.audit.conftest import Rows
from tests.audit.days import Shape, clean_shape, write_days
from tests.audit.mutants import Mutation, write_mutants
from tests.audit.mutations import MUTATIONS
from tests.inspection.journals import KEY

pytestmark = [pytest.mark.timeout(1200), pytest.mark.processes, pytest.mark.long]

ALONE = "local[1]"
_IMPORTS = """
import sys
from bussrv.audit import job
from bussrv.audit.reading import stripes
from bussrv.audit.spark import workers, tables
"""
_SETTINGS = "tables.LARGEST = tables.SMALL = workers.SMALL = -1"
_IN_PARTS = "stripes.fold_journals.__kwdefaults__.update(size=20_000)"
DEALT_OUT = ("-c", f"{_IMPORTS}{_SETTINGS}; {_IN_PARTS}; sys.exit(job.main())")
"""The command, with all that Spark does of large journals, in as many pieces."""

CLUSTER = "local-cluster[2,1,1024]"
"""Two workers, each with an executor of its own: one core, 1024 MiB."""

# Small enough that several tasks read the one large segment, and each reads some of the others.
_IN_PIECES = "--conf spark.sql.files.maxPartitionBytes=200000 --conf spark.sql.files.openCostInBytes=2000 pyspark-shell"


def written(root: Path, mutations: Sequence[Mutation]) -> list[str]:
    """Journals that were tampered with, some that were not, and one with a large segment."""
    directories = [each.directory for each in write_mutants(root, mutations).values()]
    directories += [write_days(root / f"clean-{seed}", clean_shape(seed), f"clean-{seed}", seed) for seed in range(12)]
    large = Shape(events=1500, key=KEY, policy=UpkeepPolicy(seal_interval=60.0))
    directories.append(write_days(root / "large", large, "large"))
    return [*map(str, directories)]


def started_with_workers(root: Path, program: tuple[str, ...], *arguments: str) -> Started:
    """A process whose Spark has its home in ``root``."""
    settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": _IN_PIECES}
    return Started(root, program, *arguments, SPARK_HOME=str(_spark_home(root / "spark")), **settings)


def _spark_home(home: Path) -> Path:
    """That of the package, in a place of its own: workers write beside what they are started from."""
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


@contextmanager
def standalone(root: Path) -> Iterator[str]:
    """A master and two workers, each with one core, as processes of their own. Yields the URL of the master.

    A package ``bussrv`` that the workers find first is none: the audit brings its own.
    """
    home, stranger = _spark_home(root / "spark"), root / "stranger"
    (stranger / "bussrv").mkdir(parents=True)
    (stranger / "bussrv" / "__init__.py").write_text("raise ImportError('another bussrv')\n")
    settings = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "PYTHONPATH": str(stranger)}
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Path:
            log = root / f"{arguments[-1].rpartition('/')[2]}.log"
            program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *here, *arguments]
            with log.open("wb") as file:
                process = subprocess.Popen(program, env={**os.environ, **settings}, stdout=file, stderr=file)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            return log

        (url,) = _said(start("master.Master", "--properties-file", _properties(root)), r"master at (spark://\S+)")
        for number in range(2):
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(home / "work" / f"worker{number}"))
            _said(start("worker.Worker", url, *limits), r"registered with master (\S+)")
        yield url


def _properties(root: Path) -> str:
    path = root / "master"
    path.write_text("spark.ui.enabled false\n")
    return str(path)


def _said(log: Path, pattern: str) -> list[str]:
    """What a log says, once it does."""
    until = time.monotonic() + 120
    while not (found := re.findall(pattern, log.read_text())):
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    return found


def assert_had_workers(root: Path) -> None:
    """They are processes of their own."""
    executors = list(root.glob("spark/work/**/app-*/*/stderr"))
    assert len(executors) == 2
    assert all("CoarseGrainedExecutorBackend" in path.read_text() for path in executors)


_ENDED = """
from pyspark import SparkContext
from bussrv.audit.spark.session import end, spark_session
for _ in range(2):
    with spark_session("local[1]", quick_start=True) as spark:
        assert spark.range(3).count() == 3
        java = SparkContext._gateway.proc
        assert java.poll() is None
        end(spark)
        assert java.poll() == 0
"""


def test_a_session_ends_early_with_its_java(tmp_path: Path) -> None:
    """A later session of the process has another one."""
    ended = Started(tmp_path, ("-c", _ENDED)).ended()
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_journals_are_found_to_be_is_the_same(tmp_path: Path) -> None:
    """Every record, and what is wrong with segments and lines."""
    mutations = MUTATIONS[::3]
    assert len(mutations) > 25
    journals = written(tmp_path, mutations)
    far = started_with_workers(tmp_path, far_reading.PROGRAM, CLUSTER, str(tmp_path / "far"), *journals).ended()
    near = Started(tmp_path, far_reading.PROGRAM, ALONE, tmp_path / "near", *journals).ended()
    assert [(each.returncode, each.stderr) for each in (near, far)] == [(0, ""), (0, "")]
    assert_had_workers(tmp_path)
    one, other = far_reading.said(near.stdout), far_reading.said(far.stdout)
    for name, some in one.tables.items():
        others = other.tables[name]
        assert (name, some - others, others - some) == (name, Counter(), Counter())
    assert min(one.tables[name].total() for name in ("sessions", "segments", "findings")) > 100


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What whole audits of all wrote: with one worker, and by a cluster of its own."""
    place = tmp_path_factory.mktemp("audits")
    journals = written(tmp_path_factory.mktemp("workers"), MUTATIONS)
    one = Started(place, JOB, *journals, "--out", "alone", "--master", ALONE)
    with standalone(place) as master:
        settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        other = Started(place, DEALT_OUT, *journals, "--out", "cluster", "--master", master, **settings)
        for started in (one, other):
            ended = started.ended()
            assert ended.returncode == FINDINGS, (ended.stdout, ended.stderr)
    assert_had_workers(place)
    return {ALONE: place / "alone", CLUSTER: place / "cluster"}


def test_every_table_is_the_same(audits: dict[str, Path], read_table: Callable[[Path, str], Rows]) -> None:
    tables = sorted(path.name for path in (audits[ALONE] / "tables").iterdir())
    assert tables == sorted(path.name for path in (audits[CLUSTER] / "tables").iterdir())
    rows = {}
    for name in tables:
        alone, cluster = (Counter(map(plain, read_table(out, name))) for out in audits.values())
        assert (name, alone - cluster, cluster - alone) == (name, Counter(), Counter())
        rows[name] = alone.total()
    # Of some things nothing happens on so few days.
    for name in ("findings", "segments", "boots", "servers", "sessions", "services", "events", "concurrency"):
        assert rows[name] > 100, rows


def plain(row: dict[str, Any]) -> str:
    """A row, to be compared."""
    return json.dumps(row, sort_keys=True, default=str)


def test_the_findings_are_listed_in_the_same_order(audits: dict[str, Path]) -> None:
    alone, cluster = (json.loads((out / "summary.json").read_text())["findings"] for out in audits.values())
    assert alone == cluster
