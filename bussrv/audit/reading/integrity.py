"""Is every record there, once and whole? Findings about segments and numbers, whatever the records say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import Finding, as_findings, words
from bussrv.audit.reading.snapshot import Segment, TornTail
from bussrv.audit.reading.wholes import why_unreadable


def torn_tail_findings(torn_tails: Iterable[TornTail]) -> Iterator[Finding]:
    """Each unfinished record at the end of a segment: normal in the last one of a journal, damage before that."""
    for tail in torn_tails:
        kind, message = (
            ("torn-tail", "the journal ends in {} bytes of an unfinished record")
            if tail.last
            else ("bad-line", "the segment ends in {} bytes of an unfinished record, yet it is not the last one")
        )
        yield Finding(kind=kind, message=message.format(tail.size), segment=tail.number, file=tail.file, line=tail.line)


def unreadable_findings(segments: Iterable[Segment]) -> Iterator[Finding]:
    """Each segment that cannot be decompressed; nothing of it is read.

    :param segments: these.
    """
    for segment in segments:
        yield Finding(
            kind="unreadable-segment",
            message=f"the segment cannot be decompressed: {why_unreadable(segment)}",
            segment=segment.number,
            file=segment.file,
        )


def gap_findings(records: DataFrame) -> DataFrame:
    """Each range of numbers that is missing between the first record of a server that is there and the last one.

    A journal need not begin with record 1, since old segments may be deleted; but a segment begins with the record
    that it is named by.
    """
    in_order = Window.partitionBy("server").orderBy("seq", "segment_first")
    before = F.coalesce(F.lag("seq").over(in_order), F.col("segment_first") - 1, F.col("seq") - 1)
    numbers = records.select("server", "seq", "segment_first", before.alias("before"))
    gaps = numbers.where(F.col("seq") > F.col("before") + 1).select(
        "server",
        F.col("segment_first").alias("segment"),
        (F.col("before") + 1).alias("first_seq"),
        (F.col("seq") - 1).alias("last_seq"),
    )
    message = words("server ", F.col("server"), ": ", _range(), " missing")
    return as_findings(gaps.select("*", F.lit("seq-gap").alias("kind"), message.alias("message")))


def duplicate_findings(records: DataFrame) -> DataFrame:
    """Each range of numbers that more than one record of a server has."""
    repeated = (
        records.groupBy("server", "seq")
        .agg(F.count("*").alias("times"), F.max("segment_first").alias("segment"))
        .where("times > 1")
    )
    in_order = Window.partitionBy("server").orderBy("seq")
    ranges = (
        repeated.withColumn("range", F.col("seq") - F.row_number().over(in_order))
        .groupBy("server", "range")
        .agg(
            F.min("segment").alias("segment"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            F.max("times").alias("times"),
        )
    )
    message = words("server ", F.col("server"), ": ", _range(), " there up to ", F.col("times"), " times")
    return as_findings(ranges.select("*", F.lit("seq-duplicate").alias("kind"), message.alias("message")))


def _range() -> Column:
    first, last = F.col("first_seq"), F.col("last_seq")
    several = words("records ", first, " to ", last, " are")
    return F.when(first == last, words("record ", first, " is")).otherwise(several)
