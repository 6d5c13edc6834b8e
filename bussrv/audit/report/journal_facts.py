"""Facts about journals: their servers, boots and seals, and the findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from msgspec.structs import replace
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.report import steps
from bussrv.audit.report.axis import Axis, axis_between
from bussrv.audit.report.model import Boot, Finding, Kind, Listing, Sealing, Segment, Server
from bussrv.audit.report.questions import (
    Question,
    Tables,
    all_rows,
    cut,
    first,
    listing,
    most_of,
    only_row,
    rows,
    together,
    total,
)
from bussrv.audit.tables.kinds import SEVERITIES
from bussrv.audit.tables.period import Period

MOST_FINDINGS = 200
"""Of each severity."""

MOST_KINDS = 100
MOST_SERVERS = 12
MOST_UNVERIFIED = 50
MOST_KEYS = 12


@dataclass(frozen=True)
class Scope:
    """The time axis, and the totals of all servers."""

    axis: Axis | None
    servers: int
    records: int
    boots: int
    crashes: int


def scope(tables: Tables, period: Period) -> Question[Scope]:
    """The time axis, and the totals of all servers."""
    totals = tables["servers"].agg(
        F.count("*").alias("servers"),
        *map(total, ("records", "boots", "crashes")),
        F.min(F.unix_micros("first_moment")).alias("begin"),
        F.max(F.unix_micros("last_moment")).alias("end"),
    )
    return only_row(totals).then(lambda row: _scope(period, **row))


def _scope(period: Period, begin: int | None, end: int | None, **numbers: int) -> Scope:
    if begin is None or end is None:
        return Scope(None, **numbers)
    begin = begin if period.since is None else max(begin, period.since)
    end = end if period.until is None else min(end, period.until - 1)
    return Scope(axis_between(begin, end) if begin <= end else None, **numbers)


def servers(tables: Tables, axis: Axis | None) -> Question[Listing[Server]]:
    """Each server, and when it ran."""
    known = listing(tables["servers"], Server, *first("server"), most=MOST_SERVERS)
    return known if axis is None else known.then(lambda servers: _with_times(servers, tables["boots"], axis))


def _with_times(known: Listing[Server], boots: DataFrame, axis: Axis) -> Question[Listing[Server]]:
    runs = boots.withColumn("what", cut(F.col("server"))).where(
        F.col("what").isin(*[each.server for each in known.rows])
    )
    times = runs.select("what", F.col("first_moment").alias("begin"), F.col("last_moment").alias("end"))
    crashed = runs.where("crashed").select("what", F.col("last_moment").alias("moment"))
    wanted = (all_rows(steps.covered(times, axis)), all_rows(steps.counted(crashed, axis)))
    return together(*wanted).then(lambda found: _at_times(known, axis, *found))


def _at_times(known: Listing[Server], axis: Axis, ran: steps.Rows, crashed: steps.Rows) -> Listing[Server]:
    shares = steps.shares(ran, axis, {each.server: (each.first_moment, each.last_moment) for each in known.rows})
    crashes: dict[str, dict[int, int]] = {each.server: {} for each in known.rows}
    for row in sorted(crashed, key=itemgetter("what", "step")):
        crashes[row["what"]][row["step"]] = row["number"]
    return Listing(
        tuple(replace(each, ran=shares[each.server], crashed_in=crashes[each.server]) for each in known.rows),
        known.total,
    )


def boots(tables: Tables) -> Question[Listing[Boot]]:
    """The boots, crashed ones first, then the latest."""
    return listing(tables["boots"], Boot, most_of("crashed"), most_of("first_moment"), *first("server", "boot"))


def kinds(tables: Tables) -> Question[tuple[Kind, ...]]:
    """The number of findings of each kind, in no order."""
    counts = tables["findings"].groupBy("severity", "kind").agg(F.count("*").alias("number"))
    return rows(counts, Kind, MOST_KINDS, *first("severity", "kind"))


def findings(tables: Tables) -> Question[tuple[Finding, ...]]:
    """The first findings of each severity, with the same share for each kind."""
    place = ("server", "segment", "first_seq", "file", "line", "session", "service", "boot", "message", "last_seq")
    of_kind = Window.partitionBy("severity", "kind").orderBy(*first(*place))
    of_severity = Window.partitionBy("severity").orderBy("number", "kind")
    chosen = (
        tables["findings"]
        .where(F.col("severity").isin(*SEVERITIES))
        .withColumn("number", F.row_number().over(of_kind))
        .where(F.col("number") <= MOST_FINDINGS)
        .withColumn("rank", F.row_number().over(of_severity))
        .where(F.col("rank") <= MOST_FINDINGS)
    )
    return rows(
        _in_segments(chosen, tables["segments"]),
        Finding,
        MOST_FINDINGS * len(SEVERITIES),
        *first("severity", "kind", *place),
    )


def _in_segments(chosen: DataFrame, segments: DataFrame) -> DataFrame:
    """Findings with the segment of their first record: the last one that begins before it."""
    begins = segments.select(F.col("server").alias("writer"), F.col("segment").alias("begins"))
    is_within = (F.col("server") == F.col("writer")) & (F.col("begins") <= F.col("first_seq"))
    found = chosen.join(begins, on=is_within, how="left").groupBy(*chosen.columns).agg(F.max("begins").alias("begins"))
    return found.withColumn("segment", F.coalesce("segment", "begins"))


def sealing(tables: Tables) -> Question[Listing[Sealing]]:
    """The segments of each journal, and how many of them a seal verifies."""
    by_journal = _sealing(tables["segments"], "journal", "server")
    unverified = F.col("segments") - F.col("verified")
    return listing(by_journal, Sealing, unverified.desc(), *first("journal", "server"))


def all_seals(tables: Tables) -> Question[Sealing]:
    """The same of all journals together."""
    everything = _sealing(tables["segments"].withColumn("journal", F.lit("")).withColumn("server", F.lit("")))
    return only_row(everything).then(lambda row: Sealing(journal="", server=None, **row))


def _sealing(segments: DataFrame, *by: str) -> DataFrame:
    return segments.groupBy(*by).agg(
        F.count("*").alias("segments"),
        *map(total, ("records", "bytes")),
        F.count_if(F.col("sealed") == "closed").alias("closed"),
        F.count_if(F.col("sealed") == "open").alias("open"),
        F.count_if(F.coalesce("sealed", F.lit("none")) == "none").alias("unsealed"),
        F.count_if("vouched").alias("verified"),
    )


def unverified(tables: Tables) -> Question[Listing[Segment]]:
    """The segments that no seal verifies."""
    found = tables["segments"].where("NOT coalesce(vouched, false)")
    return listing(found, Segment, *first("server", "segment", "file"), most=MOST_UNVERIFIED)


def keys(summary: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, str | None]:
    """The fingerprints of the keys that signed the seals, and of the key that was given to the audit."""
    seals = summary.get("seals", {})
    known = seals.get("keys")
    return None if known is None else tuple(known[:MOST_KEYS]), seals.get("trusted")
