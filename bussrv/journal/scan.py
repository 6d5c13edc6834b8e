"""Read one segment from its beginning to its end, past everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from bussrv.journal.digests import MOST_OF_A_LINE, NO_DIGESTS, Digests
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.numbers import Numbers
from bussrv.journal.evidence.segments import Segment, unreadable
from bussrv.journal.reading import MAX_LINE
from bussrv.journal.segment import CORRUPT, extent_of, first_seq, is_compressed, open_segment


class Scan(Struct, kw_only=True):
    """A segment that was read.

    :ivar findings: about its lines, in their order.
    :ivar numbers: those of its records.
    :ivar segment: the segment as it was found; ``None`` if it cannot be decompressed.
    """

    findings: list[Finding]
    numbers: Numbers
    segment: Segment | None

    def first(self, *, is_about_numbers: bool = False) -> Finding | None:
        """The first finding.

        :param is_about_numbers: whether those about the numbers of records come before those about lines.
        """
        of_lines, of_numbers = self.findings, list(self.numbers.findings())
        found = [*of_numbers, *of_lines] if is_about_numbers else [*of_lines, *of_numbers]
        return found[0] if found else None


def scan(path: Path, sizes: Iterable[int] = ()) -> Scan:
    """Read a segment.

    :param sizes: of the beginnings whose digests are asked for.
    :raises OSError: if it cannot be read.
    """
    scanner = _Scanner(path, sizes)
    with open_segment(path) as file:
        try:
            while (text := file.readline(MAX_LINE)) and scanner.pass_text(text):
                pass
        except CORRUPT as error:
            return Scan(findings=[unreadable(first_seq(path), error)], numbers=Numbers(), segment=None)
    return scanner.end()


class _Scanner:
    """
    :ivar _torn: the size of the unfinished line at the end.
    :ivar _is_within: whether the last text was not the end of its line.
    """

    def __init__(self, path: Path, sizes: Iterable[int]) -> None:
        self._path = path
        self._number = first_seq(path)
        self._judge = LineJudge(self._number)
        self._sizes = frozenset(sizes)
        self._beginnings: dict[int, str] = {}
        self._digest = sha256()
        self._bytes = 0
        self._first_line = b""
        self._torn = 0
        self._is_within = False

    def pass_text(self, text: bytes) -> bool:
        """Take in the next line, or at most ``MAX_LINE`` bytes of it. :returns: whether more may follow."""
        is_whole = text.endswith(b"\n")
        if not is_whole and len(text) < MAX_LINE and not is_compressed(self._path):
            # A server may be writing it: an unfinished line is not judged.
            self._torn = len(text)
            return False
        self._digest.update(text)
        self._first_line = self._first_line or text.removesuffix(b"\n")[:MOST_OF_A_LINE]
        self._bytes += len(text)
        if not self._is_within:
            self._judge_line(text, is_whole=is_whole)
        self._is_within = not is_whole
        if self._bytes in self._sizes:
            self._beginnings[self._bytes] = self._digest.hexdigest()
        return True

    def _judge_line(self, text: bytes, *, is_whole: bool) -> None:
        if is_whole:
            self._judge.pass_line(text)
        else:
            self._judge.pass_unreadable("the line is too long" if len(text) == MAX_LINE else "the line has no end")

    def end(self) -> Scan:
        """No more follows."""
        judge, digest = self._judge, self._digest.hexdigest()
        # If a sealed beginning does not end with a line, its digest cannot be that of the seal.
        beginnings = {size: self._beginnings.get(size, "") for size in self._sizes if size <= self._bytes}
        last_hash = (judge.hash or "") if judge.lines else NO_DIGESTS.last_hash
        segment = Segment(
            number=self._number,
            digests=Digests(self._bytes, digest, beginnings, self._first_line, last_hash),
            header=judge.header,
            torn=self._torn,
            lines=judge.lines,
            extent=extent_of(self._number, (self._bytes, digest), judge.records, judge.first_record, judge.last_record),
        )
        return Scan(findings=judge.end(), numbers=judge.numbers, segment=segment)
