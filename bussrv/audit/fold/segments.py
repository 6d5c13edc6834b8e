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
    ), read


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
