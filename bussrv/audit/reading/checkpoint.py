"""Lines that are kept from one audit to the next, so that closed segments are read once.

::

    DIR/
        .bussrv-audit-checkpoint   marks the directory as a checkpoint; locked while it is used
        ledger.json                what is kept: the journals, and each segment with what it is like
        lines/BATCH/               their lines, as Parquet
        inbox/0/….jsonl            links to segments, in which Spark's stream finds new ones
        stream/                    how far the stream got

Kept are segments that are what their closing seal says. Which ones have to be there is not for the stream to say, but
for the ledger and the journal: a segment that was away and comes back, however old it is, is read, too; one that was
written to since is read again, as if nothing were kept of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.output import Ownership
from bussrv.audit.reading.extents import Block, blocks_of
from bussrv.audit.reading.load import lines_of
from bussrv.audit.reading.segments import located, read_text
from bussrv.audit.reading.snapshot import Segment, Snapshot
from bussrv.audit.spark.store import literal, write_parquet
from bussrv.errors import BussrvError
from bussrv.journal.digests import Digests
from bussrv.journal.versions import SCHEMA_VERSION

MARKER = ".bussrv-audit-checkpoint"

FORMAT = 2
"""The version of what is in the directory; with another one, everything is read again."""

# Spark skips files that are older than the newest one by more than this. A restored segment is as old as it was.
_NEVER = "36500d"


class CheckpointRefused(BussrvError):
    """The directory cannot be used. The message says why."""


_OURS = Ownership(
    MARKER,
    CheckpointRefused,
    not_ours="is neither empty nor a checkpoint of the audit: name another directory",
    in_use="another audit uses",
)


class Kept(Struct, frozen=True, rename={"digests": "whole"}):
    """A segment of which the lines are kept.

    :ivar stamp: of the file when it was read.
    """

    stamp: str
    digests: Digests
    blocks: list[Block]


class _Version(Struct):
    format: tuple[int, int]


class _Ledger(Struct):
    """
    :ivar format: ``FORMAT`` and the schema version of journals.
    :ivar journals: the locations of the journals; the index of each is part of the names of its segments.
    :ivar batches: the directories of lines that are whole.
    """

    format: tuple[int, int] = (FORMAT, SCHEMA_VERSION)
    journals: list[str] = []
    batches: list[str] = []
    segments: dict[str, Kept] = {}


class Checkpoint:
    """The directory while it is used; made by :func:`opened`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "ledger.json"
        self._ledger = self._read()
        for batch in self._lines().iterdir():
            if batch.name not in self._ledger.batches:
                shutil.rmtree(batch)

    def _read(self) -> _Ledger:
        try:
            text = self._path.read_bytes()
            # Another version may have written any other form.
            if msgspec.json.decode(text, type=_Version).format == (FORMAT, SCHEMA_VERSION):
                ledger = msgspec.json.decode(text, type=_Ledger)
                self._check(ledger)
                return ledger
        except FileNotFoundError:
            pass
        except msgspec.DecodeError as error:
            raise self._damaged(str(error)) from error
        for name in ("lines", "inbox", "stream"):
            shutil.rmtree(self._directory / name, ignore_errors=True)
        return _Ledger()

    def _check(self, ledger: _Ledger) -> None:
        for batch in ledger.batches:
            if not (self._lines() / batch / "_SUCCESS").exists():
                raise self._damaged(f"there are no lines in {batch}")

    def _damaged(self, why: str) -> CheckpointRefused:
        return CheckpointRefused(f"{self._path} is damaged ({why}): remove {self._directory}, or name another")

    def _lines(self) -> Path:
        path = self._directory / "lines"
        path.mkdir(exist_ok=True)
        return path

    def index_of(self, location: str) -> int:
        """The index of a journal, the same each time."""
        journals = self._ledger.journals
        if location not in journals:
            journals.append(location)
        return journals.index(location)

    def kept(self, segments: Iterable[Segment]) -> dict[str, Kept]:
        """Those of the segments of which the lines are kept, and that are as they were, by their names."""
        found = {}
        for segment in segments:
            kept = self._ledger.segments.get(segment.taken)
            if kept is not None and kept.stamp == segment.stamp:
                found[segment.taken] = kept
        return found

    def recognize(self, segments: Iterable[Segment], digests: Mapping[str, Digests]) -> dict[str, Kept]:
        """Those of the segments of which the lines are kept, though the file is another one: compressed meanwhile.

        :param digests: what each of them is like.
        """
        found = {}
        for segment in segments:
            kept, known = self._ledger.segments.get(segment.taken), digests.get(segment.taken)
            if kept is None or known is None or (kept.digests.size, kept.digests.digest) != (known.size, known.digest):
                continue
            found[segment.taken] = self._ledger.segments[segment.taken] = Kept(segment.stamp, known, kept.blocks)
        return found

    def is_new(self, segment: Segment) -> bool:
        """Whether nothing is kept of a segment, not even as it was before somebody wrote to it."""
        return segment.taken not in self._ledger.segments

    def add(
        self, spark: SparkSession, snapshot: Snapshot, segments: Sequence[Segment], digests: Mapping[str, Digests]
    ) -> dict[str, Kept]:
        """Read segments, and keep their lines.

        :param segments: of which nothing is kept.
        """
        batches = [] if _is_connected(spark) else self._stream(spark, snapshot, segments)
        blocks = self._blocks(spark, batches)
        if rest := [each.taken for each in segments if each.taken not in blocks]:
            batches.append(self._batch(spark, snapshot, rest))
            blocks |= self._blocks(spark, batches[-1:])
        self._ledger.batches += batches
        found = {each.taken: Kept(each.stamp, digests[each.taken], blocks.get(each.taken, [])) for each in segments}
        self._ledger.segments |= found
        return found

    def _stream(self, spark: SparkSession, snapshot: Snapshot, segments: Sequence[Segment]) -> list[str]:
        """Let Spark's stream read what is new on this machine; see that nothing else is in its inbox."""
        segments = [each for each in segments if not each.in_place]
        inbox = self._directory / "inbox"
        shutil.rmtree(inbox, ignore_errors=True)
        for segment in segments:
            link = segment.path_in(inbox)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(segment.path_in(snapshot.local).resolve())
        if not segments:
            return []
        # A batch that an earlier audit did not finish is read again, though some of its links may be gone. Segments
        # that it lacks are read after it, or are reported as missing.
        written: list[str] = []

        def write(text: DataFrame, number: int) -> None:
            name = f"stream-{number}"
            write_parquet(lines_of(text), self._lines() / name)
            written.append(name)

        text = (
            spark.readStream.option("maxFileAge", _NEVER)
            .option("ignoreMissingFiles", True)
            .text(f"file://{literal(str(inbox))}", recursiveFileLookup=True, lineSep="\n")
        )
        query = (
            located(text, snapshot)
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", f"file://{self._directory / 'stream'}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return written

    def _batch(self, spark: SparkSession, snapshot: Snapshot, taken: Sequence[str]) -> str:
        name = f"batch-{len(self._ledger.batches)}"
        write_parquet(lines_of(read_text(spark, snapshot, only=taken)), self._lines() / name)
        return name

    def _blocks(self, spark: SparkSession, batches: Sequence[str]) -> dict[str, list[Block]]:
        return blocks_of(self._table(spark, batches)) if batches else {}

    def _table(self, spark: SparkSession, batches: Sequence[str]) -> DataFrame:
        return spark.read.parquet(*[f"file://{literal(str(self._lines() / each))}" for each in batches])

    def lines(self, spark: SparkSession, taken: Iterable[str]) -> DataFrame | None:
        """The lines that are kept of segments; ``None`` if these are none.

        :param taken: the names of the segments.
        """
        wanted = [*taken]
        if not wanted:
            return None
        table = self._table(spark, self._ledger.batches)
        return table if len(wanted) == len(self._ledger.segments) else table.where(F.col("taken").isin(wanted))

    def save(self) -> None:
        """Keep what was added."""
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self._ledger))
        new.rename(self._path)


def _is_connected(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect: another process, somewhere, would write the batches of a stream."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def opened(directory: Path) -> Iterator[Checkpoint]:
    """Use a directory, which is made if need be.

    :raises CheckpointRefused: if it is not ours, another audit uses it, or it is damaged.
    """
    with _OURS.held(directory):
        yield Checkpoint(directory)
