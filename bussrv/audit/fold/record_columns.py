"""Records of one server, in order, and columns of them: numbers, with which many records are compared at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from bussrv.audit.fold.lines import LINES, Flags, FoldLine, Numbers, SegmentContent

KINDS = {event: number for number, event in enumerate(LINES)}
"""The kinds of records as numbers, by event."""

_KIND_OF = {kind: KINDS[event] for event, kind in LINES.items()}


class RecordColumns(Struct):
    """Records of one server, in order.

    :ivar moments, seqs: those of :class:`bussrv.audit.fold.lines.SegmentContent`.
    :ivar monos: their monotonic clocks in microseconds.
    :ivar boots: their boots, in order, and how many records in a row each one has.
    :ivar segments: the number of the segment of each.
    :ivar kinds: numbers of ``KINDS``.
    """

    records: list[FoldLine]
    moments: Numbers
    seqs: Numbers
    monos: Numbers
    boots: list[tuple[str, int]]
    segments: Numbers
    kinds: Numbers
    sessions: pa.Array
    services: pa.Array
    protocols: pa.Array

    def chosen(self, places: Numbers) -> RecordColumns:
        """Some of the records, in another order maybe."""
        records, indexes = [self.records[place] for place in places.tolist()], pa.array(places)
        return RecordColumns(
            records,
            self.moments[places],
            self.seqs[places],
            self.monos[places],
            _boots_of(records),
            self.segments[places],
            self.kinds[places],
            self.sessions.take(indexes),
            self.services.take(indexes),
            self.protocols.take(indexes),
        )


def columns_of(records: list[FoldLine], moments: Numbers, seqs: Numbers, segment: int) -> RecordColumns:
    """Records of one segment.

    To be made at once: later, most records are not in the cache of the processor any more.
    """
    return RecordColumns(
        records,
        moments,
        seqs,
        np.fromiter([record.mono for record in records], np.int64, len(records)),
        _boots_of(records),
        np.full(len(records), segment, dtype=np.int64),
        np.fromiter(map(_KIND_OF.__getitem__, map(type, records)), np.int8, len(records)),
        pa.array([record.session for record in records], pa.string()),
        pa.array([record.service for record in records], pa.string()),
        pa.array([record.protocol for record in records], pa.string()),
    )


def by_server(number: int, read: SegmentContent) -> list[tuple[str, RecordColumns]]:
    """The records of each server in a segment."""
    columns = columns_of(read.records, read.moments, read.seqs, number)
    if read.is_sound:
        return [] if read.header is None else [(read.header.server, columns)]
    places: dict[str, list[int]] = {}
    for place, record in enumerate(read.records):
        places.setdefault(record.server, []).append(place)
    return [(server, columns.chosen(np.array(some))) for server, some in places.items()]


def _boots_of(records: Sequence[FoldLine]) -> list[tuple[str, int]]:
    boots = [record.boot for record in records]
    if boots and boots.count(boots[0]) == len(boots):
        return [(boots[0], len(boots))]
    return [(boot, sum(1 for _ in some)) for boot, some in groupby(boots)]


def in_order_of_places(some: Sequence[RecordColumns]) -> RecordColumns:
    """The records of a server, in order, however they stood in segments."""
    joined = RecordColumns(
        [record for each in some for record in each.records],
        np.concatenate([each.moments for each in some]),
        np.concatenate([each.seqs for each in some]),
        np.concatenate([each.monos for each in some]),
        [boot for each in some for boot in each.boots],
        np.concatenate([each.segments for each in some]),
        np.concatenate([each.kinds for each in some]),
        pa.concat_arrays([each.sessions for each in some]),
        pa.concat_arrays([each.services for each in some]),
        pa.concat_arrays([each.protocols for each in some]),
    )
    if (np.diff(joined.seqs) > 0).all():
        return joined
    return joined.chosen(np.lexsort((joined.monos, joined.moments, joined.seqs)))


class Coded(NamedTuple):
    """Texts as numbers.

    :ivar codes: of each its place in ``texts``; -1 instead of ``None``.
    :ivar texts: the different ones.
    """

    codes: Numbers
    texts: pa.Array

    def code(self, text: str) -> int | None:
        """The code of a text; ``None`` if it is none of these."""
        place = self.texts.index(text).as_py()
        return None if place < 0 else place

    def in_order(self) -> Coded:
        """The same with texts in their order."""
        order = pc.sort_indices(self.texts)
        ranks = np.full(len(order) + 1, -1)
        ranks[order.to_numpy()] = np.arange(len(order))
        return Coded(ranks[self.codes], self.texts.take(order))

    def texts_of(self, codes: Numbers) -> pa.Array:
        """The texts that codes stand for."""
        return self.texts.take(pa.array(codes, mask=codes < 0))


def coded(texts: pa.Array) -> Coded:
    """Texts as numbers, in the order in which they come first."""
    found = texts.dictionary_encode()
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Coded(codes.astype(np.int64), found.dictionary)


def among(events: Iterable[str]) -> Flags:
    """Whether an event is one of some, by the number of ``KINDS``."""
    chosen = frozenset(events)
    return np.array([event in chosen for event in KINDS])
