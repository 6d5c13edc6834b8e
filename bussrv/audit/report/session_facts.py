"""Facts about sessions: concurrency, openings and closings, durations, reasons, traffic."""

from __future__ import annotations

from functools import reduce

from msgspec.structs import replace
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.report import steps
from bussrv.audit.report.axis import Axis
from bussrv.audit.report.model import BANDS, Churn, Listing, Named, Protocol, Traffic
from bussrv.audit.report.questions import (
    Question,
    Tables,
    all_rows,
    cut,
    first,
    known,
    listing,
    most_of,
    number_of,
    only_row,
    total,
)

MOST_PROTOCOLS = 8
MOST_REASONS = 12


def _local(tables: Tables) -> DataFrame:
    """Sessions without those of linked servers, which are in the journals of these."""
    return tables["sessions"].where("home IS NULL")


def protocols(tables: Tables, axis: Axis | None, servers: int) -> Question[Listing[Protocol]]:
    """Each wire format, the one with most sessions first."""
    counts = (
        _local(tables)
        .groupBy(cut(steps.protocol()).alias("protocol"))
        .agg(
            F.count("*").alias("sessions"),
            F.count_if(F.col("state") == "closed").alias("closed"),
            F.count_if(F.col("state") == "open").alias("open"),
            F.count_if("persistent").alias("persistent"),
            *map(total, ("objects_in", "objects_out", "bytes_in", "bytes_out")),
        )
    )
    listed = listing(counts, Protocol, most_of("sessions"), *first("protocol"), most=MOST_PROTOCOLS)
    if axis is None:
        return listed
    of_these = tables["concurrency"].withColumn("protocol", cut(steps.protocol()))
    return listed.then(lambda found: _with_levels(found, of_these, axis, servers == 1))


def _with_levels(
    listed: Listing[Protocol], concurrency: DataFrame, axis: Axis, is_one_server: bool
) -> Question[Listing[Protocol]]:
    of_these = concurrency.where(F.col("protocol").isin(*[each.protocol for each in listed.rows]))
    levels = all_rows(steps.concurrency(of_these, axis, is_one_server))
    return levels.then(lambda rows: _at_levels(listed, rows, axis))


def _at_levels(listed: Listing[Protocol], rows: steps.Rows, axis: Axis) -> Listing[Protocol]:
    levels, nothing = steps.filled(rows, axis), (0,) * axis.steps
    found = ((each, *levels.get(each.protocol, (nothing, nothing))) for each in listed.rows)
    return Listing(tuple(replace(each, most=most, last=last) for each, most, last in found), listed.total)


def remote_sessions(tables: Tables) -> Question[int]:
    """The number of remote sessions."""
    return number_of(tables["sessions"].where("home IS NOT NULL"))


def churn(tables: Tables, axis: Axis | None) -> Question[Churn]:
    """Sessions opened and closed in each step."""
    if axis is None:
        return known(Churn())
    local = _local(tables)
    moments = [local.select(F.lit(what).alias("what"), F.col(what).alias("moment")) for what in ("opened", "closed")]
    return all_rows(steps.counted(reduce(DataFrame.unionAll, moments), axis)).then(lambda rows: _churn(rows, axis))


def _churn(found: steps.Rows, axis: Axis) -> Churn:
    numbers = {(row["what"], row["step"]): row["number"] for row in found}
    opened, closed = (
        tuple(numbers.get((what, step), 0) for step in range(axis.steps)) for what in ("opened", "closed")
    )
    return Churn(opened, closed)


def durations(tables: Tables) -> Question[tuple[int, ...]]:
    """The number of closed sessions in each of ``BANDS``, and of longer ones."""
    ended = _local(tables).where(F.col("duration_seconds").isNotNull())
    numbers = [F.count_if(_is_in_band(band)).alias(str(band)) for band in range(len(BANDS) + 1)]
    return only_row(ended.agg(*numbers)).then(lambda row: tuple(row.values()))


def _is_in_band(band: int) -> Column:
    seconds = F.col("duration_seconds")
    is_long_enough = seconds >= BANDS[band - 1] if band else F.lit(True)
    return is_long_enough & (seconds < BANDS[band]) if band < len(BANDS) else is_long_enough


def closings(tables: Tables) -> Question[Listing[Named]]:
    """The reasons of closings."""
    ended = _local(tables).where(F.col("state") == "closed")
    counts = ended.groupBy(F.col("reason").alias("name")).agg(F.count("*").alias("number"))
    return listing(counts, Named, most_of("number"), *first("name"), most=MOST_REASONS)


def traffic(tables: Tables) -> Question[Listing[Traffic]]:
    """The clients that sent and received most."""
    who = first("server", "protocol", "routing_id", "actor", "claimed", "address")
    volume, objects = F.col("bytes_in") + F.col("bytes_out"), F.col("objects_in") + F.col("objects_out")
    return listing(tables["talkers"], Traffic, volume.desc_nulls_last(), objects.desc_nulls_last(), *who)


def traffic_bytes(tables: Tables) -> Question[int]:
    """The bytes that all clients sent and received."""
    both = tables["talkers"].agg(total("bytes_in"), total("bytes_out"))
    return only_row(both).then(lambda row: int(row["bytes_in"] + row["bytes_out"]))
