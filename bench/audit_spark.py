"""The audit itself, called as the command calls it, and its answers, read from the tables that it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from audit_answers import Answers, as_answer
from audit_meter import Meter

from bussrv.audit.job import audit, prepare
from bussrv.audit.progress import Progress
from bussrv.audit.reading.sources import HANDED_OUT, are_small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = "Spark's start"
WHOLE = "audit"

TABLES: dict[str, tuple[str, int, str]] = {
    "records": (
        "events",
        4,
        "SELECT server, event, protocol, outcome, sum(records), sum(suppressed) FROM {table} GROUP BY 1, 2, 3, 4",
    ),
    "refusals": (
        "refusals",
        3,
        "SELECT server, event, reason, sum(records), sum(suppressed) FROM {table} GROUP BY 1, 2, 3",
    ),
    "sessions": (
        "sessions",
        2,
        """
        SELECT server, protocol, count(opened), count_if(state = 'closed'), count_if(state = 'open')
        FROM {table} WHERE home IS NULL GROUP BY 1, 2
        """,
    ),
    "traffic": (
        "sessions",
        2,
        """
        SELECT server, protocol, sum(objects_in), sum(objects_out), sum(bytes_in), sum(bytes_out)
        FROM {table} GROUP BY 1, 2
        """,
    ),
    "peak": ("concurrency", 2, "SELECT server, protocol, max(sessions) FROM {table} GROUP BY 1, 2"),
    "provided": (
        "services",
        2,
        "SELECT server, service, round(provided_seconds * 1000000) FROM {table} WHERE registrations > 0",
    ),
    "numbers": (
        "findings",
        1,
        "SELECT server, count(*) FROM {table} WHERE kind IN ('seq-gap', 'seq-duplicate') GROUP BY 1",
    ),
    "chain": (
        "findings",
        1,
        "SELECT '', count(*) FROM {table} WHERE kind IN ('broken-chain', 'broken-link') GROUP BY 1",
    ),
}
"""For each answer the table that has it, how many columns are its key, and the query."""


class Metered(Progress):
    """Measures each phase that the audit tells of."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        with self._meter.phase(name), super().phase(name):
            yield


def call_audit(spark: SparkSession, directories: list[Path], out: Path, checkpoint: Path | None, meter: Meter) -> None:
    """The one place that calls it."""
    with meter.phase(WHOLE):
        audit(spark, directories, out, checkpoint=checkpoint, progress=Metered(meter))


def run(directories: list[Path], out: Path, checkpoint: Path | None, meter: Meter) -> Answers:
    """Start Spark, audit, stop it.

    :param checkpoint: where it goes on from, and what it leaves for the next one.
    """
    with meter.phase(START):
        # As the command does before it starts Spark.
        prepare()
        from bussrv.audit.spark.session import spark_session

        session = spark_session(quick_start=are_small([str(each) for each in directories], HANDED_OUT))
        spark = session.__enter__()
    try:
        call_audit(spark, directories, out, checkpoint, meter)
        return read_answers(spark, out)
    finally:
        session.__exit__(None, None, None)


def read_answers(spark: SparkSession, out: Path) -> Answers:
    """The answers of the tables; tables that are not there are left out."""
    answers: Answers = {}
    for name, (table, keys, query) in TABLES.items():
        path = out / "tables" / table
        if path.exists():
            spark.read.parquet(f"file://{path}").createOrReplaceTempView(table)
            found = spark.sql(query.format(table=table)).collect()
            answers[name] = as_answer([tuple(row) for row in found], keys)
    return answers
