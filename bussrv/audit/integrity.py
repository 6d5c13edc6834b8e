"""Is every record there, once and whole? Findings about lines and numbers, whatever the records say."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import as_findings, words
from bussrv.audit.load import EXCERPT
from bussrv.audit.snapshot import Snapshot


def bad_line_findings(bad_lines: DataFrame) -> DataFrame:
    """Each line that is not what it should be.

    :param bad_lines: what :func:`bussrv.audit.load.bad_lines` returns.
    """
    shown = F.col("raw")
    excerpt = F.when(F.length(shown) > EXCERPT, words(F.left(shown, F.lit(EXCERPT)), "…")).otherwise(shown)
    message = words("no ", F.col("kind"), ", ", F.col("problem"), ": ", excerpt)
    return as_findings(bad_lines.select("file", "line", F.lit("bad-line").alias("kind"), message.alias("message")))


def torn_tail_findings(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Each unfinished record at the end of a segment: normal in the last one of a journal, damage before that."""
    rows = []
    for tail in snapshot.torn_tails:
        kind, message = (
            ("torn-tail", "the journal ends in {} bytes of an unfinished record")
            if tail.last
            else ("bad-line", "the segment ends in {} bytes of an unfinished record, yet it is not the last one")
        )
        rows.append((kind, str(tail.path), tail.line, message.format(tail.size)))
    return as_findings(spark.createDataFrame(rows, "kind string, file string, line bigint, message string"))


def unreadable_findings(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Each segment that cannot be decompressed; nothing of it is read."""
    rows = [
        (str(segment.path), f"the segment cannot be decompressed: {segment.unreadable}")
        for segment in snapshot.segments
        if segment.unreadable is not None
    ]
    found = spark.createDataFrame(rows, "file string, message string")
    return as_findings(found.withColumn("kind", F.lit("unreadable-segment")))


def gap_findings(records: DataFrame) -> DataFrame:
    """Each range of numbers that is missing between the first record of a server that is there and the last one.

    A journal need not begin with record 1, since old segments may be deleted; but a segment begins with the record
    that it is named by.
    """
    in_order = Window.partitionBy("server").orderBy("seq", "segment_first")
    before = F.coalesce(F.lag("seq").over(in_order), F.col("segment_first") - 1, F.col("seq") - 1)
    numbers = records.select("server", "seq", before.alias("before"))
    gaps = numbers.where(F.col("seq") > F.col("before") + 1).select(
        "server", (F.col("before") + 1).alias("first_seq"), (F.col("seq") - 1).alias("last_seq")
    )
    message = words("server ", F.col("server"), ": ", _range(), " missing")
    return as_findings(gaps.select("*", F.lit("seq-gap").alias("kind"), message.alias("message")))


def duplicate_findings(records: DataFrame) -> DataFrame:
    """Each range of numbers that more than one record of a server has."""
    repeated = records.groupBy("server", "seq").agg(F.count("*").alias("times")).where("times > 1")
    in_order = Window.partitionBy("server").orderBy("seq")
    ranges = (
        repeated.withColumn("range", F.col("seq") - F.row_number().over(in_order))
        .groupBy("server", "range")
        .agg(F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq"), F.max("times").alias("times"))
    )
    message = words("server ", F.col("server"), ": ", _range(), " there up to ", F.col("times"), " times")
    return as_findings(ranges.select("*", F.lit("seq-duplicate").alias("kind"), message.alias("message")))


def _range() -> Column:
    first, last = F.col("first_seq"), F.col("last_seq")
    several = words("records ", first, " to ", last, " are")
    return F.when(first == last, words("record ", first, " is")).otherwise(several)
