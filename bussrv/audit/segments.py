"""Segments as Spark reads them, and which file is which segment."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.snapshot import Journal, Snapshot

_PATTERN_CHARACTER = re.compile(r"[\\\[\]{}*?]")


_NAMES = "*.{jsonl,jsonl.gz}"


def literal(path: str) -> str:
    """A path as Spark reads from it: it takes some characters for a pattern, though it does not when it writes."""
    return _PATTERN_CHARACTER.sub(r"\\\g<0>", path)


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
    return text.select(
        F.col("value").alias("raw"), _taken(snapshot).alias("taken"), F.col("_metadata.file_block_start").alias("block")
    )


def file_of(snapshot: Snapshot, taken: Column) -> Column:
    """Where the segment of that name in the snapshot is."""
    locations = F.array(*[F.lit(journal.location.rstrip("/")) for journal in snapshot.journals])
    return F.concat_ws("/", F.get(locations, F.substring_index(taken, "/", 1).cast("int")), name_of(taken))


def number_of(taken: Column) -> Column:
    """The number in the name of a segment."""
    return F.substring_index(name_of(taken), ".", 1).try_cast("bigint")


def name_of(taken: Column) -> Column:
    """The name of the file of a segment."""
    return F.substring_index(taken, "/", -1)


def _paths(snapshot: Snapshot, only: Sequence[str] | None) -> list[str]:
    paths = []
    if only is None and not all(journal.is_remote for journal in snapshot.journals):
        paths.append(f"file://{snapshot.local}")
    for journal in snapshot.journals:
        wanted = [each for each in journal.segments if only is None or each.taken in only]
        if journal.is_remote:
            paths += [each.file for each in wanted]
        elif only is not None:
            paths += [f"file://{snapshot.local / each.taken}" for each in wanted]
    return [literal(path) for path in paths]


def _taken(snapshot: Snapshot) -> Column:
    path = F.col("_metadata.file_path")
    taken = F.regexp_extract(path, r"\d+/\d+\.jsonl(\.gz)?$", 0)
    for index, journal in enumerate(snapshot.journals):
        if journal.is_remote:
            name = F.substring_index(path, "/", -1)
            taken = F.when(path == F.concat(F.lit(_parent(journal)), name), F.concat(F.lit(f"{index}/"), name)).otherwise(
                taken
            )
    return taken


def _parent(journal: Journal) -> str:
    return journal.root.rstrip("/") + "/"
