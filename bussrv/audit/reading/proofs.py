"""Proofs: segments without a closing seal are judged to the byte, by the judge itself, in Python, in parallel.

A closing seal vouches for every byte of a segment. Where there is none, lines may be written otherwise than a server
writes them, stand in another order, or follow a snapshot that was changed; and Spark's reader of JSON and its 64-bit
hashes do not tell all of that. So each of these segments is given to :class:`bussrv.journal.evidence.lines.LineJudge`
as a whole. The registry that such a segment begins with is compared with the one that the segment before ends with. So
that one is followed as well.

The executors need Python with bussrv.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.digests import here, is_large
from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Segment, Snapshot
from bussrv.journal.digests import Digests, digests_in
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.registries import Registries, RegistryJudge
from bussrv.journal.evidence.segments import is_closed
from bussrv.journal.reading import MAX_LINE
from bussrv.journal.scan import Scan
from bussrv.registry.fold import RegistryFold

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_SCHEMA = (
    "taken string, size bigint, digest string, sizes array<bigint>, beginnings array<string>, first_line binary, "
    "last_hash string, is_sound boolean, begins string, ends array<string>"
)

_ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Proof(Struct, frozen=True):
    """What was found out about a segment.

    :ivar is_sound: whether nothing is wrong with its lines.
    :ivar registries: what it begins and ends with; ``None`` if a line is wrong.
    """

    digests: Digests
    is_sound: bool
    registries: Registries | None


def to_prove(snapshot: Snapshot) -> dict[str, bool]:
    """The names in the snapshot of the segments to prove.

    Each is to be judged to the byte (true), or is one that such a segment follows (false).
    """
    found: dict[str, bool] = {}
    for journal in snapshot.journals:
        before: Segment | None = None
        for segment in journal.segments:
            if not is_closed(journal.late.seals.get(segment.number)):
                found[segment.taken] = True
                if before is not None:
                    found.setdefault(before.taken, False)
            before = segment
    return found


def prove(
    spark: SparkSession, snapshot: Snapshot, wanted: Mapping[str, bool], sizes: Mapping[str, Sequence[int]]
) -> dict[str, Proof]:
    """Prove segments; nothing is said of one that cannot be decompressed.

    :param wanted: their names in the snapshot, and whether each is judged to the byte.
    :param sizes: of the beginnings whose digests are asked for.
    """
    large = [each for each in snapshot.segments if each.taken in wanted and is_large(each)]
    found = {each.taken: proof for each in large if (proof := _prove_large(snapshot, each, wanted, sizes)) is not None}
    small = {taken: is_asked for taken, is_asked in wanted.items() if all(taken != each.taken for each in large)}
    return found | (_prove_small(spark, snapshot, small, sizes) if small else {})


def _prove_small(
    spark: SparkSession, snapshot: Snapshot, wanted: Mapping[str, bool], sizes: Mapping[str, Sequence[int]]
) -> dict[str, Proof]:
    known = {taken: [*sizes.get(taken, ())] for taken in wanted}
    text = read_text(spark, snapshot, whole=True, only=None if len(wanted) == len(snapshot.segments) else [*wanted])
    with _one_by_one(spark):
        rows = (
            text.select("taken", F.col("raw").cast("binary").alias("raw"))
            .mapInArrow(partial(_prove_batches, dict(wanted), known), _SCHEMA)
            .collect()
        )
    return {row["taken"]: _as_proof(row) for row in rows}


def _prove_large(
    snapshot: Snapshot, segment: Segment, wanted: Mapping[str, bool], sizes: Mapping[str, Sequence[int]]
) -> Proof | None:
    taken = segment.taken
    found = Scan(here(snapshot, segment), sizes.get(taken, ()), registry=RegistryFold(), to_the_byte=wanted[taken])
    if found.segment is None:
        return None
    return Proof(found.segment.digests, found.judge.wrong is None, found.segment.registries)


@contextmanager
def _one_by_one(spark: SparkSession) -> Iterator[None]:
    """Give Python one segment at a time: a segment is one value, and may be large."""
    before = spark.conf.get(_ROWS_AT_ONCE)
    spark.conf.set(_ROWS_AT_ONCE, "1")
    try:
        yield
    finally:
        spark.conf.set(_ROWS_AT_ONCE, str(before))


def _prove_batches(
    to_the_byte: Mapping[str, bool], sizes: Mapping[str, Sequence[int]], batches: Iterable[RecordBatch]
) -> Iterator[RecordBatch]:
    """Runs where Spark's executors are."""
    import pyarrow

    texts = pyarrow.list_(pyarrow.string())
    schema = pyarrow.schema(
        [
            ("taken", pyarrow.string()),
            ("size", pyarrow.int64()),
            ("digest", pyarrow.string()),
            ("sizes", pyarrow.list_(pyarrow.int64())),
            ("beginnings", texts),
            ("first_line", pyarrow.binary()),
            ("last_hash", pyarrow.string()),
            ("is_sound", pyarrow.bool_()),
            ("begins", pyarrow.string()),
            ("ends", texts),
        ]
    )
    for batch in batches:
        rows = [
            _as_row(taken, _prove_content(taken, raw, sizes[taken], to_the_byte=to_the_byte[taken]))
            for taken, raw in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        ]
        yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def judge_content(number: int, content: bytes, *, to_the_byte: bool) -> tuple[LineJudge, RegistryJudge]:
    """Judge a segment that is in memory.

    :param content: all of its lines.
    """
    judge = LineJudge(number, to_the_byte=to_the_byte)
    registry = RegistryJudge(judge, RegistryFold())
    for line in BytesIO(content):
        if line.endswith(b"\n") and len(line) < MAX_LINE:
            registry.pass_line(judge.pass_line(line))
        else:
            judge.pass_unreadable("the line is too long" if len(line) >= MAX_LINE else "the line has no end")
    judge.end()
    return judge, registry


def _prove_content(taken: str, content: bytes, sizes: Sequence[int], *, to_the_byte: bool) -> Proof:
    judge, registry = judge_content(int(taken.rpartition("/")[2]), content, to_the_byte=to_the_byte)
    return Proof(digests_in(BytesIO(content), sizes), judge.wrong is None, registry.registries())


def _as_row(taken: str, proof: Proof) -> dict[str, Any]:
    digests, registries = proof.digests, proof.registries
    return {
        "taken": taken,
        "size": digests.size,
        "digest": digests.digest,
        "sizes": [*digests.beginnings],
        "beginnings": [*digests.beginnings.values()],
        "first_line": digests.first_line,
        "last_hash": digests.last_hash,
        "is_sound": proof.is_sound,
        "begins": None if registries is None else registries.begins,
        "ends": None if registries is None else sorted(registries.ends),
    }


def _as_proof(row: Any) -> Proof:
    beginnings = dict(zip(row["sizes"], row["beginnings"], strict=True))
    digests = Digests(row["size"], row["digest"], beginnings, bytes(row["first_line"]), row["last_hash"])
    registries = None if row["begins"] is None else Registries(row["begins"], frozenset(row["ends"]))
    return Proof(digests, row["is_sound"], registries)
