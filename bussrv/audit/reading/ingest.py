"""Journals are read: into a table of lines, and findings about everything but what the records say."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading import judged
from bussrv.audit.reading.checkpoint import Checkpoint
from bussrv.audit.reading.digests import read_digests
from bussrv.audit.reading.extents import Extent, blocks_of, extents_of
from bussrv.audit.reading.given import first_segments, given
from bussrv.audit.reading.load import lines_of, records_of
from bussrv.audit.reading.proofs import prove, to_prove
from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Journal, Segment, Snapshot
from bussrv.audit.spark.progress import Progress
from bussrv.audit.spark.store import Store, make_a_small_table, small_table
from bussrv.audit.tables.findings import Finding, made_here
from bussrv.audit.tables.period import as_datetime
from bussrv.journal.digests import Digests
from bussrv.journal.header import Header

SEGMENT = (
    "journal string, segment bigint, file string, server string, records bigint, first_seq bigint, last_seq bigint, "
    "first_moment timestamp, last_moment timestamp, bytes bigint, sealed string, vouched boolean"
)
"""The columns of the table of segments."""


@dataclass(frozen=True)
class Ingested:
    """The result of reading journals.

    :ivar records: see :func:`bussrv.audit.reading.load.records_of`.
    :ivar segments: the table of segments, with the columns of ``SEGMENT``.
    :ivar findings: of each kind of check.
    """

    records: DataFrame
    segments: DataFrame
    findings: list[DataFrame]


def ingest(
    spark: SparkSession, snapshot: Snapshot, store: Store, progress: Progress, checkpoint: Checkpoint | None = None
) -> Ingested:
    """Read every line of a snapshot.

    :param checkpoint: what was read before, and is not read again.
    :raises bussrv.errors.JournalError: if a segment goes away meanwhile.
    """
    kept = {} if checkpoint is None else checkpoint.kept(snapshot.segments)
    with progress.phase("digests"):
        fresh = [each for each in snapshot.segments if each.taken not in kept]
        asked = to_prove(snapshot)
        proofs = prove(spark, snapshot, asked, judged.sizes_of(snapshot))
        others = [each for each in fresh if each.taken not in proofs]
        digests = {taken: each.digests for taken, each in proofs.items()}
        digests |= read_digests(spark, snapshot, others, judged.sizes_of(snapshot))
    with progress.phase("lines"):
        try:
            if checkpoint is not None:
                kept |= checkpoint.recognize(fresh, digests)
                kept |= checkpoint.add(spark, snapshot, _to_keep(snapshot, checkpoint, digests, kept), digests)
            rest = [taken for taken in digests if taken not in kept]
            tables = [store.keep("lines", lines_of(_text(spark, snapshot, rest)))] if rest or not kept else []
        finally:
            snapshot.check()
    with progress.phase("segments"):
        blocks = {taken: each.blocks for taken, each in kept.items()}
        blocks |= blocks_of(tables[0]) if tables else {}
        digests |= {taken: each.digests for taken, each in kept.items()}
        if checkpoint is not None:
            checkpoint.save()
            old = checkpoint.lines(spark, kept)
            tables += [] if old is None else [old]
        numbers = {each.taken: each.number for each in snapshot.segments if each.taken in digests}
        extents = extents_of(blocks, numbers)
        headers = judged.headers_of(snapshot, digests)
        read = judged.Read(digests, headers, asked, proofs, judged.verified(snapshot, digests))
        findings = [made_here(spark, _findings(spark, snapshot, read, extents))]
        records = _at_once(records_of(reduce(DataFrame.unionByName, tables)), digests)
        before = given(spark, snapshot, first_segments(headers), records)
        if before is not None:
            records = _at_once(records.unionByName(store.keep("given", before)), digests)
        segments = small_table(spark, _rows(snapshot, digests, headers, extents), SEGMENT)
    return Ingested(records, segments, findings)


def _to_keep(
    snapshot: Snapshot, checkpoint: Checkpoint, digests: Mapping[str, Digests], kept: Container[str]
) -> list[Segment]:
    sealed = judged.verified(snapshot, digests)
    return [
        each
        for each in snapshot.segments
        if each.taken in sealed and each.taken not in kept and checkpoint.is_new(each)
    ]


def _text(spark: SparkSession, snapshot: Snapshot, taken: Sequence[str]) -> DataFrame:
    if not taken:
        return read_text(spark, snapshot).where(F.lit(False))
    return read_text(spark, snapshot, only=None if len(taken) == len(snapshot.segments) else taken)


def _findings(
    spark: SparkSession, snapshot: Snapshot, read: judged.Read, extents: Mapping[str, Extent]
) -> Iterator[Finding]:
    for journal in snapshot.journals:
        yield from judged.findings(journal, read, extents)
    yield from judged.line_findings(spark, snapshot, read, extents)


def _at_once(records: DataFrame, digests: Mapping[str, Digests]) -> DataFrame:
    """Records of several tables, in one partition if they are few."""
    is_small = make_a_small_table(sum(each.size for each in digests.values()))
    return records.coalesce(1) if is_small else records


def _rows(
    snapshot: Snapshot, digests: Mapping[str, Digests], headers: Mapping[str, Header], extents: Mapping[str, Extent]
) -> Iterator[tuple[object, ...]]:
    verified = judged.verified(snapshot, digests)
    for journal in snapshot.journals:
        for segment in journal.segments:
            content, header = digests.get(segment.taken), headers.get(segment.taken)
            extent = extents.get(segment.taken, Extent())
            yield (
                *(journal.location, segment.number, segment.file, None if header is None else header.server),
                *(extent.records, extent.first_seq, extent.last_seq),
                *(None if at is None else as_datetime(at) for at in (extent.first_moment, extent.last_moment)),
                *(
                    None if content is None else content.size,
                    _sealed(journal, segment.number),
                    segment.taken in verified,
                ),
            )


def _sealed(journal: Journal, number: int) -> str:
    seal = journal.late.seals.get(number)
    return "none" if seal is None else "closed" if seal.closed else "open"
