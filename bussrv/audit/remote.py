"""Journals that are somewhere else than on this machine, wherever Spark can read: ``s3a://…``, ``hdfs://…``.

They are read in place and taken for copies that nobody writes to.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.segments import literal
from bussrv.audit.snapshot import Journal, Segment, taken_as
from bussrv.errors import JournalError
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME, read_manifest
from bussrv.journal.segment import COMPRESSED_SUFFIX, DIGITS, SUFFIX


def take_remote(spark: SparkSession, url: str, index: int, root: Path, trusted: PublicKey | None) -> Journal:
    """Find the segments of a journal, and read its manifest.

    :param root: a directory of this machine, to put the manifest in.
    :raises JournalError: if there is no segment, or it cannot be read.
    """
    try:
        files = spark.read.format("binaryFile").load(literal(url))
        path = F.col("_metadata.file_path")
        rows = files.select(
            path.alias("path"), "length", F.col("modificationTime").cast("string").alias("time")
        ).collect()
        manifests = files.where(path.endswith(f"/{MANIFEST_NAME}")).select("content").collect()
    except PySparkException as error:
        first_line = str(error).strip().partition("\n")[0]
        raise JournalError(f"cannot read the journal {url}: {first_line}") from error
    manifest_path = root / f"{index}-{MANIFEST_NAME}"
    for row in manifests:
        manifest_path.write_bytes(bytes(row["content"]))
    found = {}
    for row in sorted(rows, key=lambda row: row["path"], reverse=True):
        if _is_segment(name := row["path"].rpartition("/")[2]):
            number = int(name.partition(".")[0])
            stamp = f"{row['length']} {row['time']}"
            # In this order the one that is not compressed comes last, and counts.
            found[number] = Segment(row["path"], taken_as(index, number), number, row["length"], stamp)
    if not found:
        raise JournalError(f"{url} holds no journal records")
    segments = tuple(found[number] for number in sorted(found))
    manifest = read_manifest(manifest_path, trusted)
    parent = segments[0].file.rpartition("/")[0]
    return Journal(index, url, parent, segments, frozenset(found), manifest, manifest)


def _is_segment(name: str) -> bool:
    digits = name.removesuffix(COMPRESSED_SUFFIX).removesuffix(SUFFIX)
    return digits != name and len(digits) == DIGITS and digits.isascii() and digits.isdecimal()
