"""The judgements of :mod:`bussrv.journal.evidence` on journals, as findings of the audit.

A seal that later seals of the same segment have superseded is judged in the last two segments only. An attacker who
changes an older segment and seals it again has to make everything after it anew, in the manifest and in the headers,
and can as well make the old seals fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading import extents
from bussrv.audit.reading.digests import LARGEST, why_unreadable
from bussrv.audit.reading.load import EXCERPT
from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Journal, Segment, Snapshot
from bussrv.audit.tables.findings import Finding
from bussrv.journal.digests import Digests
from bussrv.journal.evidence import findings as evidence
from bussrv.journal.evidence import segments as judge
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.numbers import Numbers
from bussrv.journal.header import Header
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.scan import scan
from bussrv.journal.segment import Extent

_ALL_SEALS_OF = 2
"""Of so many segments at the end all seals are judged, of the others the last one."""


def headers_of(journal: Journal, digests: Mapping[str, Digests]) -> dict[int, Header]:
    """The headers of its segments by number, of those that begin with their own."""
    found = {}
    for segment in journal.segments:
        lines = LineJudge(segment.number)
        if segment.taken in digests:
            lines.pass_line(digests[segment.taken].first_line)
        if lines.header is not None:
            found[segment.number] = lines.header
    return found


def sizes_of(journal: Journal) -> dict[str, list[int]]:
    """The sizes of the beginnings of segments that seals are about, by the name of the segment in the snapshot."""
    return {
        segment.taken: sorted({seal.bytes for seal in journal.late.all_seals.get(segment.number, ())})
        for segment in journal.segments[-_ALL_SEALS_OF:]
    }


def verified(journal: Journal, digests: Mapping[str, Digests]) -> set[str]:
    """The names in the snapshot of the segments that are, to the last byte, what their closing seal says."""
    found = set()
    for segment in journal.segments:
        seal, known = journal.late.seals.get(segment.number), digests.get(segment.taken)
        if seal is not None and known is not None and judge.is_verified(known, seal):
            found.add(segment.taken)
    return found


def line_findings(
    spark: SparkSession,
    snapshot: Snapshot,
    headers: Sequence[Mapping[int, Header]],
    contents: Mapping[str, extents.Extent],
) -> Iterator[Finding]:
    """Findings about lines and numbers. Only segments in which something is wrong are read once more.

    :param headers: of each journal, by the number of the segment.
    :param contents: of each segment that could be read.
    """
    numbers, files = Numbers(), {segment.taken: segment.file for segment in snapshot.segments}
    odd: list[Segment] = []
    for journal, known in zip(snapshot.journals, headers, strict=True):
        for segment in journal.segments:
            found, header = contents.get(segment.taken), known.get(segment.number)
            if found is None:
                continue
            if not found.is_sound or header is None:
                odd.append(segment)
            elif found.first_seq is not None and found.last_seq is not None:
                numbers.add(header.server, found.first_seq, found.last_seq, segment.number)
    for taken, findings, more in _judged(spark, snapshot, odd):
        yield from (_as_row(each, files[taken]) for each in findings)
        numbers.extend(more)
    yield from (_as_row(each, None) for each in numbers.findings())


def _judged(
    spark: SparkSession, snapshot: Snapshot, segments: Iterable[Segment]
) -> Iterator[tuple[str, list[evidence.Finding], Numbers]]:
    far = []
    for segment in segments:
        if segment.in_place:
            far.append(segment)
        else:
            found = scan(segment.path_in(snapshot.local))
            yield segment.taken, found.findings, found.numbers
    for some in _in_batches(far):
        text = read_text(spark, snapshot, only=[each.taken for each in some])
        rows = text.select(
            "taken", "block", F.monotonically_increasing_id().alias("position"), F.col("raw").cast("binary")
        ).collect()
        judges = {each.taken: LineJudge(each.number) for each in some}
        for row in sorted(rows, key=lambda row: (row["block"], row["position"])):
            judges[row["taken"]].pass_line(bytes(row["raw"]))
        for taken, lines in judges.items():
            yield taken, lines.end(), lines.numbers


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


def findings(
    journal: Journal,
    digests: Mapping[str, Digests],
    headers: Mapping[int, Header],
    contents: Mapping[str, extents.Extent],
) -> Iterator[Finding]:
    """Findings about the segments of a journal, and about its manifest.

    :param contents: of each segment that could be read.
    """
    before: tuple[int | None, judge.Segment | None] = None, None
    torn = {tail.number: tail for tail in journal.torn_tails}
    last = max(journal.numbers)
    for index, segment in enumerate(journal.segments):
        known, tail = digests.get(segment.taken), torn.get(segment.number)
        if tail is not None:
            yield from _rows(judge.judge_tail(segment.number, tail.size, tail.line - 1, is_last=tail.last), segment)
        if known is None:
            yield _as_row(judge.unreadable(segment.number, why_unreadable(segment)), segment.file)
            before = segment.number, None
            continue
        found = judge.Segment(
            number=segment.number,
            digests=known,
            header=headers.get(segment.number),
            torn=0 if tail is None else tail.size,
            extent=_extent(known, contents.get(segment.taken)),
        )
        if found.header is not None:
            place = judge.Place(
                before=before[0],
                found=before[1],
                manifest=journal.manifest,
                numbers=journal.numbers,
                is_complete=False,
            )
            yield from _in_files(judge.judge_header(found.header, place), journal)
        is_recent = index >= len(journal.segments) - _ALL_SEALS_OF
        yield from _rows(_of_seals(journal, found, is_recent=is_recent, is_last=segment.number == last), segment)
        before = segment.number, found
    yield from _of_manifest(journal, headers)


def _of_seals(journal: Journal, found: judge.Segment, *, is_recent: bool, is_last: bool) -> Iterator[evidence.Finding]:
    late = journal.late.all_seals.get(found.number, [])
    if late:
        # A seal that was made after the segment was read may be about more than was read.
        before = journal.manifest.all_seals.get(found.number, [])
        asked = [seal for seal in (late if is_recent else late[-1:]) if seal in before]
        yield from judge.judge_seals(found, asked, late[-1], may_grow=is_last)
    elif journal.manifest.entries and (wrong := judge.unsealed(found)) is not None:
        yield wrong


def _of_manifest(journal: Journal, headers: Mapping[int, Header]) -> Iterator[Finding]:
    server = next((header.server for header in headers.values()), None)
    file = f"{journal.location.rstrip('/')}/{MANIFEST_NAME}"
    found = [*judge.judge_manifest(journal.manifest), *judge.judge_references(journal.late, headers)]
    yield from (_as_row(each, file, server) for each in found)
    missing = judge.judge_missing(journal.manifest, journal.numbers)
    yield from (_as_row(each, None, server) for each in missing)


def _extent(digests: Digests, found: extents.Extent | None) -> Extent | None:
    if found is None:
        return None
    return Extent(
        segment=found.number,
        bytes=digests.size,
        digest=digests.digest,
        records=found.records,
        first_seq=found.first_seq,
        last_seq=found.last_seq,
    )


def _rows(found: Iterable[evidence.Finding], segment: Segment) -> Iterator[Finding]:
    return (_as_row(each, segment.file) for each in found)


def _in_files(found: Iterable[evidence.Finding], journal: Journal) -> Iterator[Finding]:
    """Findings that a header leads to, about its segment or the one before."""
    files = {segment.number: segment.file for segment in journal.segments}
    return (_as_row(each, files.get(each.segment or 0)) for each in found)


def _as_row(found: evidence.Finding, file: str | None, server: str | None = None) -> Finding:
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
