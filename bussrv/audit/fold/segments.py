"""One segment: its bytes, its digests, its records, and what the judge says of its lines."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from msgspec import Struct

from bussrv.audit.fold.lines import SegmentContent, read_lines
from bussrv.audit.fold.stored import is_stored, read_stored
from bussrv.journal.bounded import bounded
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.digests import Digests, digests_in
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.registries import Registries, RegistryJudge
from bussrv.journal.evidence.segments import is_verified, why_unreadable
from bussrv.journal.header import Header
from bussrv.journal.manifest import Seal
from bussrv.journal.record_tree import RecordTree, TreeHead
from bussrv.journal.segment import COMPRESSED_SUFFIX, CORRUPT, open_segment
from bussrv.registry.state.fold import RegistryFold


class SegmentSource(Struct, frozen=True):
    """A segment to read.

    :ivar taken: its name, unlike all others.
    :ivar path: a file on this machine, or a URL.
    :ivar number: the number in the name of its file.
    :ivar size: in bytes, uncompressed, about.
    :ivar stamp: a text that differs if the file was replaced or written to.
    :ivar sizes: of the beginnings whose digests are wanted.
    :ivar seal: its last seal.
    :ivar trees: the records whose trees are wanted, besides those of its beginnings and of its end; ``None``: no tree
        is, which saves a fifth of the time.
    :ivar to_the_byte: whether it is judged to the byte, because it has no closing seal (true), or such a segment
        follows it (false). Of both, it is asked which registry they begin and end with. ``None``: neither.
    """

    taken: str
    path: str
    number: int
    size: int
    stamp: str = ""
    sizes: tuple[int, ...] = ()
    seal: Seal | None = None
    to_the_byte: bool | None = None
    trees: tuple[int, ...] | None = None

    @property
    def is_far(self) -> bool:
        """Whether it is at a URL."""
        return "://" in self.path

    @property
    def is_given(self) -> bool:
        """Whether it is at a URL that is not read here: somebody else gives its content."""
        return self.is_far and not is_stored(self.path)


class Judged(Struct, frozen=True):
    """The judgement on the lines of a segment.

    :ivar is_sound: whether nothing is wrong.
    :ivar registries: what the segment begins and ends with; ``None`` if a line is wrong, or nobody asked.
    :ivar findings: about lines.
    :ivar numbers: of its records: server, first and last number, segment.
    :ivar is_over: whether too much was wrong, so that not all lines were judged.
    """

    is_sound: bool
    registries: Registries | None
    findings: list[Finding]
    numbers: list[tuple[str, int, int, int]]
    is_over: bool = False


class SegmentFacts(Struct, frozen=True, kw_only=True):
    """The properties of a segment. Times are UTC microseconds.

    :ivar digests: ``None`` if it cannot be read to its end, which leaves it out; ``unreadable`` says why.
    :ivar is_sound: whether every line is what it should be, and nothing is missing, repeated or out of order.
    :ivar judged: ``None`` of a segment that needs no judge, since its closing seal says the same.
    :ivar trees: the trees of all records up to some of its beginnings, by the bytes of these, and ``heads`` up to some
        records; ``None``: nobody asked. Empty if it has no tree, or is not sound.
    """

    taken: str
    digests: Digests | None = None
    unreadable: str = ""
    header: Header | None = None
    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    first_moment: int | None = None
    last_moment: int | None = None
    is_sound: bool = False
    judged: Judged | None = None
    trees: dict[int, TreeHead] | None = None
    heads: dict[int, TreeHead] = {}


def read_segment(
    source: SegmentSource, stored: bytes | None = None, *, most: int | None = None
) -> tuple[SegmentFacts, SegmentContent | None]:
    """Read a segment. There are no records of one that cannot be decompressed, exceeds a bound, or is all wrong.

    :param stored: the content of its file, if it is given.
    :param most: of so many findings about its lines each is listed; see :class:`LineJudge`.
    :raises OSError: if it cannot be read.
    :raises JournalError: if an object store has it, and it cannot be read.
    """
    try:
        content = content_of(source, stored)
    except CORRUPT as error:
        return SegmentFacts(taken=source.taken, unreadable=why_unreadable(error)), None
    digests = digests_in(BytesIO(content), source.sizes)
    verified = source.seal is not None and is_verified(digests, source.seal)
    judged = None
    if source.to_the_byte is not None or not verified:
        follow = source.to_the_byte is not None and (source.to_the_byte or verified)
        judged = judge(source.number, content, to_the_byte=not verified, follow=follow, most=most)
    if judged is not None and judged.is_over:
        # Its lines would take as much memory as those of a segment that a server wrote, and say nothing.
        return SegmentFacts(taken=source.taken, digests=digests, judged=judged), None
    read = read_lines(content, source.number, is_chained=verified or (judged is not None and judged.is_sound))
    if judged is None and not read.is_sound:
        judged = judge(source.number, content, to_the_byte=False, follow=False, most=most)
    is_empty = not read.records
    is_whole = verified if judged is None else judged.is_sound
    trees, heads = _trees(source, content, read.header if is_whole else None)
    return SegmentFacts(
        taken=source.taken,
        digests=digests,
        header=read.header,
        records=len(read.records),
        first_seq=None if is_empty else int(read.seqs[0]),
        last_seq=None if is_empty else int(read.seqs[-1]),
        first_moment=None if is_empty else int(read.moments.min()),
        last_moment=None if is_empty else int(read.moments.max()),
        is_sound=read.is_sound,
        judged=judged,
        trees=trees,
        heads=heads,
    ), read


def _trees(
    source: SegmentSource, content: bytes, header: Header | None
) -> tuple[dict[int, TreeHead] | None, dict[int, TreeHead]]:
    """The trees that are wanted of a segment, by bytes and by record, as far as it has so many.

    :param content: its lines, each of which is known to be whole; ``header``: of them.
    """
    if source.trees is None:
        return None, {}
    if header is None or header.tree is None:
        return {}, {}
    at = _after_lines(content, 0, 1 + header.parts)
    # A seal may be about another content, and end within a line of this one.
    ends = [size for size in (*source.sizes, len(content)) if at <= size and content[size - 1 : size] == b"\n"]
    cuts: dict[int, int | None] = dict.fromkeys(ends)
    line, end = source.number - 1, at
    for seq in sorted(each for each in source.trees or () if each >= source.number):
        end = _after_lines(content, end, seq - line)
        if not end:
            break
        line, cuts[end] = seq, seq
    tree = RecordTree.of_header(header.tree, header.segment)
    trees: dict[int, TreeHead] = {}
    for cut in sorted(cuts):
        tree.add(content[at:cut])
        trees[cut], at = tree.head(), cut
    return trees, {seq: trees[cut] for cut, seq in cuts.items() if seq is not None}


def _after_lines(content: bytes, begin: int, count: int) -> int:
    """The place after so many lines; 0: there are not so many."""
    for _ in range(count):
        begin = content.find(b"\n", begin) + 1
        if not begin:
            return 0
    return begin


def content_of(source: SegmentSource, stored: bytes | None = None) -> bytes:
    """The lines of a segment.

    :param stored: the content of its file, if it is given and not empty.
    :raises OSError: if it cannot be read; one of ``CORRUPT`` if it is compressed and damaged, or exceeds a bound.
    :raises JournalError: if an object store has it, and it cannot be read.
    """
    if stored is None and is_stored(source.path):
        stored = read_stored(source.path)
    if stored is None and source.is_far:
        return b""
    if stored is None:
        with open_segment(Path(source.path)) as file:
            return file.read()
    with bounded(BytesIO(stored), compressed=source.path.endswith(COMPRESSED_SUFFIX)) as file:
        return file.read()


def judge(number: int, content: bytes, *, to_the_byte: bool, follow: bool, most: int | None = None) -> Judged:
    """Judge the lines of a segment.

    :param number: the number in its name.
    :param content: all of its lines.
    :param to_the_byte: whether each line has to be, byte for byte, what a server writes.
    :param follow: whether the registry is followed as well.
    """
    lines = LineJudge(number, to_the_byte=to_the_byte, most=most)
    registry = RegistryJudge(lines, RegistryFold()) if follow else None
    for line in BytesIO(content):
        if line.endswith(b"\n") and len(line) < MAX_LINE:
            found = lines.pass_line(line)
            if registry is not None:
                registry.pass_line(found)
        else:
            lines.pass_unreadable("the line is too long" if len(line) >= MAX_LINE else "the line has no end")
    findings = lines.end()
    return Judged(
        lines.wrong is None,
        None if registry is None else registry.registries(),
        findings,
        [*lines.numbers.ranges()],
        lines.is_over,
    )
