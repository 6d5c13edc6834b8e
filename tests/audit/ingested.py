"""What an audit makes its tables of, row for row: far fewer jobs of Spark than the tables are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.reading import checkpoint
from bussrv.audit.reading.ingest import ingest
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.spark.progress import Progress
from bussrv.audit.spark.store import Store
from bussrv.audit.tables.findings import union
from bussrv.journal.keys import PublicKey

PLACES = ("file", "journal")
"""Columns that say where a journal is."""


@dataclass
class Ingested:
    """What was read.

    :ivar records, segments, findings: each row as JSON, and how often it is there.
    """

    records: Counter[str]
    segments: Counter[str]
    findings: Counter[str]

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(json.loads(row)["kind"] for row in self.findings.elements()))

    @property
    def found(self) -> list[dict[str, Any]]:
        return [json.loads(row) for row in self.findings.elements()]

    def without_places(self) -> Ingested:
        return Ingested(*map(_without_places, (self.records, self.segments, self.findings)))


def _without_places(rows: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row, count in rows.items():
        found[json.dumps({name: value for name, value in json.loads(row).items() if name not in PLACES})] += count
    return found


def rows_of(table: DataFrame) -> Counter[str]:
    """The rows of a table, each as JSON."""
    return Counter(row[0] for row in table.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect())


def ingested(
    spark: SparkSession,
    journals: Sequence[Path | str],
    place: Path,
    *,
    kept: Path | None = None,
    trusted: PublicKey | None = None,
    since: int | None = None,
    until: int | None = None,
) -> Ingested:
    """Read journals as :func:`bussrv.audit.job.audit` does.

    :param place: a directory for what is written meanwhile, that is made.
    :param kept: the directory of the checkpoint.
    """
    place.mkdir()
    with ExitStack() as stack:
        used = None if kept is None else stack.enter_context(checkpoint.opened(kept))
        snapshot = stack.enter_context(
            take_snapshot(
                spark,
                [str(each) for each in journals],
                trusted=trusted,
                since=since,
                until=until,
                index_of=None if used is None else used.index_of,
            )
        )
        read = ingest(spark, snapshot, Store(spark, place), Progress(), used)
        return Ingested(*map(rows_of, (read.records, read.segments, union(read.findings))))
