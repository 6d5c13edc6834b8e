"""The journal as a source of Spark. Needs PySpark 4.2 or newer: older ones cannot bound the batches of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import asdict
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bussrv.audit.source.columns import SCHEMA
from bussrv.audit.source.options import ReadOptions, read_options
from bussrv.audit.source.positions import ALL, JournalReading, Position
from bussrv.audit.source.slices import read_slice

Offset = dict[str, dict[str, Any]]
"""The place in each journal, by its directory."""


def register(spark: SparkSession) -> None:
    """Let a session read the format ``bussrv``."""
    spark.dataSource.register(BussrvDataSource)


class BussrvDataSource(DataSource):
    """The registry events of journals, as a table or as a stream. The options are those of
    :class:`bussrv.audit.source.options.ReadOptions`.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bussrv"

    def schema(self) -> str:
        """The columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> JournalsReader:
        """Reads what is there now.

        :raises bussrv.errors.BadValue: if an option is not what it should be.
        """
        return JournalsReader(read_options(self.options))

    def streamReader(self, schema: StructType) -> JournalsStreamReader:  # noqa: N802 - Spark calls it by that name
        """Reads what is there, and then what is written.

        :raises bussrv.errors.BadValue: if an option is not what it should be.
        """
        return JournalsStreamReader(read_options(self.options))


class _Reader:
    """Journals, of which each is read in parts.

    :param options: say which, and how.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part of a segment. Workers call this, also if there is no part."""
        part = partition.value
        return iter(()) if part is None else read_slice(part, fail_on_loss=self._options.fail_on_loss)

    def _journal(self, directory: str) -> JournalReading:
        return JournalReading(directory, self._options)

    def _between(self, begin: Mapping[str, Position], end: Mapping[str, Position]) -> list[InputPartition]:
        """The lines between two places of each journal."""
        return [
            InputPartition(part)
            for directory, place in end.items()
            if begin[directory] != place
            for part in self._journal(directory).slices(begin[directory], place)
        ]


class JournalsReader(_Reader, DataSourceReader):
    """Journals as a table: a partition for each segment."""

    def partitions(self) -> Sequence[InputPartition]:
        """The segments."""
        begin = {each: self._journal(each).start() for each in self._options.directories}
        return self._between(begin, {each: self._journal(each).advance(place, ALL) for each, place in begin.items()})


class JournalsStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Journals as a stream. Its offsets are places in journals, so what Spark has committed is read once."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._until: dict[str, Position] = {}

    def initialOffset(self) -> Offset:  # noqa: N802
        """The places to start at."""
        return {each: asdict(self._journal(each).start()) for each in self._options.directories}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much a batch has, at most."""
        return ReadMaxBytes(self._options.most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The places after the next batch, of which each journal has an equal share."""
        begin = self._positions(start)
        most = limit.max_bytes // len(begin) if isinstance(limit, ReadMaxBytes) else ALL
        found = {each: self._journal(each).advance(place, most, self._until.get(each)) for each, place in begin.items()}
        return start | {each: asdict(place) for each, place in found.items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than what is there now."""
        journals = {each: self._journal(each) for each in self._options.directories}
        self._until = {each: journal.advance(journal.oldest(), ALL) for each, journal in journals.items()}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The parts of a batch."""
        return self._between(self._positions(start), self._positions(end))

    def _positions(self, offset: Offset) -> dict[str, Position]:
        """The place in each journal. One that was not read before is read from its beginning."""
        return {
            each: Position(**offset[each]) if each in offset else self._journal(each).oldest()
            for each in self._options.directories
        }
