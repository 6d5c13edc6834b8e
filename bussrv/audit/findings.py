"""Findings: what the audit has to say. One table for all kinds of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

SEVERITIES = ("error", "warning", "notice")
"""From worst to harmless. Notices alone leave a journal clean."""

KINDS: dict[str, str] = {
    # Of the journal as such.
    "bad-line": "error",
    "unreadable-segment": "error",
    "broken-chain": "error",
    "broken-link": "error",
    "journal-salvaged": "warning",
    "seq-gap": "error",
    "seq-duplicate": "error",
    "torn-tail": "notice",
    # Of what the records say.
    "session-opened-twice": "error",
    "session-never-closed": "error",
    "session-closed-twice": "error",
    "session-closed-unopened": "error",
    # The registry is the same with or without such a record.
    "service-not-registered": "warning",
}
"""Every kind of finding, and how severe it is."""

FINDING: dict[str, str] = {
    "severity": "string",
    "kind": "string",
    "server": "string",
    "boot": "string",
    "first_seq": "bigint",
    "last_seq": "bigint",
    "session": "string",
    "service": "string",
    "file": "string",
    "line": "bigint",
    "message": "string",
}
"""The columns of the findings table and their types. NULL where one does not apply."""


def as_findings(rows: DataFrame) -> DataFrame:
    """Rows that have a ``kind``, a ``message`` and what else of ``FINDING`` applies, with all its columns."""
    severities = F.create_map(*[F.lit(each) for kind in KINDS for each in (kind, KINDS[kind])])
    given = {**{name: F.col(name) for name in rows.columns}, "severity": severities[F.col("kind")]}
    return rows.select(*[given.get(name, F.lit(None)).cast(as_type).alias(name) for name, as_type in FINDING.items()])


def union(checks: Sequence[DataFrame]) -> DataFrame:
    """The findings of several checks.

    :param checks: what :func:`as_findings` returns.
    """
    return reduce(DataFrame.unionAll, checks)


def words(*parts: str | Column) -> Column:
    """A sentence; strings stand for themselves, columns for their values."""
    return F.concat(*[F.lit(each) if isinstance(each, str) else each.cast("string") for each in parts])


def in_order(findings: DataFrame) -> DataFrame:
    """The worst first, then by kind and place."""
    severity = F.array_position(F.array(*[F.lit(each) for each in SEVERITIES]), F.col("severity"))
    return findings.orderBy(severity, "kind", "server", "first_seq", "file", "line", "session", "service")
