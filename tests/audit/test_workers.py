"""The same answer with one worker and with several, in processes of their own: every table, row for row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest

from bussrv.audit.job import FINDINGS
from bussrv.journal.upkeep import Policy
from tests.audit.commands import JOB, Started
from tests.audit.conftest import Rows
from tests.audit.days import Shape, clean_shape, write_days
from tests.audit.mutants import write_mutants
from tests.audit.mutations import MUTATIONS
from tests.inspection.journals import KEY

pytestmark = pytest.mark.timeout(1200)

ALONE = "local[1]"
CLUSTER = "local-cluster[2,1,1024]"
"""Two workers, each with an executor of its own: one core, 1024 MiB."""

# Small enough that several tasks read the one large segment, and each reads some of the others.
_IN_PIECES = "--conf spark.sql.files.maxPartitionBytes=60000 --conf spark.sql.files.openCostInBytes=2000 pyspark-shell"


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the audits of the same journals wrote: of all that were tampered with, of some that were not, and of one
    with a large segment."""
    root = tmp_path_factory.mktemp("workers")
    journals = [each.directory for each in write_mutants(root, MUTATIONS).values()]
    journals += [write_days(root / f"clean-{seed}", clean_shape(seed), f"clean-{seed}", seed) for seed in range(12)]
    large = Shape(events=1500, key=KEY, policy=Policy(seal_interval=60.0))
    journals.append(write_days(root / "large", large, "large"))
    names = [path.name for path in journals]
    one = Started(root, JOB, *names, "--out", "alone", "--master", ALONE)
    other = Started(
        root,
        JOB,
        *names,
        *("--out", "cluster", "--master", CLUSTER),
        SPARK_HOME=str(_spark_home(root / "spark")),
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_SUBMIT_ARGS=_IN_PIECES,
    )
    for started in (one, other):
        ended = started.ended()
        assert ended.returncode == FINDINGS, (ended.stdout, ended.stderr)
    return {ALONE: root / "alone", CLUSTER: root / "cluster"}


def _spark_home(home: Path) -> Path:
    """That of the package, in a place of its own: workers write beside what they are started from."""
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


def test_workers_are_processes_of_their_own(audits: dict[str, Path]) -> None:
    executors = list(audits[CLUSTER].with_name("spark").glob("work/app-*/*/stderr"))
    assert len(executors) == 2
    assert all("CoarseGrainedExecutorBackend" in path.read_text() for path in executors)


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
