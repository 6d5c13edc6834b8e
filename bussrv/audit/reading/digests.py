"""Digests of segments, with built-in functions of Spark, in parallel.

A segment is one value here, so this takes memory for as many segments as are read at once. One that is larger than
``LARGEST`` is read on this machine instead, piece by piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Segment, Snapshot
from bussrv.audit.spark.store import small_table
from bussrv.errors import JournalError
from bussrv.journal.digests import MOST_OF_A_LINE, NO_DIGESTS, Digests, digests_of
from bussrv.journal.segment import CORRUPT

LARGEST = 256 << 20
"""The largest file, in bytes, that is read as one value. Segments are ended at 64 MiB, unless an option says so."""

LARGEST_COMPRESSED = 32 << 20
"""The same of one that is compressed, which is several times as large inside."""

_SIZES = "taken string, sizes array<bigint>"


def read_digests(
    spark: SparkSession, snapshot: Snapshot, segments: Sequence[Segment], sizes: Mapping[str, Sequence[int]]
) -> dict[str, Digests]:
    """The digests of some segments, by their names in the snapshot; none of a segment that is corrupt.

    :param sizes: of the beginnings to look at.
    :raises JournalError: if one is too large, and not on this machine.
    """
    # Spark has no row for an empty file.
    empty = [each for each in segments if _is_empty(snapshot, each)]
    found = {each.taken: NO_DIGESTS for each in empty}
    large = [each for each in segments if is_large(each)]
    if small := [each.taken for each in segments if each not in empty and not is_large(each)]:
        found |= _read_small(spark, snapshot, sizes, None if len(small) == len(snapshot.segments) else small)
    for segment in large:
        digests = _read_large(snapshot, segment, sizes.get(segment.taken, ()))
        if digests is not None:
            found[segment.taken] = digests
    return found


def _is_empty(snapshot: Snapshot, segment: Segment) -> bool:
    if segment.in_place:
        return segment.bytes == 0
    return segment.path_in(snapshot.local).stat().st_size == 0


def why_unreadable(segment: Segment) -> str:
    """Why a segment cannot be decompressed, in the words of the system."""
    if not segment.in_place:
        try:
            digests_of(Path(segment.file))
        except (OSError, *CORRUPT) as error:
            return str(error)
    return "it is not what it was when it was compressed"


def is_large(segment: Segment) -> bool:
    """Whether a segment is read on this machine, piece by piece."""
    return segment.bytes > (LARGEST_COMPRESSED if segment.is_compressed else LARGEST)


def _read_small(
    spark: SparkSession, snapshot: Snapshot, sizes: Mapping[str, Sequence[int]], only: Sequence[str] | None
) -> dict[str, Digests]:
    wanted = small_table(spark, [(taken, [*each]) for taken, each in sizes.items()], _SIZES)
    content = F.col("raw").cast("binary")
    # The last line has its newline, unless the segment is empty.
    last = F.substring_index("raw", "\n", -2).cast("binary")
    rows = (
        read_text(spark, snapshot, whole=True, only=only)
        .join(F.broadcast(wanted), on="taken", how="left")
        .select(
            "taken",
            F.length(content).cast("bigint").alias("size"),
            F.sha2(content, 256).alias("digest"),
            _beginnings(content).alias("beginnings"),
            F.substring(F.substring_index("raw", "\n", 1).cast("binary"), 1, MOST_OF_A_LINE).alias("first_line"),
            F.sha2(F.substring(last, F.lit(1), F.length(last) - 1), 256).alias("last_hash"),
        )
        .collect()
    )
    return {
        row["taken"]: Digests(
            row["size"],
            row["digest"],
            {each["size"]: each["digest"] for each in row["beginnings"] or ()},
            bytes(row["first_line"]),
            row["last_hash"],
        )
        for row in rows
    }


def _beginnings(content: Column) -> Column:
    def digest(size: Column) -> Column:
        return F.struct(
            size.alias("size"), F.sha2(F.substring(content, F.lit(1), size.cast("int")), 256).alias("digest")
        )

    return F.transform(F.filter("sizes", lambda size: size <= F.length(content)), digest)


def _read_large(snapshot: Snapshot, segment: Segment, sizes: Sequence[int]) -> Digests | None:
    try:
        return digests_of(here(snapshot, segment), sizes)
    except CORRUPT:
        return None


def here(snapshot: Snapshot, segment: Segment) -> Path:
    """The path of a large segment.

    :raises JournalError: if it is not on this machine.
    """
    if segment.in_place:
        raise JournalError(f"{segment.file} is too large ({segment.bytes} bytes): copy the journal to this machine")
    return segment.path_in(snapshot.local)
