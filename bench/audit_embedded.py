"""The audit without Spark, called as the command calls it, and its answers, read from the tables that it wrote."""

from __future__ import annotations

from pathlib import Path

import duckdb
from audit_answers import Answers, as_answer
from audit_meter import Meter
from audit_spark import TABLES

WHOLE = "everything"


def run(directories: list[Path], out: Path, meter: Meter) -> Answers:
    """Audit in this process, and those that it starts."""
    with meter.phase(WHOLE):
        # A small journal takes less time than these imports.
        from bussrv.audit.job import audit

        audit(None, directories, out)
    return {
        name: as_answer(_rows(out / "tables" / table, query), keys) for name, (table, keys, query) in TABLES.items()
    }


def _rows(table: Path, query: str) -> list[tuple[object, ...]]:
    source = f"read_parquet('{table}/**/*.parquet', hive_partitioning = true, union_by_name = true)"
    return duckdb.sql(query.format(table=source)).fetchall()
