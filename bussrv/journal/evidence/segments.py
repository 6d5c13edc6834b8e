"""Segments: is each what the next header and the manifest say, and are all of them there? Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from bussrv.journal.bounds import MAX_LINE, TooLarge
from bussrv.journal.chain import START
from bussrv.journal.checkpoints import read_checkpoint
from bussrv.journal.digests import Digests
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.numbers import Numbers, out_of_order
from bussrv.journal.evidence.registries import Registries
from bussrv.journal.header import MANIFEST, Header, Previous
from bussrv.journal.manifest import Manifest, Seal, last_seq
from bussrv.journal.record import format_time
from bussrv.journal.record_tree import RecordTree, TreeHead
from bussrv.journal.segment import Counts

SNAPSHOT = "broken-snapshot"
TREE = "broken-tree"


class Segment(Struct, frozen=True, kw_only=True):
    """A segment as it was found.

    :ivar number: the number in its name.
    :ivar digests: of its lines, uncompressed; an unfinished line at the end is not one of them.
    :ivar header: its first line, if that is the header of this segment.
    :ivar torn: how many bytes the unfinished line at the end has.
    :ivar lines: how many lines there are, if there is such an end.
    :ivar counts: of its records; ``None`` if they were not counted.
    :ivar registries: what it begins and ends with; ``None`` if that is not known.
    :ivar trees: the trees of all records up to some of its beginnings, by the bytes of these, as far as they are known.
    """

    number: int
    digests: Digests
    header: Header | None = None
    torn: int = 0
    lines: int = 0
    counts: Counts | None = None
    registries: Registries | None = None
    trees: Mapping[int, TreeHead] = {}

    @property
    def records(self) -> int:
        """How many records there are, as far as they were counted."""
        return 0 if self.counts is None else self.counts.records


class SegmentJudge:
    """Judge the segments of a journal, in order.

    :ivar headers: of the segments that were judged, by number.
    :param numbers: of all segments that are there.
    :param is_complete: whether a segment that is missing before the first one is missed though there are no seals.
    :param to_the_end: whether every record has to be sealed.
    """

    def __init__(
        self, manifest: Manifest, numbers: Collection[int], *, is_complete: bool = True, to_the_end: bool = False
    ) -> None:
        self.headers: dict[int, Header] = {}
        self._manifest = manifest
        self._numbers = numbers
        self._is_complete = is_complete
        self._to_the_end = to_the_end
        self._number: int | None = None
        self._before: Segment | None = None
        # The tree that the segment before ends with, as far as anything says it.
        self._ends: TreeHead | None = None

    def pass_segment(
        self, segment: Segment, seals: Sequence[Seal], last: Seal | None, *, may_grow: bool
    ) -> list[Finding]:
        """Judge the next segment.

        :param seals: those that were made before the segment was read.
        :param last: the last seal that is known.
        :param may_grow: whether it may end in an unfinished line, and need not be sealed as closed.
        """
        found: list[Finding] = []
        if segment.header is not None:
            self.headers[segment.number] = segment.header
            found += self._judge_header(segment.header)
            # Of a segment that does not fit the one before, nothing else is expected.
            found = found or [*self._judge_tree(segment.header), *self._judge_snapshot(segment.header, segment, last)]
        found += _judge_tail(segment, is_last=may_grow)
        if last is not None:
            found += _judge_seals(segment, seals, last, may_grow=may_grow, to_the_end=self._to_the_end)
        elif segment.records and (self._manifest.entries or self._to_the_end):
            what = "nothing of it is sealed, though a server seals the first records of a segment at once"
            found.append(_of_seal(segment, what, segment.number))
        found = found or [*_judge_checkpoints(segment, seals)]
        self._number, self._before = segment.number, segment
        self._ends = segment.trees.get(segment.digests.size) or _sealed_tree(segment, last)
        return found

    def pass_unreadable(self, number: int) -> None:
        """The next segment cannot be read to its end. Nothing else of it is judged."""
        self._number, self._before, self._ends = number, None, None

    def _judge_tree(self, header: Header) -> Iterator[Finding]:
        """Hold the tree in the header of a segment against the tree that the segment before ends with."""
        before = self._before
        follows = header.previous is not None and before is not None and before.number == header.previous.segment
        if header.salvaged is not None or not follows or before is None or before.header is None:
            return
        had, has = before.header.tree, header.tree
        if had is None:
            if has is not None and has.begin != header.segment:
                yield _of_header(
                    header, f"its tree begins with record {has.begin}, yet there was none before", code=TREE
                )
        elif has is None:
            yield _of_header(header, f"it has no tree, though segment {before.number} has one", code=TREE)
        elif has.begin != had.begin:
            what = f"its tree begins with record {has.begin}, and that of segment {before.number} with {had.begin}"
            yield _of_header(header, what, code=TREE)
        elif self._ends is not None and RecordTree.of_header(has, header.segment).head() != self._ends:
            what = f"its tree is not that of the records up to the end of segment {before.number}"
            yield _of_header(header, what, before.number, header.segment - 1, code=TREE)

    def _judge_header(self, header: Header) -> Iterator[Finding]:
        """Hold the header of a segment against the segment before."""
        previous, before = header.previous, self._number
        if header.salvaged is not None:
            damage = header.salvaged
            place = "the manifest" if damage.segment == MANIFEST else f"segment {damage.segment}"
            where = f"{place}, line {damage.line}"
            what = f"a new chain begins here, after damage in {where}: {damage.reason}"
            yield _of_header(header, what, damage.seq, damage.seq)
        elif previous is not None:
            if before != previous.segment:
                yield from self._judge_missing(header, previous)
            elif self._before is not None:
                yield from _held_against(header, previous, self._before)
        elif before is not None or header.segment != 1 or header.prev != START:
            there = f"but there is segment {before}" if before else f"yet it begins with record {header.segment}"
            what = f"the header says that there is no segment before this one, {there}"
            yield _of_header(header, what)

    def _judge_snapshot(self, header: Header, segment: Segment, last: Seal | None) -> Iterator[Finding]:
        """Hold the snapshot of a segment against the registry that the segment before ended with."""
        before = self._before
        if header.salvaged is not None or is_closed(last):
            return
        if header.previous is None:
            if header.segment == 1 and header.parts:
                yield _of_header(header, "it is the first segment, and yet it begins with a snapshot", code=SNAPSHOT)
        elif before is not None and before.number == header.previous.segment:
            begins, ends = segment.registries, before.registries
            if begins is not None and ends is not None and begins.begins not in ends.ends:
                what = f"its snapshot is not what segment {before.number} adds up to: it was changed, or records were"
                yield _of_header(header, what, code=SNAPSHOT)

    def _judge_missing(self, header: Header, previous: Previous) -> Iterator[Finding]:
        """A sealed segment that is missing is found with the seals."""
        manifest, expected = self._manifest, previous.segment
        is_there = expected in self._numbers
        if expected in manifest.pruned or (expected in manifest.seals and not is_there):
            return
        what = f"segment {header.segment} should follow segment {expected}, "
        if self._number is not None:
            what += f"not segment {self._number}"
        elif not is_there and (manifest.entries or self._is_complete):
            what += "which is not there"
        else:
            return
        yield _of_header(header, what, expected, max(1, header.segment - 1))


def why_unreadable(error: Exception) -> str:
    """Why a segment is not read to its end, as a sentence without its end.

    :param error: one of :data:`bussrv.journal.segment.CORRUPT`.
    """
    what = "is read no further" if isinstance(error, TooLarge) else "cannot be decompressed"
    return f"the segment {what}: {error}"


def unreadable(number: int, why: str) -> Finding:
    """A segment cannot be decompressed, or exceeds a bound. Nothing else of it is judged.

    :param why: what :func:`why_unreadable` says.
    """
    return Finding(code="unreadable-segment", message=why, segment=number)


def _judge_tail(segment: Segment, *, is_last: bool) -> Iterator[Finding]:
    """Judge the unfinished line at the end of a segment: normal in the last one, damage in any other."""
    if segment.torn:
        code, what, yet = "torn-tail", "journal", ""
        if not is_last:
            code, what, yet = "bad-line", "segment", ", yet it is not the last one"
        elif segment.torn >= MAX_LINE:
            code, yet = "bad-line", ", yet no line is so long"
        message = f"the {what} ends in {segment.torn} bytes of an unfinished record{yet}"
        yield Finding(code=code, message=message, segment=segment.number, line=segment.lines + 1)


def _held_against(header: Header, previous: Previous, found: Segment) -> Iterator[Finding]:
    digests = found.digests
    if header.prev != digests.last_hash:
        yield _last_line_differs(header, found.number)
    elif (previous.bytes, previous.digest) != (digests.size, digests.digest):
        what = f"it is not what it was when it was closed, as the header of segment {header.segment} says"
        yield _of_header(header, what, found.number, header.segment - 1, segment=found.number)


def _last_line_differs(header: Header, before: int) -> Finding:
    what = f"its last line was changed, cut off or added, or the header of segment {header.segment}"
    return _of_header(header, what, before, header.segment - 1, segment=before)


def judge_end(header: Header, before: int, next_seq: int, last_hash: str | None) -> Iterator[Finding]:
    """Hold the header of a segment against the last line of the segment before.

    :param before: the number of that segment.
    :param next_seq: the number after that of its last record.
    """
    if header.salvaged is None:
        if header.segment != next_seq:
            yield out_of_order(header.server, next_seq, header.segment, header.segment)
        if header.prev != last_hash:
            yield _last_line_differs(header, before)


def _of_header(
    header: Header,
    message: str,
    first: int | None = None,
    last: int | None = None,
    *,
    segment: int | None = None,
    code: str = "broken-link",
) -> Finding:
    """A finding that a header leads to, about its segment or the one before."""
    return Finding(
        code=code if header.salvaged is None else "journal-salvaged",
        message=message,
        segment=header.segment if segment is None else segment,
        line=1 if segment is None else None,
        first_seq=first,
        last_seq=last,
        server=header.server,
        boot=header.boot,
    )


def _judge_seals(
    segment: Segment, seals: Sequence[Seal], last: Seal, *, may_grow: bool, to_the_end: bool = False
) -> Iterator[Finding]:
    """Hold a segment against its seals.

    :param seals: those that were made before the segment was read.
    :param last: the last seal that is known.
    :param may_grow: whether the segment need not be sealed as closed.
    :param to_the_end: whether every record has to be sealed.
    """
    for seal in seals:
        if _is_broken(segment.digests, seal):
            yield _of_seal(segment, _difference(segment.digests, seal), segment.number, last_seq(seal))
            return
    if last.closed and segment.digests.size + segment.torn > last.bytes:
        what = f"it goes on after its closing seal, at byte {last.bytes}"
        yield _of_seal(segment, what, last_seq(last) + 1)
    elif not last.closed and not may_grow:
        what = f"it is sealed up to record {last.last_seq} only, and not as closed, though another one follows"
        yield _of_seal(segment, what, last_seq(last) + 1)
    elif last.closed and segment.counts is not None and not _counts_fit(segment.counts, last):
        yield _of_seal(segment, "its closing seal gives another number of records, or other first and last ones", None)
    elif to_the_end and (rest := unsealed_end(segment, last)) is not None:
        yield rest


def _judge_checkpoints(segment: Segment, seals: Sequence[Seal]) -> Iterator[Finding]:
    """Hold the checkpoints in the seals of a segment against the trees up to there."""
    for seal in seals:
        tree = segment.trees.get(seal.bytes)
        if tree is None or seal.checkpoint is None or _is_broken(segment.digests, seal):
            continue
        checkpoint, _ = read_checkpoint(seal.checkpoint)
        if (checkpoint.size, checkpoint.root) != (tree.size, tree.root):
            what = f"the checkpoint of the seal up to record {seal.last_seq} is not of the records there"
            yield _of_seal(segment, what, segment.number, seal.last_seq, code=TREE)
            return


def _sealed_tree(segment: Segment, last: Seal | None) -> TreeHead | None:
    """The tree that the closing seal of a segment says it ends with."""
    header = segment.header
    if header is None or header.tree is None or last is None or last.checkpoint is None:
        return None
    if not is_verified(segment.digests, last):
        return None
    checkpoint, _ = read_checkpoint(last.checkpoint)
    return TreeHead(header.tree.begin, checkpoint.size, checkpoint.root)


def is_closed(seal: Seal | None) -> bool:
    """Whether a seal says what a segment is, to its last byte.

    Lines and snapshots of other segments are judged to the byte: nothing else shows what the server wrote.

    :param seal: the last one of the segment, if there is one.
    """
    return seal is not None and seal.closed


def is_verified(digests: Digests, seal: Seal) -> bool:
    """Whether a segment is, to the last byte, what its closing seal says."""
    return seal.closed and (seal.bytes, seal.digest) == (digests.size, digests.digest)


def _is_broken(digests: Digests, seal: Seal) -> bool:
    if seal.bytes == digests.size:
        return digests.digest != seal.digest
    # A beginning whose digest was not asked for is not judged.
    return digests.size < seal.bytes or digests.beginnings.get(seal.bytes, seal.digest) != seal.digest


def _difference(digests: Digests, seal: Seal) -> str:
    if digests.size < seal.bytes:
        return f"it was cut: {seal.bytes} bytes, up to record {seal.last_seq}, are sealed, and it has {digests.size}"
    return f"it is not what was sealed up to record {seal.last_seq}"


def _counts_fit(counts: Counts, seal: Seal) -> bool:
    names = ("records", "first_seq", "last_seq", *(() if counts.first_time is None else ("first_time", "last_time")))
    return all(getattr(counts, name) == getattr(seal, name) for name in names)


def unsealed_end(segment: Segment, last: Seal) -> Finding | None:
    """The records of a segment that no seal is about yet."""
    end = None if segment.counts is None else segment.counts.last_seq
    if end is None or end <= last_seq(last):
        return None
    since = "" if last.last_time is None else f" of {format_time(last.last_time)}"
    what = f"records {last_seq(last) + 1} to {end}, after record {last_seq(last)}{since}, are not sealed"
    return _of_seal(segment, what, last_seq(last) + 1, end)


def _of_seal(
    segment: Segment, message: str, first: int | None, last: int | None = None, *, code: str = "broken-seal"
) -> Finding:
    server = None if segment.header is None else segment.header.server
    return Finding(code=code, message=message, segment=segment.number, first_seq=first, last_seq=last, server=server)


def judge_missing(manifest: Manifest, numbers: Collection[int]) -> Iterator[Finding]:
    """Each sealed segment that is neither there nor removed by retention.

    :param numbers: of the segments that are there.
    """
    for number, seal in manifest.seals.items():
        if number not in numbers and number not in manifest.pruned:
            what = f"the segment is missing, with the records {seal.first_seq} to {seal.last_seq}"
            yield Finding(
                code="segment-missing", message=what, segment=number, first_seq=seal.first_seq, last_seq=seal.last_seq
            )


def expect_first(
    found: Numbers, headers: Iterable[Header | None], manifest: Manifest, numbers: Collection[int]
) -> None:
    """Say with which record a journal has to begin, if that is known.

    :param found: is told.
    :param headers: of the segments, as far as they can be read.
    :param numbers: of the segments that are there. The first one may have lost all of its records.
    """
    header = next((each for each in headers if each is not None), None)
    first = min({*numbers, *manifest.seals} - manifest.pruned.keys(), default=None)
    if header is not None and first is not None:
        found.expect(header.server, first)


def judge_manifest(manifest: Manifest, noted: Iterable[str] = ()) -> Iterator[Finding]:
    """Each line of a manifest that is wrong, and entries that are missing.

    :param noted: hashes of entries, kept elsewhere, that have to be there.
    """
    yield from manifest.findings
    for each in noted:
        if each not in manifest.lines:
            yield Finding(code="bad-manifest", message=f"entry {each} is not there: it was cut off or replaced")


def judge_references(manifest: Manifest, headers: Mapping[int, Header]) -> Iterator[Finding]:
    """Entries of a manifest that headers refer to, and that are not there.

    :param headers: by the numbers of their segments, in order.
    """
    missing = [number for number, each in headers.items() if each.seal and each.seal not in manifest.lines]
    if missing:
        number, others = missing[0], len(missing) - 1
        more = f", nor are those that {others} later segments refer to" if others else ""
        what = f"entry {headers[number].seal} is not there, which segment {number} refers to{more}"
        yield Finding(code="bad-manifest", message=f"{what}: it was cut off or replaced", segment=number)
