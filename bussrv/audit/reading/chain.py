"""Every line of a segment with its place: which ones are bad, and which do not hold the hash of the line before them.

To number lines and to look at each with the one before it, they have to be sorted. So this is done only for segments of
which it is known that something is wrong (:mod:`bussrv.audit.reading.extents`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import as_findings, words
from bussrv.audit.reading.load import EXCERPT, HEADER, PART, RECORD, hash_of, judged
from bussrv.audit.reading.segments import file_of, number_of
from bussrv.audit.reading.snapshot import Snapshot


def places_of(text: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Every line with its place: ``file`` and ``line``, its number, ``hash`` and ``hash_before``, the hash of the line
    before it. A header or part that is sound as such, but stands where it does not belong, has its ``problem`` here.

    :param text: what :func:`bussrv.audit.reading.segments.read_text` returns.
    """
    in_file = Window.partitionBy("taken").orderBy("block", "position")
    lines = judged(text.withColumn("position", F.monotonically_increasing_id())).withColumn("hash", hash_of("raw"))
    placed = lines.select(
        *("taken", "kind", "part", "parts", "prev", "problem", "server", "boot", "seq"),
        F.left(F.make_valid_utf8("raw"), F.lit(EXCERPT + 1)).alias("raw"),
        F.row_number().over(in_file).cast("bigint").alias("line"),
        F.lag("hash").over(in_file).alias("hash_before"),
        F.lag(F.when(F.col("problem").isNull(), F.col("seq"))).over(in_file).alias("seq_before"),
        F.first(F.struct("kind", "problem")).over(in_file).alias("first"),
    )
    return (
        placed.withColumn("problem", F.coalesce("problem", _misplaced()))
        .withColumn("file", file_of(snapshot, F.col("taken")))
        .withColumn("segment", number_of(F.col("taken")))
        .drop("first")
    )


def _misplaced() -> Column:
    is_header, is_part = F.col("kind") == HEADER, F.col("kind") == PART
    behind_header = (F.col("first.kind") == HEADER) & F.col("first.problem").isNull()
    return (
        F.when(is_header & (F.col("line") > 1), F.lit("not in the first line"))
        .when(is_part & ~behind_header, F.lit("without a header"))
        .when(is_part & (F.col("part") != F.col("line") - 1), words("part ", F.col("part"), " in its place"))
    )


def bad_line_findings(places: DataFrame) -> DataFrame:
    """Each line that is not what it should be.

    :param places: what :func:`places_of` returns.
    """
    shown = F.col("raw")
    excerpt = F.when(F.length(shown) > EXCERPT, words(F.left(shown, F.lit(EXCERPT)), "…")).otherwise(shown)
    message = words("no ", F.col("kind"), ", ", F.col("problem"), ": ", excerpt)
    bad = places.where(F.col("problem").isNotNull())
    return as_findings(
        bad.select(
            *("segment", "file", "line"),
            (F.col("seq_before") + 1).alias("first_seq"),
            F.lit("bad-line").alias("kind"),
            message.alias("message"),
        )
    )


def part_findings(places: DataFrame) -> DataFrame:
    """Each header whose snapshot is not there as it says.

    :param places: what :func:`places_of` returns.
    """
    is_sound = F.col("problem").isNull()
    header = F.when(is_sound & (F.col("kind") == HEADER), F.struct("server", "boot", "parts"))
    counted = places.groupBy("file", "segment").agg(
        F.any_value(header, ignoreNulls=True).alias("header"),
        F.count_if(is_sound & (F.col("kind") == PART)).alias("there"),
    )
    message = words("no header, its snapshot has ", F.col("header.parts"), " parts, and ", F.col("there"), " are there")
    return as_findings(
        counted.where(F.col("header.parts") != F.col("there")).select(
            *("header.server", "header.boot", "segment", "file"),
            F.lit(1).alias("line"),
            F.lit("bad-line").alias("kind"),
            message.alias("message"),
        )
    )


def line_findings(places: DataFrame) -> DataFrame:
    """Each place in a segment where a line does not hold the hash of the line before it.

    Where two such places follow each other, the line between them was changed. A bad line is not asked for the hash,
    but has one; so it is found out by the line behind it, too, if it was changed.

    :param places: what :func:`places_of` returns.
    """
    in_file = Window.partitionBy("file").orderBy("line")
    is_broken = F.coalesce(F.col("problem").isNull() & (F.col("prev") != F.col("hash_before")), F.lit(False))
    near = places.withColumn("is_broken", is_broken).select(
        "*",
        F.coalesce(F.lag("is_broken").over(in_file), F.lit(False)).alias("before_too"),
        F.coalesce(F.lead("is_broken").over(in_file), F.lit(False)).alias("next_too"),
    )
    part = words("part ", F.col("part"), " of the snapshot")
    which = F.when(F.col("kind") == RECORD, words("record ", F.col("seq"))).otherwise(part)
    message = F.when(
        F.col("next_too"), words(which, " was changed, or put in: it does not fit the lines before and behind it")
    ).otherwise(
        words(
            which, " does not hold the hash of the line before it: that was changed, or lines were put in or taken out"
        )
    )
    is_behind = ~F.col("next_too") & (F.col("seq_before") < F.col("seq"))
    first = F.when(is_behind, F.col("seq_before")).otherwise(F.col("seq"))
    return as_findings(
        near.where(F.col("is_broken") & (F.col("next_too") | ~F.col("before_too"))).select(
            *("server", "boot", "segment", "file", "line"),
            first.alias("first_seq"),
            F.col("seq").alias("last_seq"),
            F.lit("broken-chain").alias("kind"),
            message.alias("message"),
        )
    )
