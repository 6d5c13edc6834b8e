"""The judgements of :mod:`bussrv.journal.evidence` on journals, as findings of the audit, and the table of segments.

A seal that later seals of the same segment have superseded is judged in the last two segments only. An attacker who
changes an older segment and seals it again has to make everything after it anew, in the manifest and in the headers,
and can as well make the old seals fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
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
from bussrv.journal.evidence.witnesses import (
    Covered,
    Witnessed,
    begins_of,
    coverage,
    judge_cosignatures,
    judge_coverage,
    judge_kept,
    vouched,
)
from bussrv.journal.manifest import MANIFEST_NAME, Seal
from bussrv.journal.segment import Counts
from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint

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
        segment.taken: sorted({seal.bytes for seal in _seals_to_judge(journal, segment, cosigned)})
        for journal in snapshot.journals
        for cosigned in (_cosigned(snapshot, journal),)
        for segment in journal.segments
    }


def _seals_to_judge(journal: Journal, segment: TakenSegment, cosigned: Container[Seal]) -> list[Seal]:
    """The seals of a segment that are judged: all, or the last one and those whose checkpoints witnesses cosigned."""
    seals = journal.late.all_seals.get(segment.number, [])
    if segment in journal.segments[-_ALL_SEALS_OF:]:
        return seals
    return [*(each for each in seals[:-1] if each in cosigned), *seals[-1:]]


def _cosigned(snapshot: JournalSnapshot, journal: Journal) -> set[Seal]:
    """The seals with the newest checkpoint that each witness cosigned."""
    return {seal for seal, _ in witnessed(snapshot, journal).newest.values()}


def witnessed(snapshot: JournalSnapshot, journal: Journal) -> Witnessed:
    """How far the witnesses go that are trusted."""
    quorum = None if snapshot.others is None else snapshot.others.quorum
    return Witnessed() if quorum is None else judge_cosignatures(reversed(journal.checkpoints[0]), quorum)


def trees_of(snapshot: JournalSnapshot) -> dict[str, tuple[int, ...]]:
    """The records whose trees are wanted of each segment, because somebody kept a checkpoint up to there; empty if
    nobody outside knows anything of the journals: their seals say as much of the records as their trees do.
    """
    if snapshot.others is None:
        return {}
    found: dict[str, tuple[int, ...]] = {}
    kept = [parse_checkpoint(each.text) for each in snapshot.others.kept]
    for journal in snapshot.journals:
        begins = begins_of(journal.checkpoints[0])
        ends = [begins[each.origin] + each.size - 1 for each in kept if each.origin in begins]
        until: int | None = None
        for segment in reversed(journal.segments):
            found[segment.taken] = tuple(each for each in ends if segment.number <= each < (until or each + 1))
            until = segment.number
    return found


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


def covered(snapshot: JournalSnapshot, found: Mapping[str, SegmentFacts]) -> list[tuple[str, Covered]]:
    """The records of each journal, by its location, and which of the witnesses that were named cosigned them.

    :param found: what each segment is like, by its name.
    """
    if snapshot.others is None or snapshot.others.quorum is None:
        return []
    return [
        (in_utf8(journal.location), each)
        for journal in snapshot.journals
        for extent in (_extent(journal, found),)
        if extent is not None
        for each in coverage(witnessed(snapshot, journal), *extent)
    ]


def _extent(journal: Journal, found: Mapping[str, SegmentFacts]) -> tuple[int, int] | None:
    """The first and the last record of a journal."""
    facts = [found[each.taken] for each in journal.segments]
    ends = [(each.first_seq, each.last_seq) for each in facts if each.first_seq and each.last_seq]
    return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None


def _kept(snapshot: JournalSnapshot) -> list[Checkpoint]:
    """The checkpoints that were kept.

    :raises JournalError: one of them is signed neither by a journal nor by a witness that is trusted.
    """
    if snapshot.others is None:
        return []
    keys = {each.key for journal in snapshot.journals for each in journal.checkpoints[0] if each.key is not None}
    quorum = snapshot.others.quorum
    return [*vouched(snapshot.others.kept, keys | set(quorum.keys if quorum else ()))]


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
        self._kept = _kept(snapshot)
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
            yield from self._of_others(journal)
        yield from (_as_row(each, None) for each in self._of_nobody())
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
        cosigned, last = _cosigned(self._snapshot, journal), max(journal.numbers)
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
                        trees=known.trees or {},
                    ),
                    [seal for seal in _seals_to_judge(journal, segment, cosigned) if seal in before],
                    late[-1] if late else None,
                    may_grow=segment.number == last,
                )
            yield from (_as_row(each, files.get(each.segment or 0)) for each in found)
        server = self._server(journal)
        file = f"{journal.location.rstrip('/')}/{MANIFEST_NAME}"
        found = [*evidence.judge_manifest(journal.manifest), *evidence.judge_references(journal.late, judge.headers)]
        yield from (_as_row(each, file, server) for each in found)
        missing = evidence.judge_missing(journal.manifest, journal.numbers)
        yield from (_as_row(each, None, server) for each in missing)

    def _of_others(self, journal: Journal) -> Iterator[Row]:
        """Findings about what witnesses cosigned, and about checkpoints that were kept."""
        others, server = self._snapshot.others, self._server(journal)
        if others is None:
            return
        checkpoints, found = journal.checkpoints
        if others.quorum is not None:
            judged = witnessed(self._snapshot, journal)
            found = [*found, *judge_coverage(journal.manifest, judged, others.quorum, others.now)]
        begins = begins_of(checkpoints)
        kept = [each for each in self._kept if each.origin in begins]
        heads = [head for each in journal.segments for head in self._found[each.taken].heads.values()]
        # Of records that were removed, the seals say what the tree was.
        roots = {(each.begin, each.checkpoint.size): each.checkpoint.root for each in checkpoints}
        roots |= {(each.begin, each.size): each.root for each in heads}
        end = (_extent(journal, self._found) or (0, 0))[1]
        found = [*found, *judge_kept(kept, end, begins.get, lambda begin, size: roots.get((begin, size)))]
        yield from (_as_row(each, None, server) for each in found)

    def _of_nobody(self) -> Iterator[of_journals.Finding]:
        """Findings about checkpoints that were kept, and that are of none of the journals."""
        known = {origin for journal in self._snapshot.journals for origin in begins_of(journal.checkpoints[0])}
        return judge_kept([each for each in self._kept if each.origin not in known], 0, lambda _: None, lambda *_: None)

    def _server(self, journal: Journal) -> str | None:
        headers = (self._found[each.taken].header for each in journal.segments)
        return next((each.server for each in headers if each is not None), None)

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
