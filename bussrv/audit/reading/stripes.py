"""From the snapshot of journals to files of facts: the journals are divided into stripes, which workers fold.

What this process keeps in memory grows with the segments and the boots. What grows with the records is in files::

    PLACE/0/sessions.parquet …      the facts of a stripe, or of a part of their borders
    PLACE/here/sessions.parquet …   the facts that are made here: every table, also without rows
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from msgspec.structs import replace

from bussrv.audit.fold.boots import backwards
from bussrv.audit.fold.facts import as_tables, no_rows, write_parquet
from bussrv.audit.fold.lines import header_of
from bussrv.audit.fold.segments import SegmentFacts, SegmentSource
from bussrv.audit.fold.stripe import Period
from bussrv.audit.fold.tasks import STRIPE, BorderJoin, Done, Reread, Stripe, Task, divided
from bussrv.audit.reading import judged
from bussrv.audit.reading.checkpoint import Checkpoint, KeptStripe
from bussrv.audit.reading.remote import RemoteDirectory
from bussrv.audit.reading.snapshot import JournalSnapshot
from bussrv.journal.digests import MOST_OF_A_LINE
from bussrv.journal.evidence.segments import is_closed
from bussrv.journal.evidence.witnesses import Covered
from bussrv.journal.header import Header
from bussrv.journal.segment import CORRUPT, open_segment

COMPRESSED = 8
"""How many times larger a compressed segment is inside, about."""

JOINED_AT_ONCE = 16 << 20
"""About how many bytes of the borders of stripes are joined at once."""


class Workers(Protocol):
    """Does the tasks of the fold."""

    keep_memory: bool
    """Whether there are processes that keep their memory after the last task."""

    def directory(self, url: str) -> RemoteDirectory:
        """A journal at a URL that is in no object store; only Spark may be able to read it."""

    def perform(self, tasks: Sequence[Task]) -> Iterable[Done]:
        """Do tasks, in any order, and maybe at the same time."""

    def bring(self, source: SegmentSource) -> SegmentSource:
        """The same segment where every process can read it; only Spark may be able to."""

    def close(self) -> None:
        """End what was begun for tasks."""


def fold_journals(
    snapshot: JournalSnapshot,
    period: Period,
    place: Path,
    workers: Workers,
    checkpoint: Checkpoint | None = None,
    *,
    size: int = STRIPE,
) -> list[tuple[str, Covered]]:
    """Make the facts of journals, and ``findings`` and ``segments``, which are about everything but the records.

    :param place: a directory for them, which is made.
    :param checkpoint: keeps the facts of stripes.
    :param size: of a stripe, in bytes.
    :returns: of which journal which records were cosigned by whom, if witnesses were named.
    :raises bussrv.errors.JournalError: if a segment goes away meanwhile.
    """
    place.mkdir()
    stripes = _Stripes(period, place, workers, checkpoint, size)
    try:
        stripes.fold(sources_of(snapshot))
    finally:
        snapshot.check()
    write_here(place, stripes.done.values(), judged.tables(snapshot, stripes.found))
    return judged.covered(snapshot, stripes.found)


def write_here(place: Path, stripes: Iterable[Done], judgements: Mapping[str, pa.Table]) -> None:
    """Write the facts that are made here.

    :param judgements: ``findings`` and ``segments``.
    """
    here = place / "here"
    here.mkdir()
    tables = as_tables({**no_rows(), "clocks": [*_borders(stripes)]})
    for name, table in {**tables, **judgements}.items():
        write_parquet(table, here / f"{name}.parquet")


class _Stripes:
    """The stripes of journals, while they are folded.

    :ivar done: how each stripe went, by its number.
    :ivar found: what each segment is like, by its name.
    """

    def __init__(self, period: Period, place: Path, workers: Workers, checkpoint: Checkpoint | None, size: int) -> None:
        self.done: dict[int, Done] = {}
        self.found: dict[str, SegmentFacts] = {}
        self._period = period
        self._place = place
        self._workers = workers
        self._checkpoint = checkpoint
        self._size = size
        self._first: frozenset[str] = frozenset()
        self._stripes: dict[int, Stripe] = {}
        self._kept: dict[int, str] = {}
        self._to_keep: set[int] = set()
        self._borders: list[tuple[int, Path]] = []
        self._number = 0

    def fold(self, journals: Sequence[Sequence[SegmentSource]]) -> None:
        """Fold everything."""
        self._first = _first_segments(journals)
        if self._checkpoint is None:
            for sources in _packed(journals, self._size):
                self._plan(sources)
        else:
            for journal in journals:
                self._plan_on(self._checkpoint, journal)
            self._look(self._checkpoint)
        self._settle()
        if self._checkpoint is not None:
            self._keep(self._checkpoint)
        for number, place in [*((each.number, Path(each.place)) for each in self._stripes.values()), *self._borders]:
            if place.parent != self._place:
                (self._place / str(number)).symlink_to(place.resolve())

    def _plan_on(self, checkpoint: Checkpoint, journal: Sequence[SegmentSource]) -> None:
        """Plan a journal, of which facts may be kept."""
        rest, fresh = [*journal], []
        while rest:
            known = checkpoint.known(rest, self._first, self._period)
            if known is None:
                fresh.append(rest.pop(0))
                continue
            self._plan_fresh(fresh)
            count = self._plan_known(checkpoint, *known, rest)
            fresh, rest = [], rest[count:]
        self._plan_fresh(fresh)

    def _plan_known(self, checkpoint: Checkpoint, key: str, kept: KeptStripe, rest: Sequence[SegmentSource]) -> int:
        """Plan a stripe with which the rest of a journal begins. Returns how many segments it has."""
        number, count = self._next(), len(kept.segments)
        place = str(checkpoint.place(key))
        self._stripes[number] = Stripe(number, place, (*rest[:count],), kept.first, self._period)
        self._kept[number], self.done[number] = key, kept.done
        self.found |= {each.taken: each for each in kept.done.segments}
        return count

    def _plan_fresh(self, journal: Sequence[SegmentSource]) -> None:
        for may_be_kept, run in _runs(journal):
            for sources in divided(run, self._size):
                self._plan(sources, may_be_kept)

    def _plan(self, sources: Sequence[SegmentSource], may_be_kept: bool = False) -> None:
        number, first = self._next(), self._first & {source.taken for source in sources}
        place = self._new_place(number, may_be_kept)
        self._stripes[number] = Stripe(number, place, (*sources,), first, self._period)
        if may_be_kept:
            self._to_keep.add(number)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _new_place(self, number: int, may_be_kept: bool) -> str:
        if self._checkpoint is None or not may_be_kept:
            return str(self._place / str(number))
        return str(self._checkpoint.new_place(number))

    def _look(self, checkpoint: Checkpoint) -> None:
        """Look at segments of which facts are kept, where they may have changed."""
        kept = {number: checkpoint.kept(key) for number, key in self._kept.items()}
        doubtful = [
            source for number in kept for source in self._stripes[number].sources if kept[number].is_doubtful(source)
        ]
        tasks = [Reread(self._next(), source) for source in doubtful]
        found = {each.taken: each for done in self._workers.perform(tasks) for each in done.segments} if tasks else {}
        for number, key in [*self._kept.items()] if tasks else ():
            sources = self._stripes[number].sources
            if checkpoint.update(key, found, sources):
                self.found |= {source.taken: found[source.taken] for source in sources if source.taken in found}
            else:
                del self._stripes[number], self._kept[number], self.done[number]
                self._plan_fresh(sources)

    def _settle(self) -> None:
        """Fold until all stripes fit each other. Only journals that were changed or copied need a second round."""
        while True:
            self._fold()
            self._first = frozenset(_lowest({name: each.header for name, each in self.found.items()}))
            firsts = (
                (each, {source.taken for source in each.sources} & self._first) for each in self._stripes.values()
            )
            wrong = [{each.number} for each, expected in firsts if each.first != expected]
            groups = wrong or self._clashes()
            if not groups:
                return
            for group in groups:
                self._merge(sorted(group))

    def _fold(self) -> None:
        alone = self._is_alone()
        todo = [replace(each, is_alone=alone) for each in self._stripes.values() if each.number not in self.done]
        for done in self._workers.perform(todo):
            self.done[done.number] = done
            self.found |= {each.taken: each for each in done.segments}

    def _is_alone(self) -> bool:
        """Whether nothing can go on in another stripe, neither now nor in the next audit."""
        return len(self._stripes) == 1 and not self._to_keep and not self._kept

    def _clashes(self) -> list[set[int]]:
        """The stripes that have to be folded as one."""
        extents = {number: done.extents for number, done in self.done.items()}
        groups = _merged(_overlapping(extents))
        return groups or ([] if self._is_alone() else self._join())

    def _join(self) -> list[set[int]]:
        """Join the borders of all stripes, unless that is known from an earlier audit of the same ones."""
        if self._checkpoint is not None and self._are_kept():
            self._borders = [(self._next(), place) for place in self._checkpoint.borders(self._kept.values())]
            if self._borders:
                return []
        numbers = [*self._stripes]
        places = tuple(self._stripes[number].place for number in numbers)
        may_be_kept = {*numbers} <= {*self._kept, *self._to_keep}
        parts = 1 + sum(self.done[number].loose for number in numbers) // JOINED_AT_ONCE
        tasks = []
        for part in range(parts):
            number = self._next()
            tasks.append(BorderJoin(number, self._new_place(number, may_be_kept), places, part, parts))
        torn = [{numbers[each] for each in group} for done in self._workers.perform(tasks) for group in done.torn]
        for each in tasks if torn else ():
            shutil.rmtree(each.place)
        self._borders = [] if torn else [(each.number, Path(each.place)) for each in tasks]
        return _merged(torn)

    def _are_kept(self) -> bool:
        """Whether the facts of all stripes are kept."""
        return self._stripes.keys() <= self._kept.keys()

    def _merge(self, group: Sequence[int]) -> None:
        """Fold stripes anew, as one."""
        sources = [source for number in group for source in self._stripes[number].sources]
        for number in group:
            if self._kept.pop(number, None) is None:
                shutil.rmtree(self._stripes[number].place)
            self._to_keep.discard(number)
            del self._stripes[number], self.done[number]
        if len(sources) > 1:
            sources = [self._workers.bring(source) for source in sources]
        self._plan(sources)

    def _keep(self, checkpoint: Checkpoint) -> None:
        for number in self._to_keep:
            key = checkpoint.keep(self._stripes[number], self.done[number])
            if key is not None:
                self._kept[number] = key
                self._stripes[number] = replace(self._stripes[number], place=str(checkpoint.place(key)))
        if self._borders and self._are_kept():
            places = checkpoint.keep_borders(self._kept.values(), [place for _, place in self._borders])
            self._borders = [(number, place) for (number, _), place in zip(self._borders, places, strict=True)]
        checkpoint.save()


def sources_of(snapshot: JournalSnapshot) -> list[list[SegmentSource]]:
    """The segments to read of each journal."""
    sizes, asked, trees = judged.sizes_of(snapshot), judged.to_judge(snapshot), judged.trees_of(snapshot)
    return [
        [
            SegmentSource(
                each.taken,
                each.file if each.in_place else str(each.path_in(snapshot.local)),
                each.number,
                each.bytes * (COMPRESSED if each.is_compressed else 1),
                each.stamp,
                (*sizes.get(each.taken, ()),),
                journal.late.seals.get(each.number),
                asked.get(each.taken),
                trees.get(each.taken),
            )
            for each in journal.segments
        ]
        for journal in snapshot.journals
    ]


def _packed(journals: Sequence[Sequence[SegmentSource]], size: int) -> Iterator[tuple[SegmentSource, ...]]:
    """The stripes of journals. Those of small journals become one, but each segment that is given is one by itself."""
    some: list[SegmentSource] = []
    for journal in journals:
        yield from ((source,) for source in journal if source.is_given)
        for stripe in divided([source for source in journal if not source.is_given], size):
            if some and sum(source.size for source in (*some, *stripe)) > size:
                yield (*some,)
                some = []
            some += stripe
    if some:
        yield (*some,)


def _runs(journal: Sequence[SegmentSource]) -> Iterator[tuple[bool, list[SegmentSource]]]:
    """Segments in a row with nothing missing between them, and whether they have closing seals."""
    run: list[SegmentSource] = []
    for source in journal:
        if run and not _goes_on(run[-1], source):
            yield is_closed(run[0].seal), run
            run = []
        run.append(source)
    if run:
        yield is_closed(run[0].seal), run


def _goes_on(before: SegmentSource, source: SegmentSource) -> bool:
    if source.is_given or before.is_given or is_closed(before.seal) != is_closed(source.seal):
        return False
    last = None if before.seal is None else before.seal.last_seq
    return last is None or last + 1 == source.number


def _first_segments(journals: Sequence[Sequence[SegmentSource]]) -> frozenset[str]:
    """The first segments of the servers, as far as the first headers of journals tell; at URLs, those of journals."""
    headers = {source.taken: _header(source) for journal in journals for source in journal[:1] if not source.is_far}
    far = {source.taken for journal in journals for source in journal[:1] if source.is_far}
    return frozenset(_lowest(headers) | far)


def _header(source: SegmentSource) -> Header | None:
    try:
        with open_segment(Path(source.path)) as file:
            return header_of(file.readline(MOST_OF_A_LINE), source.number)
    except CORRUPT:
        return None


def _lowest(headers: Mapping[str, Header | None]) -> set[str]:
    """The segments that hold the first record of a server."""
    found: dict[str, tuple[int, str]] = {}
    for taken, header in headers.items():
        if header is not None and (header.server not in found or header.segment < found[header.server][0]):
            found[header.server] = header.segment, taken
    return {taken for _, taken in found.values()}


def _overlapping(extents: Mapping[int, Mapping[str, tuple[Any, Any]]]) -> Iterator[set[int]]:
    """Stripes in which records of one server overlap."""
    by_server: dict[str, list[tuple[tuple[Any, Any], int]]] = {}
    for number, of_servers in extents.items():
        for server, extent in of_servers.items():
            by_server.setdefault(server, []).append((extent, number))
    for some in by_server.values():
        latest: tuple[Any, int] | None = None
        for (first, last), number in sorted(some):
            if latest is not None and first <= latest[0]:
                yield {latest[1], number}
            if latest is None or last > latest[0]:
                latest = last, number


def _merged(groups: Iterable[set[int]]) -> list[set[int]]:
    """Groups without a common member."""
    merged: list[set[int]] = []
    for group in groups:
        joined = set(group)
        for other in [each for each in merged if each & joined]:
            merged.remove(other)
            joined |= other
        merged.append(joined)
    return merged


def _borders(stripes: Iterable[Done]) -> Iterator[tuple[Any, ...]]:
    """Clocks that ran backwards from the end of a segment to the beginning of the next one."""
    by_server: dict[str, list[Any]] = {}
    for stripe in stripes:
        for server, ends in stripe.ends.items():
            by_server.setdefault(server, []).extend(ends)
    for server, ends in by_server.items():
        ends.sort(key=lambda end: end[0][:3])
        for (before, _), (stamp, begins) in pairwise(ends):
            if begins:
                yield from backwards(server, before, stamp)
