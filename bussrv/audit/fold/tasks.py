"""The tasks of the fold, which any process of any machine does: each reads files, writes files, and says how it went.

A *stripe* is a run of successive segments that is folded at once. The directory of its facts::

    sessions.parquet  spans.parquet  …     facts; tables without rows are left out
    border.arrow  whole.npy                see bussrv.audit.fold.border_join
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from msgspec import Struct

from bussrv.audit.fold import border_join
from bussrv.audit.fold.baseline import baseline
from bussrv.audit.fold.facts import write_tables
from bussrv.audit.fold.holdings import Place
from bussrv.audit.fold.record_columns import RecordColumns, by_server
from bussrv.audit.fold.segments import SegmentFacts, SegmentSource, read_segment
from bussrv.audit.fold.stripe import Ends, Period, fold_stripe
from bussrv.journal import bounds

STRIPE = 64 << 20
"""About how large a stripe is, in bytes, uncompressed. To fold one takes about five times as much memory. The larger
stripes are, the fewer sessions are at their borders. A segment ends at 64 MiB, too, unless an option says so."""


class Stripe(Struct, frozen=True):
    """Fold successive segments.

    :ivar number: of the task.
    :ivar place: the directory for its facts, which is made.
    :ivar first: the segments that are the first ones of their servers, by their names.
    :ivar is_alone: whether there is no other stripe in which anything could go on.
    """

    number: int
    place: str
    sources: tuple[SegmentSource, ...]
    first: frozenset[str]
    period: Period
    is_alone: bool = False


class Reread(Struct, frozen=True):
    """Read a segment again, of which the facts are known."""

    number: int
    source: SegmentSource


class BorderJoin(Struct, frozen=True):
    """Join a part of the sessions at the borders of stripes.

    :ivar place: the directory for their facts, which is made.
    :ivar stripes: the places of all stripes.
    :ivar part: which part, of how many ``parts``.
    """

    number: int
    place: str
    stripes: tuple[str, ...]
    part: int
    parts: int


Task = Stripe | Reread | BorderJoin


class Done(Struct, kw_only=True):
    """How a task went.

    :ivar segments: what each segment is like.
    :ivar extents: of a stripe: the first and the last place of the records of each server.
    :ivar ends: the first and the last record of each segment, by server.
    :ivar loose: how many bytes the next tasks have to read of the borders.
    :ivar torn: of borders: the stripes that have to be folded as one, as indexes. Only journals that were changed or
        copied have some.
    """

    number: int
    segments: list[SegmentFacts] = []
    extents: dict[str, tuple[Place, Place]] = {}
    ends: dict[str, Ends] = {}
    loose: int = 0
    torn: list[set[int]] = []


def divided(journal: Sequence[SegmentSource], size: int) -> list[tuple[SegmentSource, ...]]:
    """The stripes of a journal: at most ``size`` bytes each, but at least one segment."""
    stripes: list[list[SegmentSource]] = []
    room = 0
    for source in journal:
        if not stripes or source.size > room:
            stripes.append([])
            room = size
        stripes[-1].append(source)
        room -= source.size
    return [(*stripe,) for stripe in stripes]


def perform(task: Task, stored: Mapping[str, bytes]) -> Done:
    """Do a task.

    :param stored: the contents of the segments that are given, by URL.
    :raises OSError: if a file cannot be read or written.
    """
    with _without_collection():
        if isinstance(task, Stripe):
            return _fold(task, stored)
        if isinstance(task, Reread):
            found, _ = read_segment(task.source, stored.get(task.source.path))
            return Done(number=task.number, segments=[found])
        return _join(task)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from looking for cycles among millions of objects: there are none, and it takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _fold(task: Stripe, stored: Mapping[str, bytes]) -> Done:
    found: list[SegmentFacts] = []
    left = bounds.ALL_FINDINGS
    segments: list[tuple[str, RecordColumns]] = []
    baselines = {}
    for source in task.sources:
        like, read = read_segment(source, stored.get(source.path), most=left)
        found.append(like)
        left -= 0 if like.judged is None else min(left, len(like.judged.findings))
        if read is not None:
            if source.taken in task.first and read.header is not None:
                server = read.header.server
                baselines[server] = baseline(read.parts, server, source.number)
            segments += by_server(source.number, read)
    folded = fold_stripe(segments, baselines, task.period)
    done = Done(number=task.number, segments=found, extents=folded.extents, ends=folded.ends)
    with _written(Path(task.place)) as place:
        tables = folded.tables
        if task.is_alone:
            closed = border_join.close(folded)
            tables = {name: pa.concat_tables([tables[name], closed[name]]) for name in tables}
        else:
            done.loose = border_join.write(folded, place)
        write_tables(tables, place)
    return done


def _join(task: BorderJoin) -> Done:
    tables, torn = border_join.join([Path(each) for each in task.stripes], task.part, task.parts)
    with _written(Path(task.place)) as place:
        write_tables(tables, place)
    return Done(number=task.number, torn=torn)


@contextmanager
def _written(place: Path) -> Iterator[Path]:
    """A directory that is there as a whole, or not at all. The same task may be done twice at the same time."""
    unfinished = place.with_name(f"{place.name}.{os.urandom(4).hex()}")
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        try:
            unfinished.rename(place)
        except OSError:
            if not place.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
