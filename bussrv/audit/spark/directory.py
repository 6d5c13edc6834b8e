"""The directory of a journal at a URL that only Spark can read: ``hdfs://…``, ``file://…``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.remote import File
from bussrv.audit.spark.failure import in_one_line, is_sparks
from bussrv.audit.spark.store import literal
from bussrv.errors import JournalError


class SparkDirectory:
    """See :class:`bussrv.audit.reading.remote.Directory`."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._spark = spark
        self._url = url

    def files(self) -> Iterator[File]:
        """The files in it."""
        with self._reading():
            rows = (
                self._rows()
                .select(
                    "path",
                    F.col("_metadata.file_path").alias("place"),
                    "length",
                    F.col("modificationTime").cast("string").alias("time"),
                )
                .collect()
            )
        for row in rows:
            directory, name = row["place"].rpartition("/")[0], row["path"].rpartition("/")[2]
            yield File(name, directory, row["length"], f"{row['length']} {row['time']}")

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file to this machine."""
        with self._reading():
            for row in self._rows().where(F.col("path").endswith(f"/{name}")).select("content").collect():
                target.write_bytes(bytes(row["content"]))

    def _rows(self) -> DataFrame:
        return self._spark.read.format("binaryFile").load(literal(self._url))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not is_sparks(error):
                raise
            raise JournalError(f"cannot read the journal {self._url}: {in_one_line(error)}") from error
