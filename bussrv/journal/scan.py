"""Read one segment from its beginning to its end, past everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.digests import MOST_OF_A_LINE, NO_DIGESTS, Digests
from bussrv.journal.evidence.lines import Line, LineJudge
from bussrv.journal.evidence.registries import RegistryJudge, RegistryReader
from bussrv.journal.evidence.segments import Segment, unreadable, why_unreadable
from bussrv.journal.header import Part
from bussrv.journal.reading import Fold
from bussrv.journal.record import Record
from bussrv.journal.record_tree import RecordTree, TreeHead
from bussrv.journal.segment import CORRUPT, Measure, first_seq, is_compressed, open_segment

_TOGETHER = 1 << 16
"""So many bytes are measured together."""


class Scan:
    """A segment that was read.

    :param sizes: of the beginnings whose digests are asked for.
    :param fold: takes in the snapshot and the records, up to the first wrong line.
    :param registry: an empty one, to be compared with those of other segments; ``None``: they are not compared.
    :param to_the_byte: see :class:`bussrv.journal.evidence.lines.LineJudge`.
    :ivar judge: of its lines.
    :ivar extent: how far its whole lines go.
    :ivar segment: the segment as it was found; ``None`` if it cannot be read to its end.
    :raises OSError: if it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        sizes: Iterable[int] = (),
        fold: Fold | None = None,
        *,
        registry: RegistryReader | None = None,
        to_the_byte: bool = False,
    ) -> None:
        self.judge = LineJudge(first_seq(path), to_the_byte=to_the_byte)
        self._registry = None if registry is None else RegistryJudge(self.judge, registry)
        self.segment: Segment | None = None
        self._path = path
        self._fold = fold
        self._measure = Measure(first_seq(path))
        self._beginnings = dict.fromkeys(sizes, "")
        self._first_line = b""
        self._torn = 0
        self._texts: list[bytes] = []
        self._records: list[Record] = []
        self._record_lines: list[bytes] = []
        self._heads: dict[int, TreeHead] = {}
        with open_segment(path) as file:
            try:
                self._read(file)
            except CORRUPT as error:
                self.judge.give_up(unreadable(first_seq(path), why_unreadable(error)))
            else:
                self.judge.end()
                self.segment = self._found()
        self.extent = self._measure.extent()

    @property
    def tree(self) -> RecordTree | None:
        """The tree of all records up to its end; ``None``: its header has none."""
        return self._measure.tree

    def _read(self, file: BinaryIO) -> None:
        judge, fold, texts, records, beginnings = self.judge, self._fold, self._texts, self._records, self._beginnings
        registry, record_lines = self._registry, self._record_lines
        size, due, is_within = 0, _TOGETHER, False
        while text := file.readline(MAX_LINE):
            is_whole = text.endswith(b"\n")
            if is_whole and not is_within:
                found = judge.pass_line(text)
                if isinstance(found, Record):
                    records.append(found)
                    record_lines.append(text)
                if fold is not None and judge.wrong is None:
                    self._take_in(found, fold)
                if registry is not None:
                    registry.pass_line(found)
            elif len(text) < MAX_LINE and not is_whole and not is_compressed(self._path):
                # A server may be writing it: an unfinished line is not judged.
                self._torn = len(text)
                break
            elif not is_within:
                judge.pass_unreadable("the line is too long" if len(text) == MAX_LINE else "the line has no end")
            is_within = not is_whole
            texts.append(text)
            size += len(text)
            if size >= due or size in beginnings:
                self._measure_texts()
                due = size + _TOGETHER
        self._measure_texts()

    def _measure_texts(self) -> None:
        """Take in the texts since the last time together, which is faster."""
        text = b"".join(self._texts)
        if not self._measure.bytes:
            self._first_line = text[:MOST_OF_A_LINE].partition(b"\n")[0]
            header = self.judge.header
            if header is not None and header.tree is not None:
                self._measure.tree = RecordTree.of_header(header.tree, header.segment)
        self._measure.add(text, self.judge.hash or "", self._records, b"".join(self._record_lines))
        for each in (self._texts, self._records, self._record_lines):
            each.clear()
        size = self._measure.bytes
        if size in self._beginnings:
            self._beginnings[size] = self._measure.digest()
            if self.tree is not None and self.judge.wrong is None:
                self._heads[size] = self.tree.head()

    def _take_in(self, found: Line | None, fold: Fold) -> None:
        if isinstance(found, Record):
            fold.apply(found.event, found.time)
        elif isinstance(found, Part):
            try:
                fold.take(found.state, found.version)
            except ValueError as error:
                self.judge.reject(f"not a part of a snapshot: {error}")

    def _found(self) -> Segment:
        judge, extent = self.judge, self._measure.extent()
        trees = {size: head for size, head in self._heads.items() if size != extent.bytes}
        # At its end a snapshot turns out to lack parts.
        if extent.tree is not None and judge.wrong is None:
            trees[extent.bytes] = extent.tree
        # If a sealed beginning does not end with a line, its digest cannot be that of the seal.
        beginnings = {size: digest for size, digest in self._beginnings.items() if size <= extent.bytes}
        last_hash = self._measure.hash if judge.lines else NO_DIGESTS.last_hash
        return Segment(
            number=extent.segment,
            digests=Digests(extent.bytes, extent.digest, beginnings, self._first_line, last_hash),
            header=judge.header,
            torn=self._torn,
            lines=judge.lines,
            counts=extent,
            trees=trees,
            registries=None if self._registry is None or self._torn else self._registry.registries(),
        )
