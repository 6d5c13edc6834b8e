"""The tasks of the fold, done by Spark's Python workers: one job, one task each, without a shuffle. Small ones are done
here: to start workers takes longer.

A segment that is on this machine, on a disk that all machines see, or in an object store is read where it is, by the
worker. One at a URL that only Spark can read (``hdfs://…``) is given to a worker as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.fold.segments import SegmentSource
from bussrv.audit.fold.tasks import STRIPE, Done, Reread, Stripe, Task, perform
from bussrv.audit.reading.processes import size_of
from bussrv.audit.reading.remote import RemoteFile
from bussrv.audit.reading.stripes import COMPRESSED
from bussrv.audit.spark.failure import in_one_line, is_sparks
from bussrv.audit.spark.session import is_spread
from bussrv.audit.spark.store import literal, set_for
from bussrv.errors import JournalError
from bussrv.journal.segment import COMPRESSED_SUFFIX

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

LARGEST = 256 << 20
"""The largest segment at a URL, in bytes, that is read. Segments are ended at 64 MiB, unless an option says so."""

LARGEST_COMPRESSED = 32 << 20
"""The same of one that is compressed, which is several times as large inside."""

_SCHEMA = "done binary"
_ONE_BY_ONE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}

# Spark's part is to hand over a number for each task. To compile that takes longer than all of them.
_NOT_COMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

SMALL = STRIPE
"""Up to this size, in bytes, tasks are done by the process that was started, unless it only directs a cluster."""

T = TypeVar("T")

Unit = tuple["SegmentSource | None", T]
"""A unit of work, and the segment that it is about, if that is a single one."""

Work = Callable[[T, Mapping[str, bytes]], "Iterator[RecordBatch]"]
"""Does a unit of work, where Spark's executors are. It is given the contents of segments that only Spark can read."""

NOTHING_STORED: Mapping[str, bytes] = {}

_decode = msgspec.msgpack.Decoder(Done).decode


class SparkWorkers:
    """See :class:`bussrv.audit.reading.stripes.Workers`.

    :param place: a directory for segments that have to be on this machine.
    :ivar keep_memory: whether there are processes that keep their memory after the last task.
    """

    keep_memory = False

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._place = place
        self._urls: dict[str, str] = {}

    def directory(self, url: str) -> SparkDirectory:
        """A journal at a URL."""
        return SparkDirectory(self._spark, url, self._urls)

    def perform(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Do tasks."""
        sources = [_far(task) for task in tasks]
        if size_of(tasks) <= SMALL and not any(sources) and not is_spread(self._spark):
            yield from (perform(task, NOTHING_STORED) for task in tasks)
            return
        for frame in self.frames([*zip(sources, tasks, strict=True)], _answer, _SCHEMA):
            with set_for(self._spark, _ONE_BY_ONE | _NOT_COMPILED):
                yield from (_decode(row["done"]) for row in frame.collect())

    def frames(self, units: Sequence[Unit[T]], work: Work[T], schema: str) -> Iterator[DataFrame]:
        """The results of units of work: tables that are not computed yet, those of segments that only Spark can read
        apart.
        """
        self.keep_memory = True
        # Spark may have no row for an empty file.
        far = {source.path: unit for source, unit in units if source is not None and source.is_given and _size(source)}
        near = [unit for source, unit in units if source is None or source.path not in far]
        if near:
            numbers = self._spark.range(0, len(near), 1, len(near))
            yield numbers.mapInArrow(partial(_work, work, near), schema)
        if far:
            by_url = {self._urls[path]: (path, unit) for path, unit in far.items()}
            yield self._files(far).mapInArrow(partial(_work_stored, work, by_url), schema)

    def bring(self, source: SegmentSource) -> SegmentSource:
        """Copy a segment that only Spark can read to this machine."""
        if not source.is_given:
            return source
        path = self._place / source.taken.replace("/", "-")
        path = path.with_suffix(".jsonl" + (COMPRESSED_SUFFIX if source.path.endswith(COMPRESSED_SUFFIX) else ""))
        (row,) = self._files([source.path]).collect()
        path.write_bytes(bytes(row["content"]))
        return replace(source, path=str(path))

    def close(self) -> None:
        """The workers end with the session."""

    def _files(self, paths: Iterable[str]) -> DataFrame:
        files = self._spark.read.format("binaryFile").load([literal(path) for path in paths])
        return files.select(F.col("_metadata.file_path").alias("path"), "content")


class SparkDirectory:
    """A directory at a URL that only Spark can read, see :class:`bussrv.audit.reading.remote.RemoteDirectory`.

    :param urls: learns the URL of each file as Spark writes it, by the one made of ``url``.
    """

    def __init__(self, spark: SparkSession, url: str, urls: dict[str, str]) -> None:
        self._spark = spark
        self._url = url
        self._urls = urls

    def files(self) -> Iterator[RemoteFile]:
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
            name = row["path"].rpartition("/")[2]
            self._urls[f"{self._url.rstrip('/')}/{name}"] = row["place"]
            yield RemoteFile(name, row["length"], f"{row['length']} {row['time']}")

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


def _far(task: Task) -> SegmentSource | None:
    """The segment of a task, if only Spark can read it. A stripe of such segments has only one."""
    source = task.source if isinstance(task, Reread) else task.sources[0] if isinstance(task, Stripe) else None
    return source if source is not None and source.is_given else None


def _size(source: SegmentSource) -> int:
    most = LARGEST_COMPRESSED * COMPRESSED if source.path.endswith(COMPRESSED_SUFFIX) else LARGEST
    if source.size > most:
        raise JournalError(f"{source.path} is too large ({source.size} bytes): copy the journal to this machine")
    return source.size


def _work(work: Work[T], units: Sequence[T], batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Runs where Spark's executors are."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from work(units[number], NOTHING_STORED)


def _work_stored(
    work: Work[T], units: Mapping[str, tuple[str, T]], batches: Iterable[RecordBatch]
) -> Iterator[RecordBatch]:
    """Runs where Spark's executors are."""
    for batch in batches:
        for url, content in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            path, unit = units[url]
            yield from work(unit, {path: content})


def _answer(task: Task, stored: Mapping[str, bytes]) -> Iterator[RecordBatch]:
    import pyarrow

    yield pyarrow.RecordBatch.from_pydict({"done": [msgspec.msgpack.encode(perform(task, stored))]})
