"""The tables of an audit, row for row, without a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bussrv.audit.fold.stripe import Period
from bussrv.audit.output import PUBLISHED
from bussrv.audit.reading import checkpoint
from bussrv.audit.reading.processes import ProcessWorkers
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.reading.stripes import fold_journals
from bussrv.audit.spark.workers import SparkWorkers
from bussrv.audit.sql.database import Database
from bussrv.audit.sql.tables import define
from bussrv.journal.keys import PublicKey
from tests.audit.frames import rows

PLACES = ("file", "journal")
"""Columns that say where a journal is."""


@dataclass
class Ingested:
    """The tables that an audit made.

    :ivar tables: by name, each row as JSON, and how often it is there.
    """

    tables: dict[str, Counter[str]]

    @property
    def records(self) -> Counter[str]:
        """How many records each server has."""
        found: Counter[str] = Counter()
        for row in map(json.loads, self.tables["events"].elements()):
            found[row["server"]] += row["records"]
        return found

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(each["kind"] for each in self.found))

    @property
    def found(self) -> list[dict[str, Any]]:
        return [json.loads(row) for row in self.tables["findings"].elements()]

    def without_places(self) -> Ingested:
        return Ingested({name: _without_places(rows) for name, rows in self.tables.items()})


def _without_places(rows: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row, count in rows.items():
        found[json.dumps({name: value for name, value in json.loads(row).items() if name not in PLACES})] += count
    return found


def as_json(found: Iterable[dict[str, Any]]) -> Counter[str]:
    """The rows of a table, each as JSON."""
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in found)


def ingested(
    spark: SparkSession | None,
    journals: Sequence[Path | str],
    place: Path,
    *,
    kept: Path | None = None,
    trusted: PublicKey | None = None,
    since: int | None = None,
    until: int | None = None,
    size: int | None = None,
) -> Ingested:
    """Read journals as an audit does.

    :param spark: does the tasks of the fold; ``None``: this process does.
    :param place: a directory for what is written meanwhile, that is made.
    :param kept: the directory of the checkpoint.
    :param size: of a stripe, in bytes.
    """
    place.mkdir()
    with ExitStack() as stack:
        used = None if kept is None else stack.enter_context(checkpoint.opened(kept))
        workers = stack.enter_context(closing(ProcessWorkers() if spark is None else SparkWorkers(spark, place)))
        snapshot = stack.enter_context(
            take_snapshot(
                [str(each) for each in journals],
                workers.directory,
                trusted=trusted,
                since=since,
                until=until,
                index_of=None if used is None else used.index_of,
            )
        )
        more = {} if size is None else {"size": size}
        fold_journals(snapshot, Period(since, until), place / "facts", workers, used, **more)
        database = stack.enter_context(closing(Database(place / "scratch")))
        assert {*define(database, place / "facts", Period(since, until))} >= {*PUBLISHED}
        return Ingested({name: as_json(rows(database, name)) for name in PUBLISHED})
