"""Journals that are somewhere else than on this machine, wherever Spark can read: ``s3a://…``, ``hdfs://…``.

They are read in place and taken for copies that nobody writes to.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.failure import in_one_line, is_sparks
from bussrv.audit.reading.snapshot import Journal, Segment, taken_as
from bussrv.audit.store import literal
from bussrv.errors import JournalError
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME, read_manifest
from bussrv.journal.segment import COMPRESSED_SUFFIX, SUFFIX, is_segment_name


def take_remote(spark: SparkSession, url: str, index: int, root: Path, trusted: PublicKey | None) -> Journal:
    """Find the segments of a journal, and read its manifest.

    :param root: a directory of this machine, to put the manifest in.
    :raises JournalError: if there is no segment, or it cannot be read.
    """
    if url.endswith((SUFFIX, COMPRESSED_SUFFIX)):
        raise JournalError(f"{url} is a segment: name the directory that holds it")
    try:
        files = spark.read.format("binaryFile").load(literal(url))
        place = F.col("_metadata.file_path")
        rows = files.select(
            "path", place.alias("place"), "length", F.col("modificationTime").cast("string").alias("time")
        ).collect()
        manifests = files.where(F.col("path").endswith(f"/{MANIFEST_NAME}")).select("content").collect()
    except Exception as error:
        if not is_sparks(error):
            raise
        raise JournalError(f"cannot read the journal {url}: {in_one_line(error)}") from error
    manifest_path = root / f"{index}-{MANIFEST_NAME}"
    for row in manifests:
        manifest_path.write_bytes(bytes(row["content"]))
    found, places = {}, set()
    for row in sorted(rows, key=lambda row: row["path"], reverse=True):
        if is_segment_name(name := row["path"].rpartition("/")[2]):
            number = int(name.partition(".")[0])
            stamp = f"{row['length']} {row['time']}"
            file = f"{url.rstrip('/')}/{name}"
            # In this order the one that is not compressed comes last, and counts.
            found[number] = Segment(file, taken_as(index, number), number, row["length"], stamp)
            places.add(row["place"].rpartition("/")[0])
    if not any(segment.bytes for segment in found.values()):
        raise JournalError(f"{url} holds no journal records")
    segments = tuple(found[number] for number in sorted(found))
    manifest = read_manifest(manifest_path, trusted)
    return Journal(index, url, places.pop(), segments, frozenset(found), manifest, manifest)
