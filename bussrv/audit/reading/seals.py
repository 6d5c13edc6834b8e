"""What the manifest of a journal says of its segments, held against what they are. No Spark here.

A segment is *vouched for* when it is, to the last byte, what its closing seal says. Who has no key can make all seals
anew, so with one (``--public-key``) they are worth more.

A seal that a later one has taken the place of is looked at in the last two segments only. Who changes an older one and
seals it again has to make everything behind that anew as well, in the manifest and in the headers, and may then as
well make the old seals fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bussrv.audit.findings import Finding
from bussrv.audit.reading.snapshot import Journal, Segment
from bussrv.audit.reading.wholes import Whole
from bussrv.journal.header import Header
from bussrv.journal.manifest import MANIFEST_NAME, Pruned, Seal, last_seq

_LOOKED_AT = 2


def sizes_of(journal: Journal) -> dict[str, list[int]]:
    """The sizes of the beginnings of segments that have to be known, by the name of the segment in the snapshot."""
    found = {}
    for segment in journal.segments[-_LOOKED_AT:]:
        found[segment.taken] = sorted({seal.bytes for seal in journal.late.all_seals.get(segment.number, ())})
    return found


def vouched(journal: Journal, wholes: Mapping[str, Whole]) -> set[str]:
    """The names in the snapshot of the segments that are what their closing seal says."""
    found = set()
    for segment in journal.segments:
        seal, whole = journal.late.seals.get(segment.number), wholes.get(segment.taken)
        if seal is None or whole is None or not seal.closed:
            continue
        if (seal.bytes, seal.digest) == (whole.size, whole.digest):
            found.add(segment.taken)
    return found


def manifest_findings(journal: Journal, headers: Mapping[int, Header]) -> Iterator[Finding]:
    """Each fault within the manifest, and entries that segments refer to and that are not there."""
    file = f"{journal.location.rstrip('/')}/{MANIFEST_NAME}"
    server = next((header.server for header in headers.values()), None)
    for fault in journal.manifest.faults:
        body = None if fault.entry is None else fault.entry.body
        seal = body if isinstance(body, Seal) else None
        yield Finding(
            kind="bad-manifest",
            message=fault.message,
            server=server,
            segment=body.segment if isinstance(body, (Seal, Pruned)) else None,
            first_seq=None if seal is None else seal.first_seq,
            last_seq=None if seal is None else seal.last_seq,
            file=file,
            line=fault.line or None,
        )
    known = {entry.hash for entry in journal.late.entries}
    unknown = [number for number, header in headers.items() if header.seal is not None and header.seal not in known]
    if unknown:
        more = f", nor are those that {len(unknown) - 1} later segments refer to" if len(unknown) > 1 else ""
        entry = headers[unknown[0]].seal
        message = f"entry {entry} is not there, which segment {unknown[0]} refers to{more}: it was cut off or replaced"
        yield Finding(kind="bad-manifest", message=message, server=server, segment=unknown[0], file=file)


def seal_findings(journal: Journal, wholes: Mapping[str, Whole], headers: Mapping[int, Header]) -> Iterator[Finding]:
    """Each segment that is not what its seals say, is not sealed, or is sealed and not there."""
    for index, segment in enumerate(journal.segments):
        seals, whole = journal.late.all_seals.get(segment.number, []), wholes.get(segment.taken)
        is_last = segment.number == max(journal.numbers)
        header = headers.get(segment.number)
        if whole is None:
            continue
        if seals:
            is_recent = index >= len(journal.segments) - _LOOKED_AT
            yield from _held_against(journal, segment, seals if is_recent else seals[-1:], whole, is_last, header)
        elif journal.manifest.entries and _has_records(whole, header):
            message = "nothing of it is sealed, though a server seals the first records of a segment at once"
            yield _finding(segment, header, message, segment.number)
    yield from _missing(journal, headers)


def _has_records(whole: Whole, header: Header | None) -> bool:
    """Whether there is more in a segment than its header; a snapshot is counted as well."""
    return header is None or whole.size > len(whole.first_line) + 1


def _finding(
    segment: Segment, header: Header | None, message: str, first: int | None, last: int | None = None
) -> Finding:
    return Finding(
        kind="broken-seal",
        message=message,
        server=None if header is None else header.server,
        segment=segment.number,
        first_seq=first,
        last_seq=last,
        file=segment.file,
    )


def _held_against(
    journal: Journal, segment: Segment, seals: Sequence[Seal], whole: Whole, is_last: bool, header: Header | None
) -> Iterator[Finding]:
    for seal in seals:
        if _is_broken(whole, seal) and not _is_newer(journal, segment, seal):
            yield _finding(segment, header, _difference(whole, seal), segment.number, last_seq(seal))
            return
    seal = seals[-1]
    if seal.closed and whole.size > seal.bytes:
        message = f"it goes on behind its closing seal, at byte {seal.bytes}"
        yield _finding(segment, header, message, last_seq(seal) + 1)
    elif not seal.closed and not is_last:
        message = f"it is sealed up to record {seal.last_seq} only, and not as closed, though another one follows"
        yield _finding(segment, header, message, last_seq(seal) + 1)


def _is_broken(whole: Whole, seal: Seal) -> bool:
    if seal.bytes == whole.size:
        return whole.digest != seal.digest
    # Of a segment that goes on, the beginning was looked at if it matters.
    return whole.size < seal.bytes or whole.beginnings.get(seal.bytes, seal.digest) != seal.digest


def _is_newer(journal: Journal, segment: Segment, seal: Seal) -> bool:
    """Whether a seal was made after the segment was read."""
    return seal not in journal.manifest.all_seals.get(segment.number, ())


def _difference(whole: Whole, seal: Seal) -> str:
    if whole.size < seal.bytes:
        return f"it was cut: {seal.bytes} bytes, up to record {seal.last_seq}, are sealed, and it has {whole.size}"
    return f"it is not what was sealed up to record {seal.last_seq}"


def _missing(journal: Journal, headers: Mapping[int, Header]) -> Iterator[Finding]:
    server = next((header.server for header in headers.values()), None)
    for number, seal in journal.manifest.seals.items():
        if number not in journal.numbers and number not in journal.manifest.pruned:
            yield Finding(
                kind="segment-missing",
                message=f"segment {number} is missing, with the records {seal.first_seq} to {seal.last_seq}",
                server=server,
                segment=number,
                first_seq=seal.first_seq,
                last_seq=seal.last_seq,
            )
