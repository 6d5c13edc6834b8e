"""Records of one server, in order, and columns of them: numbers, with which many records are compared at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from bussrv.audit.fold.lines import LINES, Flags, Line, Numbers, Read

KINDS = {event: number for number, event in enumerate(LINES)}
"""The kinds of records as numbers, by event."""

_KIND_OF = {kind: KINDS[event] for event, kind in LINES.items()}


class Columns(NamedTuple):
    """Columns of successive records.

    :ivar kinds: numbers of ``KINDS``.
    """

    kinds: Numbers
    sessions: pa.Array
    services: pa.Array
    protocols: pa.Array

    def chosen(self, places: Numbers) -> Columns:
        """Those of some of the records, in another order maybe."""
        indexes = pa.array(places)
        return Columns(self.kinds[places], *(each.take(indexes) for each in self[1:]))


class Stretch(Struct):
    """Records of one server, in order.

    :ivar moments, seqs: those of :class:`bussrv.audit.fold.lines.Read`.
    :ivar monos: their monotonic clocks in microseconds.
    :ivar boots: their boots, in order, and how many records in a row each one has.
    :ivar segments: the number of the segment of each.
    """

    records: list[Line]
    moments: Numbers
    seqs: Numbers
    monos: Numbers
    boots: list[tuple[str, int]]
    segments: Numbers
    columns: Columns

    def chosen(self, places: Numbers) -> Stretch:
        """Some of the records, in another order maybe."""
        records = [self.records[place] for place in places.tolist()]
        moments, seqs, monos, segments = (each[places] for each in (self.moments, self.seqs, self.monos, self.segments))
        return Stretch(records, moments, seqs, monos, _boots_of(records), segments, self.columns.chosen(places))


def stretch_of(records: list[Line], moments: Numbers, seqs: Numbers, segment: int) -> Stretch:
    """Records of one segment.

    To be made at once: later, most records are not in the cache of the processor any more.
    """
    monos = np.fromiter([record.mono for record in records], np.int64, len(records))
    segments = np.full(len(records), segment, dtype=np.int64)
    return Stretch(records, moments, seqs, monos, _boots_of(records), segments, _columns_of(records))


def by_server(number: int, read: Read) -> list[tuple[str, Stretch]]:
    """The records of each server in a segment."""
    stretch = stretch_of(read.records, read.moments, read.seqs, number)
    if read.is_sound:
        return [] if read.header is None else [(read.header.server, stretch)]
    places: dict[str, list[int]] = {}
    for place, record in enumerate(read.records):
        places.setdefault(record.server, []).append(place)
    return [(server, stretch.chosen(np.array(some))) for server, some in places.items()]


def _boots_of(records: Sequence[Line]) -> list[tuple[str, int]]:
    boots = [record.boot for record in records]
    if boots and boots.count(boots[0]) == len(boots):
        return [(boots[0], len(boots))]
    return [(boot, sum(1 for _ in some)) for boot, some in groupby(boots)]


def _columns_of(records: Sequence[Line]) -> Columns:
    return Columns(
        np.fromiter(map(_KIND_OF.__getitem__, map(type, records)), np.int8, len(records)),
        pa.array([record.session for record in records], pa.string()),
        pa.array([record.service for record in records], pa.string()),
        pa.array([record.protocol for record in records], pa.string()),
    )


def in_order_of_places(some: Sequence[Stretch]) -> Stretch:
    """The records of a server, in order, however they stood in segments."""
    kinds, *texts = zip(*(stretch.columns for stretch in some), strict=True)
    joined = Stretch(
        [record for stretch in some for record in stretch.records],
        np.concatenate([stretch.moments for stretch in some]),
        np.concatenate([stretch.seqs for stretch in some]),
        np.concatenate([stretch.monos for stretch in some]),
        [each for stretch in some for each in stretch.boots],
        np.concatenate([stretch.segments for stretch in some]),
        Columns(np.concatenate(kinds), *map(pa.concat_arrays, texts)),
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
