"""The judgements of :mod:`bussrv.journal.evidence` on journals, as findings of the audit.

A seal that later seals of the same segment have superseded is judged in the last two segments only. An attacker who
changes an older segment and seals it again has to make everything after it anew, in the manifest and in the headers,
and can as well make the old seals fit.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.digests import LARGEST, why_unreadable
from bussrv.audit.reading.extents import Extent
from bussrv.audit.reading.proofs import Proof, judge_content
from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Journal, Segment, Snapshot
from bussrv.audit.tables.findings import Finding
from bussrv.journal.digests import Digests
from bussrv.journal.evidence import segments as evidence
from bussrv.journal.evidence.findings import Finding as Found
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.numbers import Numbers
from bussrv.journal.evidence.registries import Registries
from bussrv.journal.header import Header
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.scan import Scan
from bussrv.registry.fold import RegistryFold

EXCERPT = 160
"""How many characters of a bad line are quoted."""

_ALL_SEALS_OF = 2
"""Of so many segments at the end all seals are judged, of the others the last one."""


class Read(Struct, frozen=True):
    """What was read of segments, by the name of the segment in the snapshot.

    :ivar headers: of those that begin with their own.
    :ivar asked: whether each is to be judged to the byte; see :func:`bussrv.audit.reading.proofs.to_prove`.
    :ivar proofs: of these.
    :ivar verified: those that are, to the last byte, what their closing seal says.
    """

    digests: Mapping[str, Digests]
    headers: Mapping[str, Header]
    asked: Mapping[str, bool]
    proofs: Mapping[str, Proof]
    verified: Container[str]

    def is_proved(self, taken: str) -> bool:
        """Whether a segment is what its server wrote, as far as its closing seal says, or its own lines."""
        if self.asked.get(taken):
            return taken in self.proofs and self.proofs[taken].is_sound
        return taken in self.verified

    def registries(self, segment: Segment) -> Registries | None:
        """What a segment begins and ends with, if that is known."""
        proof = self.proofs.get(segment.taken)
        is_known = self.asked.get(segment.taken) or segment.taken in self.verified
        return proof.registries if proof is not None and is_known and not segment.torn else None


def headers_of(snapshot: Snapshot, digests: Mapping[str, Digests]) -> dict[str, Header]:
    """The headers of the segments that begin with their own, by the name of the segment in the snapshot."""
    found = {}
    for segment in snapshot.segments:
        lines = LineJudge(segment.number)
        if segment.taken in digests:
            lines.pass_line(digests[segment.taken].first_line)
        if lines.header is not None:
            found[segment.taken] = lines.header
    return found


def sizes_of(snapshot: Snapshot) -> dict[str, list[int]]:
    """The sizes of the beginnings of segments that seals are about, by the name of the segment in the snapshot."""
    return {
        segment.taken: sorted({seal.bytes for seal in journal.late.all_seals.get(segment.number, ())})
        for journal in snapshot.journals
        for segment in journal.segments[-_ALL_SEALS_OF:]
    }


def verified(snapshot: Snapshot, digests: Mapping[str, Digests]) -> set[str]:
    """The names in the snapshot of the segments that are, to the last byte, what their closing seal says."""
    found = set()
    for journal in snapshot.journals:
        for segment in journal.segments:
            seal, known = journal.late.seals.get(segment.number), digests.get(segment.taken)
            if seal is not None and known is not None and evidence.is_verified(known, seal):
                found.add(segment.taken)
    return found


def line_findings(
    spark: SparkSession, snapshot: Snapshot, read: Read, contents: Mapping[str, Extent]
) -> Iterator[Finding]:
    """Findings about lines and numbers. Only segments in which something is wrong are read once more.

    :param contents: by the name of the segment in the snapshot: of each segment that could be read.
    """
    numbers, files = Numbers(), {segment.taken: segment.file for segment in snapshot.segments}
    odd: list[Segment] = []
    for segment in snapshot.segments:
        found, header = contents.get(segment.taken), read.headers.get(segment.taken)
        if found is None:
            continue
        if not found.is_sound or header is None or not read.is_proved(segment.taken):
            odd.append(segment)
        elif found.first_seq is not None and found.last_seq is not None:
            numbers.add(header.server, found.first_seq, found.last_seq, segment.number)
    for taken, lines in _judged(spark, snapshot, read, odd):
        yield from (_as_row(each, files[taken]) for each in lines.findings)
        numbers.extend(lines.numbers)
    yield from (_as_row(each, None) for each in numbers.findings())


def _judged(
    spark: SparkSession, snapshot: Snapshot, read: Read, segments: Iterable[Segment]
) -> Iterator[tuple[str, LineJudge]]:
    far = []
    for segment in segments:
        taken = segment.taken
        if segment.in_place:
            far.append(segment)
        else:
            registry = RegistryFold() if read.asked.get(taken) else None
            to_the_byte = taken not in read.verified
            yield taken, Scan(segment.path_in(snapshot.local), registry=registry, to_the_byte=to_the_byte).judge
    for some in _in_batches(far):
        text = read_text(spark, snapshot, whole=True, only=[each.taken for each in some])
        contents = {
            row["taken"]: bytes(row["raw"])
            for row in text.select("taken", F.col("raw").cast("binary").alias("raw")).collect()
        }
        for each in some:
            content, to_the_byte = contents.get(each.taken, b""), each.taken not in read.verified
            yield each.taken, judge_content(each.number, content, to_the_byte=to_the_byte)[0]


def _in_batches(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Segments that fit into the memory of this machine together."""
    some: list[Segment] = []
    for segment in segments:
        if some and sum(each.bytes for each in some) + segment.bytes > LARGEST:
            yield some
            some = []
        some.append(segment)
    if some:
        yield some


