"""Journals are read: into a table of lines, and findings about everything but what the records say."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain as chained

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import Finding, made_here
from bussrv.audit.period import as_datetime
from bussrv.audit.progress import Progress
from bussrv.audit.reading import chain, headers, integrity, seals
from bussrv.audit.reading.checkpoint import Checkpoint
from bussrv.audit.reading.extents import Extent, blocks_of, extents_of, servers_in_doubt
from bussrv.audit.reading.given import first_segments, given
from bussrv.audit.reading.load import lines_of, records_of
from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Journal, Segment, Snapshot
from bussrv.audit.reading.wholes import Whole, read_wholes
from bussrv.audit.small import small_table
from bussrv.audit.store import Store, make_a_small_table
from bussrv.journal.header import Header

SEGMENT = (
    "journal string, segment bigint, file string, server string, records bigint, first_seq bigint, last_seq bigint, "
    "first_moment timestamp, last_moment timestamp, bytes bigint, sealed string, vouched boolean"
)
"""The columns of the table of segments."""


@dataclass(frozen=True)
class Ingested:
    """What came of reading journals.

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
        sizes = {taken: each for journal in snapshot.journals for taken, each in seals.sizes_of(journal).items()}
        fresh = [each for each in snapshot.segments if each.taken not in kept]
        wholes = read_wholes(spark, snapshot, fresh, sizes)
    with progress.phase("lines"):
        try:
            if checkpoint is not None:
                kept |= checkpoint.recognize(fresh, wholes)
                kept |= checkpoint.add(spark, snapshot, _to_keep(snapshot, checkpoint, wholes, kept), wholes)
            rest = [taken for taken in wholes if taken not in kept]
            tables = [store.keep("lines", lines_of(_text(spark, snapshot, rest)))] if rest or not kept else []
        finally:
            snapshot.check()
    with progress.phase("segments"):
        blocks = {taken: each.blocks for taken, each in kept.items()}
        blocks |= blocks_of(tables[0]) if tables else {}
        wholes |= {taken: each.whole for taken, each in kept.items()}
        if checkpoint is not None:
            checkpoint.save()
            old = checkpoint.lines(spark, kept)
            tables += [] if old is None else [old]
        numbers = {each.taken: each.number for each in snapshot.segments if each.taken in wholes}
        extents = extents_of(blocks, numbers)
        known = [headers.headers_of(journal, wholes) for journal in snapshot.journals]
        findings = [made_here(spark, _findings(snapshot, wholes, known))]
        findings += _line_findings(spark, snapshot, store, extents)
        records = _at_once(records_of(reduce(DataFrame.unionByName, tables)), wholes)
        findings += _number_findings(records, extents)
        before = given(spark, snapshot, first_segments(snapshot, known), records)
        if before is not None:
            records = _at_once(records.unionByName(store.keep("given", before)), wholes)
        segments = small_table(spark, _rows(snapshot, wholes, known, extents), SEGMENT)
    return Ingested(records, segments, findings)


def _to_keep(
    snapshot: Snapshot, checkpoint: Checkpoint, wholes: Mapping[str, Whole], kept: Container[str]
) -> list[Segment]:
    vouched = {taken for journal in snapshot.journals for taken in seals.vouched(journal, wholes)}
    return [
        each
        for each in snapshot.segments
        if each.taken in vouched and each.taken not in kept and checkpoint.is_new(each)
    ]


def _text(spark: SparkSession, snapshot: Snapshot, taken: Sequence[str]) -> DataFrame:
    if not taken:
        return read_text(spark, snapshot).where(F.lit(False))
    return read_text(spark, snapshot, only=None if len(taken) == len(snapshot.segments) else taken)


_Headers = Sequence[Mapping[int, Header]]
"""Of each journal, by the number of the segment."""


def _findings(snapshot: Snapshot, wholes: Mapping[str, Whole], headers_of: _Headers) -> Iterator[Finding]:
    yield from integrity.torn_tail_findings(snapshot.torn_tails)
    yield from integrity.unreadable_findings(each for each in snapshot.segments if each.taken not in wholes)
    for journal, known in zip(snapshot.journals, headers_of, strict=True):
        yield from chained(
            headers.link_findings(journal, known, wholes),
            seals.manifest_findings(journal, known),
            seals.seal_findings(journal, wholes, known),
        )


def _line_findings(
    spark: SparkSession, snapshot: Snapshot, store: Store, extents: Mapping[str, Extent]
) -> list[DataFrame]:
    odd = [each.taken for each in extents.values() if not each.is_sound]
    if not odd:
        return []
    places = store.keep("places", chain.places_of(read_text(spark, snapshot, only=odd), snapshot))
    return [chain.bad_line_findings(places), chain.part_findings(places), chain.line_findings(places)]


def _at_once(records: DataFrame, wholes: Mapping[str, Whole]) -> DataFrame:
    """Records of several tables, in one partition if they are few."""
    is_small = make_a_small_table(sum(whole.size for whole in wholes.values()))
    return records.coalesce(1) if is_small else records


def _number_findings(records: DataFrame, extents: Mapping[str, Extent]) -> list[DataFrame]:
    servers = servers_in_doubt(extents.values())
    if servers is not None:
        records = records.where(F.xxhash64("server").isin([*servers]))
    return [] if servers == set() else [integrity.gap_findings(records), integrity.duplicate_findings(records)]


def _rows(
    snapshot: Snapshot, wholes: Mapping[str, Whole], headers_of: _Headers, extents: Mapping[str, Extent]
) -> Iterator[tuple[object, ...]]:
    for journal, known in zip(snapshot.journals, headers_of, strict=True):
        vouched = seals.vouched(journal, wholes)
        for segment in journal.segments:
            whole, header = wholes.get(segment.taken), known.get(segment.number)
            extent = extents.get(segment.taken, Extent(segment.taken, segment.number, False))
            yield (
                *(journal.location, segment.number, segment.file, _server(header)),
                *(extent.records, extent.first_seq, extent.last_seq),
                *(None if at is None else as_datetime(at) for at in (extent.first_moment, extent.last_moment)),
                *(None if whole is None else whole.size, _sealed(journal, segment.number), segment.taken in vouched),
            )


def _server(header: Header | None) -> str | None:
    return None if header is None else header.server


def _sealed(journal: Journal, number: int) -> str:
    seal = journal.late.seals.get(number)
    return "none" if seal is None else "closed" if seal.closed else "open"
