"""Findings: one table for all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.spark.store import small_table
from bussrv.audit.tables.kinds import KINDS, SEVERITIES

FINDING: dict[str, str] = {
    "severity": "string",
    "kind": "string",
    "server": "string",
    "boot": "string",
    "segment": "bigint",
    "first_seq": "bigint",
    "last_seq": "bigint",
    "moment": "timestamp",
    "session": "string",
    "service": "string",
    "file": "string",
    "line": "bigint",
    "message": "string",
}
"""The columns of the findings table and their types. NULL: does not apply."""


class Finding(Struct, frozen=True, kw_only=True):
    """A finding that was made without Spark; its fields are columns of ``FINDING``."""

    kind: str
    message: str
    server: str | None = None
    boot: str | None = None
    segment: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    file: str | None = None
    line: int | None = None


_FIELDS = Finding.__struct_fields__


def made_here(spark: SparkSession, findings: Iterable[Finding]) -> DataFrame:
    """Findings that were made without Spark, as :func:`as_findings` returns them."""
    rows = [tuple(getattr(each, name) for name in _FIELDS) for each in findings]
    return as_findings(small_table(spark, rows, ", ".join(f"{name} {FINDING[name]}" for name in _FIELDS)))


def as_findings(rows: DataFrame) -> DataFrame:
    """Rows with all columns of ``FINDING`` except ``severity``.

    :param rows: ``kind``, ``message``, and the columns of ``FINDING`` that apply.
    """
    known = rows.columns
    return rows.selectExpr(
        *[
            f"CAST({f'`{name}`' if name in known else 'NULL'} AS {as_type}) AS `{name}`"
            for name, as_type in FINDING.items()
            if name != "severity"
        ]
    )


def union(checks: Sequence[DataFrame]) -> DataFrame:
    """The findings of several checks, with their severity.

    :param checks: tables of :func:`as_findings`.
    """
    found = reduce(DataFrame.unionAll, checks)
    of_each = [
        F.when(F.col("kind").isin(*[kind for kind in KINDS if KINDS[kind] == severity]), severity)
        for severity in SEVERITIES
    ]
    return found.withColumn("severity", F.coalesce(*of_each)).select(*FINDING)


def words(*parts: str | Column) -> Column:
    """A sentence of strings and the values of columns."""
    return F.concat(*[F.lit(each) if isinstance(each, str) else each.cast("string") for each in parts])
