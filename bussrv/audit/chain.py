"""Does every line hold the hash of the one before it, and every header what the segment before it was?

Without a key, who can write to a journal can also make all this fit again; what only seals can show is not asked here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import as_findings, words
from bussrv.audit.load import HEADER, PART, RECORD
from bussrv.audit.snapshot import Snapshot


def line_findings(places: DataFrame) -> DataFrame:
    """Each line that does not hold the hash of the line before it, within a segment.

    A bad line is not asked for the hash, but has one; so it is found out by the line behind it, too, if it was changed.

    :param places: what :func:`bussrv.audit.load.places_of` returns.
    """
    part = words("part ", F.col("head.part"), " of the snapshot")
    which = F.when(F.col("kind") == RECORD, words("record ", F.col("seq"))).otherwise(part)
    message = words(which, " does not hold the hash of the line before it; that line, or this one, was changed")
    broken = places.where(F.col("problem").isNull() & (F.col("prev") != F.col("hash_before")))
    return as_findings(
        broken.select(
            *("server", "boot", "file", "line"),
            F.col("seq").alias("first_seq"),
            F.col("seq").alias("last_seq"),
            F.lit("broken-chain").alias("kind"),
            message.alias("message"),
        )
    )


def segments(spark: SparkSession, snapshot: Snapshot, places: DataFrame) -> DataFrame:
    """Each segment: ``file``, ``server`` and ``boot``; its ``header``, NULL if the first line is not a sound one;
    ``parts``, how many parts of its snapshot are there; ``is_unknown``, whether it cannot be read, or its first line is
    a bad one; and ``before``: ``number``, ``bytes``, ``digest`` and ``last_hash`` of the segment before it.

    :param places: what :func:`bussrv.audit.load.places_of` returns.
    """
    rows = [
        (each.taken, each.taken.partition("/")[0], str(each.path), each.number, each.bytes, each.digest)
        for each in snapshot.segments
    ]
    columns = "taken string, journal string, file string, number bigint, bytes bigint, digest string"
    is_first, is_sound = F.col("line") == 1, F.col("problem").isNull()
    header = F.when(is_first & is_sound & (F.col("kind") == HEADER), F.struct("prev", "server", "boot", "head"))
    read = places.groupBy("taken").agg(
        F.any_value(header, ignoreNulls=True).alias("header"),
        F.bool_or(is_first & ~is_sound).alias("is_unknown"),
        F.count_if(is_sound & (F.col("kind") == PART)).alias("parts"),
        F.max_by("hash", "line").alias("last_hash"),
    )
    unreadable = [each.taken for each in snapshot.segments if each.unreadable is not None]
    before = F.lag(F.struct("number", "bytes", "digest", "last_hash")).over(
        Window.partitionBy("journal").orderBy("number")
    )
    return (
        spark.createDataFrame(rows, columns)
        .join(read, on="taken", how="left")
        .withColumn("before", before)
        .select(
            *("file", "header.server", "header.boot", "header", "parts", "before"),
            (F.coalesce("is_unknown", F.lit(False)) | F.col("taken").isin(unreadable)).alias("is_unknown"),
        )
    )


def link_findings(segments: DataFrame) -> DataFrame:
    """Each segment whose header does not fit the segment before it. What was there before the first one is not known:
    old segments may be gone. The header of a salvaged journal begins a new chain.

    :param segments: what :func:`segments` returns.
    """
    previous, before = F.col("header.head.previous"), F.col("before")
    is_other = (previous["bytes"] != before["bytes"]) | (previous["digest"] != before["digest"])
    is_changed = before["digest"].isNotNull() & is_other
    no_header, new_chain = F.col("header").isNull(), F.col("header.head.salvaged").isNotNull()
    message = (
        F.when(no_header & ~F.col("is_unknown"), F.lit("the segment does not begin with a header"))
        .when(no_header | new_chain | before.isNull(), F.lit(None))
        .when(previous.isNull(), F.lit("the header says that there is no segment before this one, but there is"))
        .when(
            previous["segment"] != before["number"],
            words("the segment should follow segment ", previous["segment"], ", not segment ", before["number"]),
        )
        .when(
            F.col("header.prev") != before["last_hash"],
            F.lit("the header does not hold the hash of the last line of the segment before it"),
        )
        .when(is_changed, F.lit("the segment before this one is not what it was when it was closed"))
    )
    return _about_headers(segments.withColumn("message", message).where("message IS NOT NULL"), "broken-link")


def part_findings(segments: DataFrame) -> DataFrame:
    """Each header whose snapshot is not there as it says.

    :param segments: what :func:`segments` returns.
    """
    said = F.col("header.head.parts")
    message = words("no header, its snapshot has ", said, " parts, and ", F.col("parts"), " are there")
    return _about_headers(segments.where(said != F.col("parts")).withColumn("message", message), "bad-line")


def salvage_findings(segments: DataFrame) -> DataFrame:
    """Each header with which a server began a new chain behind damage.

    :param segments: what :func:`segments` returns.
    """
    damage = F.col("header.head.salvaged")
    place = words("segment ", damage["segment"], ", line ", damage["line"], ": ", damage["reason"])
    message = words("the server went on behind damage in ", place)
    found = segments.where(damage.isNotNull()).withColumn("message", message)
    return _about_headers(found, "journal-salvaged", damage["seq"])


def _about_headers(found: DataFrame, kind: str, seq: Column | None = None) -> DataFrame:
    numbers = [] if seq is None else [seq.alias("first_seq"), seq.alias("last_seq")]
    return as_findings(
        found.select(
            *("server", "boot", "file", "message"), F.lit(1).alias("line"), F.lit(kind).alias("kind"), *numbers
        )
    )
