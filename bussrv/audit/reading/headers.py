"""What the header of each segment says of the segment before it, held against what that is. No Spark here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bussrv.audit.findings import Finding
from bussrv.audit.reading.snapshot import Journal, Segment
from bussrv.audit.reading.wholes import Whole
from bussrv.errors import JournalError
from bussrv.journal.chain import START
from bussrv.journal.header import Header, Previous, decode_header
from bussrv.journal.record import decode


def headers_of(journal: Journal, wholes: Mapping[str, Whole]) -> dict[int, Header]:
    """The headers of its segments by number, of those that begin with their own."""
    found = {}
    for segment in journal.segments:
        header = _header(wholes.get(segment.taken))
        if header is not None and header.segment == segment.number:
            found[segment.number] = header
    return found


def _header(whole: Whole | None) -> Header | None:
    try:
        return None if whole is None else decode_header(whole.first_line)
    except JournalError:
        return None


def link_findings(journal: Journal, headers: Mapping[int, Header], wholes: Mapping[str, Whole]) -> Iterator[Finding]:
    """Each segment that is not what the next one says, or does not say what it should.

    What was before the first one is only asked where a manifest says what was removed.
    """
    before: Segment | None = None
    for segment in journal.segments:
        header, whole = headers.get(segment.number), wholes.get(segment.taken)
        if header is None:
            if whole is not None and _is_other(whole):
                yield _finding("broken-link", segment, None, "the segment does not begin with a header")
        elif header.salvaged is not None:
            yield _salvage(segment, header)
        else:
            yield from _link(journal, segment, header, before, wholes)
        before = segment


def _is_other(whole: Whole) -> bool:
    """Whether a segment is empty, or begins with a record. Any other line is a bad one there."""
    if not whole.size:
        return True
    try:
        decode(whole.first_line)
    except JournalError:
        return False
    return True


def _finding(kind: str, segment: Segment, header: Header | None, message: str, **place: int | None) -> Finding:
    about = {"line": 1, **place}
    server, boot = (None, None) if header is None else (header.server, header.boot)
    return Finding(
        kind=kind, message=message, server=server, boot=boot, segment=segment.number, file=segment.file, **about
    )


def _salvage(segment: Segment, header: Header) -> Finding:
    damage = header.salvaged
    assert damage is not None
    message = f"the server went on behind damage in segment {damage.segment}, line {damage.line}: {damage.reason}"
    return _finding("journal-salvaged", segment, header, message, first_seq=damage.seq, last_seq=damage.seq)


def _link(
    journal: Journal, segment: Segment, header: Header, before: Segment | None, wholes: Mapping[str, Whole]
) -> Iterator[Finding]:
    previous = header.previous
    if previous is None:
        if before is not None:
            message = f"the header says that there is no segment before this one, but there is segment {before.number}"
            yield _finding("broken-link", segment, header, message)
        elif header.segment != 1 or header.prev != START:
            message = (
                f"the header says that there is no segment before this one, yet it begins with record {header.segment}"
            )
            yield _finding("broken-link", segment, header, message)
    elif before is None or before.number != previous.segment:
        yield from _gap(journal, segment, header, previous, before)
    elif (whole := wholes.get(before.taken)) is not None:
        yield from _held_against(segment, header, previous, before, whole)


def _gap(
    journal: Journal, segment: Segment, header: Header, previous: Previous, before: Segment | None
) -> Iterator[Finding]:
    """What is sealed and gone is named with the seals; what was before a journal without seals is not known."""
    manifest = journal.manifest
    if previous.segment in manifest.pruned or previous.segment in manifest.seals:
        return
    if before is not None:
        message = f"the segment should follow segment {previous.segment}, not segment {before.number}"
    elif manifest.entries and previous.segment not in journal.numbers:
        message = f"the segment should follow segment {previous.segment}, which is not there"
    else:
        return
    yield _finding(
        "broken-link", segment, header, message, first_seq=previous.segment, last_seq=max(1, segment.number - 1)
    )


def _held_against(
    segment: Segment, header: Header, previous: Previous, before: Segment, whole: Whole
) -> Iterator[Finding]:
    message = None
    if header.prev != whole.last_hash:
        message = f"its last line was changed, cut off or added, or the header of segment {segment.number}"
    elif (previous.bytes, previous.digest) != (whole.size, whole.digest):
        message = f"it is not what it was when it was closed, as the header of segment {segment.number} says"
    if message is not None:
        last = segment.number - 1
        yield _finding("broken-link", before, header, message, line=None, first_seq=before.number, last_seq=last)
