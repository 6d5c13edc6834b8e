"""The format ``bussrv`` in Spark: as a table, and as a stream that goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bussrv.audit.source.columns import SCHEMA
from bussrv.audit.source.datasource import register
from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal
from tests.audit.source.growing import Growing, seqs_of, write_whole

TIMEOUT = 400


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_whole(tmp_path_factory.mktemp("whole") / "hall")


def test_a_table_has_a_partition_for_each_segment(registered: SparkSession, whole: Path, tmp_path: Path) -> None:
    barn = tmp_path / "the barn, [1]"
    write_journal(barn, events=300, server="barn", seed=3)
    table = registered.read.format("bussrv").load([str(whole), str(barn)])
    assert table.schema == StructType.fromDDL(SCHEMA)
    rows = table.select("journal", "server", "seq").collect()
    assert sorted({(row.journal, row.server) for row in rows}) == sorted([(str(whole), "hall"), (str(barn), "barn")])
    assert sorted(row.seq for row in rows if row.server == "hall") == seqs_of(whole)
    assert sorted(row.seq for row in rows if row.server == "barn") == seqs_of(barn)
    assert table.rdd.getNumPartitions() == len([*list_segments(whole), *list_segments(barn)])
    later = registered.read.format("bussrv").option("startingAt", 2001).load(str(whole))
    assert min(row.seq for row in later.select("seq").collect()) == 2001
    assert registered.read.format("bussrv").option("startingAt", "latest").load(str(whole)).collect() == []


class Stream:
    """A job of a user, which is started again and again."""

    def __init__(self, spark: SparkSession, place: Path, *journals: Path, most: int = 400_000) -> None:
        self._spark = spark
        self._place = place
        self._journals = journals
        self._most = most

    def run(self, write: Callable[[DataFrame, int], None] | None = None) -> int:
        """Read all that is there. :returns: how many batches that were."""
        paths = "[" + ", ".join(f'"{each}"' for each in self._journals) + "]"
        stream = self._spark.readStream.format("bussrv").option("paths", paths)
        rows = stream.option("maxBytesPerTrigger", self._most).load().select("server", "seq", "event")
        writer = rows.writeStream.option("checkpointLocation", str(self._place / "checkpoint"))
        if write is None:
            writer = writer.format("parquet").option("path", str(self._place / "rows"))
        else:
            writer = writer.foreachBatch(write)
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(TIMEOUT)
            return len(query.recentProgress)
        finally:
            query.stop()

    def seqs(self, server: str = "hall") -> list[int]:
        rows = self._spark.read.parquet(str(self._place / "rows"))
        return sorted(row.seq for row in rows.where(rows.server == server).collect())


def test_a_stream_reads_each_record_once(registered: SparkSession, whole: Path, tmp_path: Path) -> None:
    """However often it is started again, also if segments were compressed meanwhile; and more journals come in."""
    growing = Growing(whole, tmp_path / "hall")
    growing.grow(growing.all // 3)
    stream = Stream(registered, tmp_path, growing.directory)
    assert stream.run() > 1
    growing.grow(growing.all // 3, compressed=True)
    stream = Stream(registered, tmp_path, growing.directory, most=1 << 30)
    stream.run()
    growing.grow(growing.all)
    barn = tmp_path / "barn"
    write_journal(barn, events=300, server="barn", seed=3)
    Stream(registered, tmp_path, growing.directory, barn, most=1 << 30).run()
    assert (stream.seqs(), stream.seqs("barn")) == (seqs_of(whole), seqs_of(barn))


@pytest.mark.long
def test_a_batch_that_failed_is_the_same_again(registered: SparkSession, whole: Path, tmp_path: Path) -> None:
    batches: list[tuple[int, list[int]]] = []

    def fail_once(rows: DataFrame, number: int) -> None:
        batches.append((number, sorted(row.seq for row in rows.collect())))
        if len(batches) == 2:
            raise OSError("the disk of the user is full")

    growing = Growing(whole, tmp_path / "hall")
    growing.grow(900_000)
    stream = Stream(registered, tmp_path, growing.directory)
    with pytest.raises(PySparkException, match="the disk of the user is full"):
        stream.run(fail_once)
    growing.grow(growing.all, compressed=True)
    stream.run(fail_once)
    assert batches[1] == batches[2]
    assert [seq for number, seqs in batches[:1] + batches[2:] for seq in seqs] == seqs_of(whole)


@pytest.fixture
def live(registered: SparkSession, whole: Path, tmp_path: Path) -> Iterator[tuple[Growing, Callable[[], int]]]:
    """A growing journal, and a stream of it that goes on for ever: how many records it has by now."""
    growing = Growing(whole, tmp_path / "hall")
    growing.grow(30_000)
    rows = registered.readStream.format("bussrv").load(str(growing.directory))
    query = rows.groupBy("server").count().writeStream.format("memory").queryName("live").outputMode("complete").start()

    def count() -> int:
        query.processAllAvailable()
        found = registered.sql("SELECT sum(count) FROM live").first()
        return 0 if found is None else found[0]

    yield growing, count
    with suppress(PySparkException):
        query.stop()


def test_a_live_stream_and_a_torn_tail(live: tuple[Growing, Callable[[], int]], whole: Path) -> None:
    growing, count = live
    for _ in range(2):
        growing.grow(20_000)
        text = b"".join(path.read_bytes() for path in list_segments(growing.directory))
        assert count() == text[: text.rfind(b"\n")].count(b'"event":')
    growing.grow(growing.all)
    assert count() == len(seqs_of(whole))


def test_records_that_are_gone_end_a_stream(live: tuple[Growing, Callable[[], int]]) -> None:
    growing, count = live
    count()
    growing.grow(growing.all)
    for path in list_segments(growing.directory)[:3]:
        path.unlink()
    # The stream may be about to open one of them.
    gone = r"are not there any more: start anew with another checkpoint|No such file or directory: .*\.jsonl"
    with pytest.raises(PySparkException, match=gone):
        count()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"path": "/nowhere/hall"}, "cannot read the journal directory /nowhere/hall: No such file or directory"),
        ({"path": "/", "startingat": "0"}, "startingAt is '0'"),
    ],
)
def test_an_error_is_told_in_its_own_words(registered: SparkSession, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException, match=sentence):
        registered.read.format("bussrv").options(**options).load().count()
