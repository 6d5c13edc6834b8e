"""Segments as a whole: their digests, and what links them, with built-in functions, in parallel.

A segment is one value here, so this takes memory for as many segments as are read at once. One that is larger than
``LARGEST`` is read on this machine instead, piece by piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Segment, Snapshot
from bussrv.audit.small import small_table
from bussrv.errors import JournalError
from bussrv.journal.chain import line_hash
from bussrv.journal.segment import GARBLED, digests_of, open_segment

LARGEST = 256 << 20
"""The largest file, in bytes, that is read as one value. Segments are ended at 64 MiB, unless an option says so."""

LARGEST_COMPRESSED = 32 << 20
"""The same of one that is compressed, which is several times as large inside."""

_BEGINNING = 1 << 16

_SIZES = "taken string, sizes array<bigint>"


class Whole(Struct, frozen=True):
    """A segment as a whole, as it was before it was compressed.

    :ivar size: in bytes.
    :ivar digest: the SHA-256 of these.
    :ivar beginnings: the SHA-256 of the beginnings that were asked for, by their size, as far as it is so long.
    :ivar first_line: its first line, or the beginning of a very long one.
    :ivar last_hash: the SHA-256 of its last line.
    """

    size: int
    digest: str
    beginnings: dict[int, str]
    first_line: bytes
    last_hash: str


def read_wholes(
    spark: SparkSession, snapshot: Snapshot, segments: Sequence[Segment], sizes: Mapping[str, Sequence[int]]
) -> dict[str, Whole]:
    """What each of some segments is as a whole, by its name in the snapshot; nothing of one that is garbled.

    :param sizes: of the beginnings to look at.
    :raises JournalError: if one is too large, and not on this machine.
    """
    # Spark has no row for an empty file.
    empty = [each for each in segments if _is_empty(snapshot, each)]
    found = {each.taken: _EMPTY for each in empty}
    large = [each for each in segments if _is_large(each)]
    if small := [each.taken for each in segments if each not in empty and not _is_large(each)]:
        found |= _read_small(spark, snapshot, sizes, None if len(small) == len(snapshot.segments) else small)
    for segment in large:
        whole = _read_large(snapshot, segment, sizes.get(segment.taken, ()))
        if whole is not None:
            found[segment.taken] = whole
    return found


_EMPTY = Whole(0, sha256().hexdigest(), {}, b"", line_hash(b""))


def _is_empty(snapshot: Snapshot, segment: Segment) -> bool:
    if segment.in_place:
        return segment.bytes == 0
    return segment.path_in(snapshot.local).stat().st_size == 0


def why_unreadable(segment: Segment) -> str:
    """Why a segment cannot be decompressed, in the words of the system."""
    if not segment.in_place:
        try:
            digests_of(Path(segment.file), ())
        except (OSError, *GARBLED) as error:
            return str(error)
    return "it is not what it was when it was compressed"


def _is_large(segment: Segment) -> bool:
    return segment.bytes > (LARGEST_COMPRESSED if segment.is_compressed else LARGEST)


def _read_small(
    spark: SparkSession, snapshot: Snapshot, sizes: Mapping[str, Sequence[int]], only: Sequence[str] | None
) -> dict[str, Whole]:
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
            F.substring(F.substring_index("raw", "\n", 1).cast("binary"), 1, _BEGINNING).alias("first_line"),
            F.sha2(F.substring(last, F.lit(1), F.length(last) - 1), 256).alias("last_hash"),
        )
        .collect()
    )
    return {
        row["taken"]: Whole(
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


def _read_large(snapshot: Snapshot, segment: Segment, sizes: Sequence[int]) -> Whole | None:
    if segment.in_place:
        raise JournalError(f"{segment.file} is too large ({segment.bytes} bytes): copy the journal to this machine")
    path = segment.path_in(snapshot.local)
    try:
        digests = digests_of(path, sizes)
        with open_segment(path) as file:
            first_line = file.readline(_BEGINNING).removesuffix(b"\n")
        with open_segment(path) as file:
            (last,) = deque(file, maxlen=1) or [b""]
    except GARBLED:
        return None
    return Whole(digests.size, digests.digest, digests.beginnings, first_line, line_hash(last))
