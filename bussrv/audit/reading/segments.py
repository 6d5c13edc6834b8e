"""Segments as text, and the names of their files."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.snapshot import Journal, Snapshot
from bussrv.audit.spark.store import literal

_NAMES = "*.{jsonl,jsonl.gz}"


def read_text(
    spark: SparkSession, snapshot: Snapshot, *, whole: bool = False, only: Sequence[str] | None = None
) -> DataFrame:
    """The text of the segments. Data that cannot be decompressed is left out.

    - ``raw``: a line without its newline, or a whole segment,
    - ``taken``: the name of the segment in the snapshot,
    - ``block``: the offset in the file of the part that a task read.

    :param only: the names in the snapshot of the segments that are read.
    """
    options = {"wholetext": True} if whole else {"lineSep": "\n"}
    reader = spark.read.option("ignoreCorruptFiles", True)
    text = reader.text(_paths(snapshot, only), recursiveFileLookup=True, pathGlobFilter=_NAMES, **options)
    return located(text, snapshot)


def located(text: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Text as :func:`read_text` returns it.

    :param text: lines that Spark read from files with the names of a snapshot.
    """
    return text.select(
        F.col("value").alias("raw"), _taken(snapshot).alias("taken"), F.col("_metadata.file_block_start").alias("block")
    )


def number_of(taken: Column) -> Column:
    """The number in the name of a segment."""
    return F.substring_index(taken, "/", -1).try_cast("bigint")


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
    # This runs for each line, so it uses no regular expression.
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
