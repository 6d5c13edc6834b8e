"""Journals that are not on this machine, at URLs that Spark can read: ``s3a://…``, ``hdfs://…``.

They are read in place, as copies that no server writes to. Only the last segment is fetched, because it may end in an
unfinished record, which is left out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.snapshot import Journal, Segment, cut_torn_tail, taken_as
from bussrv.audit.spark.failure import in_one_line, is_sparks
from bussrv.audit.spark.store import literal
from bussrv.errors import JournalError
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.segment import COMPRESSED_SUFFIX, SUFFIX, is_segment_name

LARGEST_FETCHED = 256 << 20
"""The largest last segment, in bytes, that is fetched. A larger one is read in place, as it is."""


def take_remote(spark: SparkSession, url: str, index: int, root: Path, trusted: PublicKey | None) -> Journal:
    """Find the segments of a journal, and read its manifest.

    :param root: a directory on this machine for the manifest and the last segment.
    :raises JournalError: if there is no segment, or it cannot be read.
    """
    if url.endswith((SUFFIX, COMPRESSED_SUFFIX)):
        raise JournalError(f"{url} is a segment: name the directory that holds it")
    manifest_path = root / f"{index}-{MANIFEST_NAME}"
    try:
        files = spark.read.format("binaryFile").load(literal(url))
        place, segments = _segments(files, url, index)
        _fetch_last(files, segments, root)
        _fetch(files, MANIFEST_NAME, manifest_path)
    except Exception as error:
        if not is_sparks(error):
            raise
        raise JournalError(f"cannot read the journal {url}: {in_one_line(error)}") from error
    if not any(segment.bytes for segment in segments):
        raise JournalError(f"{url} holds no journal records")
    manifest = read_manifest(manifest_path, trusted)
    numbers = frozenset(segment.number for segment in segments)
    return Journal(index, url, place, tuple(segments), numbers, manifest, manifest)


def _segments(files: DataFrame, url: str, index: int) -> tuple[str, list[Segment]]:
    """The URL of the segments' directory, as Spark writes it, and the segments in order."""
    rows = files.select(
        "path",
        F.col("_metadata.file_path").alias("place"),
        "length",
        F.col("modificationTime").cast("string").alias("time"),
    ).collect()
    found, place = {}, ""
    for row in sorted(rows, key=lambda row: row["path"], reverse=True):
        if is_segment_name(name := row["path"].rpartition("/")[2]):
            number = int(name.partition(".")[0])
            stamp = f"{row['length']} {row['time']}"
            file = f"{url.rstrip('/')}/{name}"
            # If both files exist, the one that is not compressed comes last, and counts.
            found[number] = Segment(file, taken_as(index, number), number, row["length"], stamp, in_place=True)
            place = row["place"].rpartition("/")[0]
    return place, [found[number] for number in sorted(found)]


def _fetch_last(files: DataFrame, segments: list[Segment], root: Path) -> None:
    """Put the last segment into the snapshot, without an unfinished record at its end."""
    if not segments or segments[-1].is_compressed or segments[-1].bytes > LARGEST_FETCHED:
        return
    last = replace(segments[-1], in_place=False)
    taken = last.path_in(root)
    taken.parent.mkdir()
    taken.touch()
    _fetch(files, taken.name, taken)
    segments[-1] = replace(cut_torn_tail(last, taken), bytes=taken.stat().st_size)


def _fetch(files: DataFrame, name: str, path: Path) -> None:
    """Copy a file to this machine, if it exists."""
    for row in files.where(F.col("path").endswith(f"/{name}")).select("content").collect():
        path.write_bytes(bytes(row["content"]))