def findings(journal: Journal, read: Read, contents: Mapping[str, Extent]) -> Iterator[Finding]:
    """Findings about the segments of a journal, and about its manifest. The parameters are those above."""
    judge = evidence.SegmentJudge(journal.manifest, journal.numbers, is_complete=False)
    files = {segment.number: segment.file for segment in journal.segments}
    recent = journal.segments[-_ALL_SEALS_OF:]
    for segment in journal.segments:
        known = read.digests.get(segment.taken)
        if known is None:
            judge.pass_unreadable(segment.number)
            found = [evidence.unreadable(segment.number, why_unreadable(segment))]
        else:
            late = journal.late.all_seals.get(segment.number, [])
            # A seal that was made after the segment was read may be about more than was read.
            before = journal.manifest.all_seals.get(segment.number, [])
            found = judge.pass_segment(
                evidence.Segment(
                    number=segment.number,
                    digests=known,
                    header=read.headers.get(segment.taken),
                    torn=segment.torn,
                    lines=segment.lines,
                    counts=contents.get(segment.taken),
                    registries=read.registries(segment),
                ),
                [seal for seal in (late if segment in recent else late[-1:]) if seal in before],
                late[-1] if late else None,
                may_grow=segment.number == max(journal.numbers),
            )
        yield from (_as_row(each, files.get(each.segment or 0)) for each in found)
    server = next((header.server for header in judge.headers.values()), None)
    file = f"{journal.location.rstrip('/')}/{MANIFEST_NAME}"
    found = [*evidence.judge_manifest(journal.manifest), *evidence.judge_references(journal.late, judge.headers)]
    yield from (_as_row(each, file, server) for each in found)
    missing = evidence.judge_missing(journal.manifest, journal.numbers)
    yield from (_as_row(each, None, server) for each in missing)


def _as_row(found: Found, file: str | None, server: str | None = None) -> Finding:
    message = found.message
    if found.quote is not None:
        quote = found.quote.decode(errors="replace")
        message = f"{message}: {quote[:EXCERPT]}{'…' if len(quote) > EXCERPT else ''}"
    return Finding(
        kind=found.code,
        message=message,
        server=found.server or server,
        boot=found.boot,
        segment=found.segment,
        first_seq=found.first_seq,
        last_seq=found.last_seq,
        file=file,
        line=found.line,
    )
