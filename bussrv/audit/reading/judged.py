"""The judgements of :mod:`bussrv.journal.evidence` on journals, as findings of the audit, and the table of segments.

A seal that later seals of the same segment have superseded is judged in the last two segments only. An attacker who
changes an older segment and seals it again has to make everything after it anew, in the manifest and in the headers,
and can as well make the old seals fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from bussrv.audit.fold.segments import SegmentFacts
from bussrv.audit.output import in_utf8
from bussrv.audit.reading.snapshot import Journal, JournalSnapshot, TakenSegment
from bussrv.journal import bounds
from bussrv.journal.evidence import findings as of_journals
from bussrv.journal.evidence import segments as evidence
from bussrv.journal.evidence.numbers import Numbers
from bussrv.journal.evidence.registries import Registries
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.segment import Counts

EXCERPT = 160
"""How many characters of a bad line are quoted."""

_ALL_SEALS_OF = 2
"""Of so many segments at the end all seals are judged, of the others the last one."""

_TEXT, _NUMBER = pa.string(), pa.int64()

FINDINGS = pa.schema(
    [("kind", _TEXT), ("message", _TEXT), ("server", _TEXT), ("boot", _TEXT), ("segment", _NUMBER),
     ("first_seq", _NUMBER), ("last_seq", _NUMBER), ("file", _TEXT), ("line", _NUMBER)]
)  # fmt: skip

SEGMENTS = pa.schema(
    [("journal", _TEXT), ("segment", _NUMBER), ("file", _TEXT), ("server", _TEXT), ("records", _NUMBER),
     ("first_seq", _NUMBER), ("last_seq", _NUMBER), ("first_moment", _NUMBER), ("last_moment", _NUMBER),
     ("bytes", _NUMBER), ("sealed", _TEXT), ("vouched", pa.bool_())]
)  # fmt: skip

Row = dict[str, Any]


def sizes_of(snapshot: JournalSnapshot) -> dict[str, list[int]]:
    """The sizes of the beginnings of segments that seals are about, by the name of the segment in the snapshot."""
    return {
        segment.taken: sorted({seal.bytes for seal in journal.late.all_seals.get(segment.number, ())})
        for journal in snapshot.journals
        for segment in journal.segments[-_ALL_SEALS_OF:]
    }


def to_judge(snapshot: JournalSnapshot) -> dict[str, bool]:
    """The names of the segments to judge.

    Each is to be judged to the byte, since no closing seal has its digest (true), or is one that such a segment
    follows (false): the registry that a segment begins with is that with which the one before ends.
    """
    found: dict[str, bool] = {}
    for journal in snapshot.journals:
        before: TakenSegment | None = None
        for segment in journal.segments:
            if not evidence.is_closed(journal.late.seals.get(segment.number)):
                found[segment.taken] = True
                if before is not None:
                    found.setdefault(before.taken, False)
            before = segment
    return found


def tables(snapshot: JournalSnapshot, found: Mapping[str, SegmentFacts]) -> dict[str, pa.Table]:
    """The tables ``findings`` and ``segments``.

    :param found: what each segment is like, by its name.
    """
    judging = _Judging(snapshot, found)
    return {
        "findings": pa.Table.from_pylist([*map(_in_utf8, _limited(judging.findings()))], FINDINGS),
        "segments": pa.Table.from_pylist([*map(_in_utf8, judging.segments())], SEGMENTS),
    }


def _limited(findings: Iterable[Row]) -> Iterator[Row]:
    """The first findings, and how many more there are of each kind."""
    unlisted: Counter[str] = Counter()
    for number, row in enumerate(findings):
        if number < bounds.ALL_FINDINGS:
            yield row
        else:
            unlisted[row["kind"]] += 1
    for kind, count in unlisted.items():
        yield dict.fromkeys(FINDINGS.names) | {"kind": kind, "message": f"and {count} more, which are not listed"}


def _in_utf8(row: Row) -> Row:
    return {name: in_utf8(value) if isinstance(value, str) else value for name, value in row.items()}


class _Judging:
    def __init__(self, snapshot: JournalSnapshot, found: Mapping[str, SegmentFacts]) -> None:
        self._snapshot = snapshot
        self._found = found
        self._asked = to_judge(snapshot)
        # The names of the segments that are, to the last byte, what their closing seal says.
        self._verified = {
            segment.taken
            for journal in snapshot.journals
            for segment in journal.segments
            if (seal := journal.late.seals.get(segment.number)) is not None
            and (digests := found[segment.taken].digests) is not None
            and evidence.is_verified(digests, seal)
        }

    def findings(self) -> Iterator[Row]:
        for journal in self._snapshot.journals:
            yield from self._of_journal(journal)
        yield from self._of_lines()

    def _is_proved(self, found: SegmentFacts) -> bool:
        """Whether a segment is what its server wrote, as far as its closing seal says, or its own lines."""
        if self._asked.get(found.taken):
            return found.judged is not None and found.judged.is_sound
        return found.taken in self._verified

    def _of_lines(self) -> Iterator[Row]:
        """Findings about lines and numbers."""
        numbers, files = Numbers(), {segment.taken: segment.file for segment in self._snapshot.segments}
        for segment in self._snapshot.segments:
            found = self._found[segment.taken]
            header, judged = found.header, found.judged
            if found.is_sound and header is not None and self._is_proved(found):
                if found.first_seq is not None and found.last_seq is not None:
                    numbers.add(header.server, found.first_seq, found.last_seq, segment.number)
            elif judged is not None:
                yield from (_as_row(each, files[segment.taken]) for each in judged.findings)
                for each in judged.numbers:
                    numbers.add(*each)
        for journal in self._snapshot.journals:
            headers = (self._found[segment.taken].header for segment in journal.segments)
            evidence.expect_first(numbers, headers, journal.manifest, journal.numbers)
        yield from (_as_row(each, None) for each in numbers.findings())

    def _of_journal(self, journal: Journal) -> Iterator[Row]:
        """Findings about the segments of a journal, and about its manifest."""
        judge = evidence.SegmentJudge(journal.manifest, journal.numbers, is_complete=False)
        files = {segment.number: segment.file for segment in journal.segments}
        recent, last = journal.segments[-_ALL_SEALS_OF:], max(journal.numbers)
        for segment in journal.segments:
            known = self._found[segment.taken]
            if known.digests is None:
                judge.pass_unreadable(segment.number)
                found = [evidence.unreadable(segment.number, known.unreadable)]
            else:
                late = journal.late.all_seals.get(segment.number, [])
                # A seal that was made after the segment was read may be about more than was read.
                before = {*journal.manifest.all_seals.get(segment.number, [])}
                found = judge.pass_segment(
                    evidence.Segment(
                        number=segment.number,
                        digests=known.digests,
                        header=known.header,
                        torn=segment.torn,
                        lines=segment.lines,
                        counts=Counts(records=known.records, first_seq=known.first_seq, last_seq=known.last_seq),
                        registries=self._registries(segment, known),
                    ),
                    [seal for seal in (late if segment in recent else late[-1:]) if seal in before],
                    late[-1] if late else None,
                    may_grow=segment.number == last,
                )
            yield from (_as_row(each, files.get(each.segment or 0)) for each in found)
        server = next((header.server for header in judge.headers.values()), None)
        file = f"{journal.location.rstrip('/')}/{MANIFEST_NAME}"
        found = [*evidence.judge_manifest(journal.manifest), *evidence.judge_references(journal.late, judge.headers)]
        yield from (_as_row(each, file, server) for each in found)
        missing = evidence.judge_missing(journal.manifest, journal.numbers)
        yield from (_as_row(each, None, server) for each in missing)

    def _registries(self, segment: TakenSegment, found: SegmentFacts) -> Registries | None:
        """The registries that a segment begins and ends with, if they are known."""
        is_known = self._asked.get(segment.taken) or segment.taken in self._verified
        return found.judged.registries if found.judged is not None and is_known and not segment.torn else None

    def segments(self) -> Iterator[Row]:
        for journal in self._snapshot.journals:
            for segment in journal.segments:
                found = self._found[segment.taken]
                seal = journal.late.seals.get(segment.number)
                yield {
                    "journal": journal.location,
                    "segment": segment.number,
                    "file": segment.file,
                    "server": None if found.header is None else found.header.server,
                    **{
                        name: None if found.digests is None else getattr(found, name)
                        for name in ("first_seq", "last_seq", "first_moment", "last_moment")
                    },
                    "records": found.records,
                    "bytes": None if found.digests is None else found.digests.size,
                    "sealed": "none" if seal is None else "closed" if seal.closed else "open",
                    "vouched": segment.taken in self._verified,
                }


def _as_row(found: of_journals.Finding, file: str | None, server: str | None = None) -> Row:
    message = found.message
    if found.quote is not None:
        quote = found.quote.decode(errors="replace")
        message = f"{message}: {quote[:EXCERPT]}{'…' if len(quote) > EXCERPT else ''}"
    return {
        "kind": found.code,
        "message": message,
        "server": found.server or server,
        "boot": found.boot,
        "segment": found.segment,
        "first_seq": found.first_seq,
        "last_seq": found.last_seq,
        "file": file,
        "line": found.line,
    }
