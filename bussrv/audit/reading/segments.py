"""Segments as Spark reads them, and which file is which segment."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.snapshot import Journal, Snapshot
from bussrv.audit.store import literal
from bussrv.journal.segment import COMPRESSED_SUFFIX, SUFFIX

_NAMES = "*.{jsonl,jsonl.gz}"


def read_text(
    spark: SparkSession, snapshot: Snapshot, *, whole: bool = False, only: Sequence[str] | None = None
) -> DataFrame:
    """The text of the segments: ``raw``, a line without its newline, or a whole segment; ``taken``: the name of the
    segment in the snapshot; ``block``: the offset in the file of the part that a task read.

    What cannot be decompressed is left out, as far as it cannot.

    :param only: the names in the snapshot of the segments that are read.
    """
    options = {"wholetext": True} if whole else {"lineSep": "\n"}
    reader = spark.read.option("ignoreCorruptFiles", True)
    text = reader.text(_paths(snapshot, only), recursiveFileLookup=True, pathGlobFilter=_NAMES, **options)
    return located(text, snapshot)


def located(text: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Text as :func:`read_text` returns it.

    :param text: as Spark reads it from the files of a snapshot, or from others of their names.
    """
    return text.select(
        F.col("value").alias("raw"), _taken(snapshot).alias("taken"), F.col("_metadata.file_block_start").alias("block")
    )


def file_of(snapshot: Snapshot, taken: Column) -> Column:
    """Where the segment of that name in the snapshot is."""
    by_index = {journal.index: journal.location.rstrip("/") for journal in snapshot.journals}
    locations = F.array(*[F.lit(by_index.get(index)) for index in range(max(by_index) + 1)])
    compressed = [segment.taken for segment in snapshot.segments if segment.is_compressed]
    suffix = F.when(taken.isin(compressed), COMPRESSED_SUFFIX).otherwise(SUFFIX)
    return F.concat(F.get(locations, F.substring_index(taken, "/", 1).cast("int")), F.lit("/"), _digits(taken), suffix)


def number_of(taken: Column) -> Column:
    """The number in the name of a segment."""
    return _digits(taken).try_cast("bigint")


def _digits(taken: Column) -> Column:
    return F.substring_index(taken, "/", -1)


def _paths(snapshot: Snapshot, only: Sequence[str] | None) -> list[str]:
    wanted = [each for each in snapshot.segments if only is None or each.taken in only]
    paths = [each.file for each in wanted if each.in_place]
    here = [each for each in wanted if not each.in_place]
    if only is not None:
        paths += [f"file://{each.path_in(snapshot.local)}" for each in here]
    elif here:
        paths.append(f"file://{snapshot.local}")
    return [literal(path) for path in paths]


def _taken(snapshot: Snapshot) -> Column:
    # For each line anew: so without regular expressions.
    path = F.col("_metadata.file_path")
    taken = F.substring_index(F.substring_index(path, "/", -2), ".", 1)
    for journal in snapshot.journals:
        if journal.is_remote:
            digits = F.substring_index(F.substring_index(path, "/", -1), ".", 1)
            here = F.concat(F.lit(f"{journal.index}/"), digits)
            taken = F.when(path.startswith(_parent(journal)), here).otherwise(taken)
    return taken


def _parent(journal: Journal) -> str:
    return journal.root.rstrip("/") + "/"
