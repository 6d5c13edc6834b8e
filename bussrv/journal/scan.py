"""Read one segment from its beginning to its end, past everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from bussrv.journal.digests import MOST_OF_A_LINE, NO_DIGESTS, Digests
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.lines import Line, LineJudge
from bussrv.journal.evidence.numbers import Numbers
from bussrv.journal.evidence.segments import Segment, unreadable
from bussrv.journal.header import Part
from bussrv.journal.reading import MAX_LINE, Fold
from bussrv.journal.record import Record
from bussrv.journal.segment import CORRUPT, Extent, Measure, first_seq, is_compressed, open_segment


class Scan(Struct, kw_only=True):
    """A segment that was read.

    :ivar findings: about its lines, in their order.
    :ivar numbers: those of its records.
    :ivar segment: the segment as it was found; ``None`` if it cannot be decompressed.
    :ivar wrong: the first finding about a line or a number, as it was when that line was read.
    :ivar next_seq: the number of the record that should come next; of the first wrong one, if there is one.
    :ivar extent: of its whole lines.
    :ivar hash: the hash of the last line.
    :ivar last: the last record.
    """

    findings: list[Finding]
    numbers: Numbers
    segment: Segment | None
    wrong: Finding | None
    next_seq: int
    extent: Extent
    hash: str
    last: Record | None

    @property
    def first(self) -> Finding | None:
        """The first finding. Later lines may tell more of it than ``wrong``."""
        if self.wrong is None:
            return None
        is_about_numbers = self.wrong.code in ("seq-gap", "seq-duplicate")
        of_numbers = list(self.numbers.findings()) if is_about_numbers else []
        return [*of_numbers, *self.findings, self.wrong][0]


def scan(path: Path, sizes: Iterable[int] = (), fold: Fold | None = None) -> Scan:
    """Read a segment.

    :param sizes: of the beginnings whose digests are asked for.
    :param fold: takes in the snapshot and the records, up to the first wrong line.
    :raises OSError: if it cannot be read.
    """
    scanner = _Scanner(path, sizes, fold)
    with open_segment(path) as file:
        try:
            scanner.read(file)
        except CORRUPT as error:
            return scanner.end(unreadable(first_seq(path), error))
    return scanner.end()


class _Scanner:
    """:ivar _torn: the size of the unfinished line at the end."""

    def __init__(self, path: Path, sizes: Iterable[int], fold: Fold | None) -> None:
        self._path = path
        self._number = first_seq(path)
        self._fold = fold
        self._judge = LineJudge(self._number)
        self._measure = Measure(self._number)
        self._sizes = frozenset(sizes)
        self._beginnings: dict[int, str] = {}
        self._first_line = b""
        self._torn = 0

    def read(self, file: BinaryIO) -> None:
        """Take in every line, at most ``MAX_LINE`` bytes of it at a time."""
        judge, measure, fold, sizes, is_within = self._judge, self._measure, self._fold, self._sizes, False
        while text := file.readline(MAX_LINE):
            is_whole, found = text.endswith(b"\n"), None
            if is_whole and not is_within:
                found = judge.pass_line(text)
                if fold is not None and judge.wrong is None:
                    self._take_in(found, fold)
            elif len(text) < MAX_LINE and not is_whole and not is_compressed(self._path):
                # A server may be writing it: an unfinished line is not judged.
                self._torn = len(text)
                return
            elif not is_within:
                judge.pass_unreadable("the line is too long" if len(text) == MAX_LINE else "the line has no end")
            is_within = not is_whole
            self._first_line = self._first_line or text.removesuffix(b"\n")[:MOST_OF_A_LINE]
            measure.add(text, judge.hash or "", (found,) if isinstance(found, Record) else ())
            if measure.bytes in sizes:
                self._beginnings[measure.bytes] = measure.digest()

    def _take_in(self, found: Line | None, fold: Fold) -> None:
        if isinstance(found, Record):
            fold.apply(found.event, found.time)
        elif isinstance(found, Part):
            try:
                fold.take(found.state, found.version)
            except ValueError as error:
                self._judge.reject(f"not a part of a snapshot: {error}")

    def end(self, unreadable: Finding | None = None) -> Scan:
        """No more follows.

        :param unreadable: why nothing is said about the segment.
        """
        judge, extent = self._judge, self._measure.extent()
        # If a sealed beginning does not end with a line, its digest cannot be that of the seal.
        beginnings = {size: self._beginnings.get(size, "") for size in self._sizes if size <= extent.bytes}
        last_hash = self._measure.hash if judge.lines else NO_DIGESTS.last_hash
        segment = Segment(
            number=self._number,
            digests=Digests(extent.bytes, extent.digest, beginnings, self._first_line, last_hash),
            header=judge.header,
            torn=self._torn,
            lines=judge.lines,
            counts=extent,
        )
        findings = judge.end()
        return Scan(
            findings=findings if unreadable is None else [unreadable],
            numbers=judge.numbers if unreadable is None else Numbers(),
            segment=segment if unreadable is None else None,
            wrong=unreadable or judge.wrong,
            next_seq=judge.next_seq,
            extent=extent,
            hash=last_hash,
            last=judge.last_record,
        )
