"""Intervals of a ranking in few bytes: 8 to 10 a row while the same ones stay busy. Pure.

A block has the intervals of up to a day. Each text stands there once. Numbers stand in columns, in floats of 12 bits
of precision whose first bytes come first, then their second bytes: neighbours are alike, so that they compress well.
Numbers up to 8,192 are exact, others are off by 0.012 % at most.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

MOST_UNPACKED = 4 << 20
"""The most bytes of a block before it is compressed."""

_LEVEL = 6
_KEPT = 0xFFFFF800
_HALF = 0x400
_FLOAT, _WORD, _PLACE = "f", "I", "H"

Numbers = tuple[int, ...]


class Row(NamedTuple):
    """The traffic of one session or service.

    :ivar about: texts that tell who it is. The first one identifies it.
    :ivar objects: numbers of objects, one for each direction. ``bytes``: the same of bytes.
    """

    about: tuple[str, ...]
    objects: Numbers
    bytes: Numbers

    def plus(self, later: Row) -> Row:
        """The traffic of the same one, with more of it."""
        return Row(later.about, _sum(self.objects, later.objects), _sum(self.bytes, later.bytes))


class Interval(NamedTuple):
    """The busiest of an interval.

    :ivar time: its end, UTC microseconds.
    :ivar rows: the busiest first.
    """

    time: int
    seconds: float
    rows: Sequence[Row]

    @property
    def begin(self) -> float:
        """UTC microseconds."""
        return self.time - self.seconds * 1_000_000


class Block(NamedTuple):
    """Some intervals, one after the other.

    :ivar begin: of the first, ``end``: of the last one, UTC microseconds.
    :ivar length: how many.
    :ivar rows: the most rows of one of them.
    """

    begin: float
    end: int
    length: int
    rows: int
    packed: bytes


class _Columns(Struct, array_like=True):
    """A block before it is compressed.

    :ivar abouts: the texts of all rows, each once.
    :ivar counts: how many rows each interval has.
    :ivar places: of the texts of each row in ``abouts``.
    :ivar numbers: a column for each number of a row: those of objects, then those of bytes.
    """

    abouts: list[tuple[str, ...]]
    times: list[int]
    seconds: list[float]
    counts: list[int]
    places: bytes
    numbers: list[bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Columns).decode


def _sum(one: Numbers, other: Numbers) -> Numbers:
    return tuple(map(sum, zip(one, other, strict=True)))


def block_of(intervals: Sequence[Interval]) -> Block:
    """Pack intervals, at least one, in the order of time."""
    rows = [row for each in intervals for row in each.rows]
    places: dict[tuple[str, ...], int] = {}
    for row in rows:
        places.setdefault(row.about, len(places))
    numbers = zip(*((*row.objects, *row.bytes) for row in rows), strict=True)
    columns = _Columns(
        abouts=[*places],
        times=[each.time for each in intervals],
        seconds=[each.seconds for each in intervals],
        counts=[len(each.rows) for each in intervals],
        places=_planes(array(_PLACE, [places[row.about] for row in rows])),
        numbers=[_planes(_rounded(column)) for column in numbers],
    )
    packed = zlib.compress(_encode(columns), _LEVEL)
    return Block(intervals[0].begin, intervals[-1].time, len(intervals), max(columns.counts), packed)


def intervals_of(block: Block) -> list[Interval]:
    """The intervals of a block. :raises ValueError: it is not well-formed."""
    try:
        columns = _decode(zlib.decompressobj().decompress(block.packed, MOST_UNPACKED))
        places = _of_planes(_PLACE, columns.places)
        numbers = [[round(each) for each in _of_planes(_FLOAT, column)] for column in columns.numbers]
    except (zlib.error, msgspec.MsgspecError, OverflowError) as error:
        raise ValueError(str(error)) from error
    if not columns.counts or min(columns.counts) < 0:
        raise ValueError("there is no interval")
    if len(columns.numbers) % 2 or any(len(each) != len(places) for each in numbers):
        raise ValueError("columns differ in length")
    if max(places, default=-1) >= len(columns.abouts) or sum(columns.counts) != len(places):
        raise ValueError("rows are missing")
    half = len(numbers) // 2
    rows = (
        Row(columns.abouts[place], values[:half], values[half:])
        for place, values in zip(places, zip(*numbers, strict=True), strict=True)
    )
    return [
        Interval(time, seconds, [next(rows) for _ in range(count)])
        for time, seconds, count in zip(columns.times, columns.seconds, columns.counts, strict=True)
    ]


def _rounded(values: Iterable[int]) -> array[Any]:
    words = array(_WORD, array(_FLOAT, values).tobytes())
    return array(_WORD, [(each + _HALF) & _KEPT for each in words])


def _planes(values: array[Any]) -> bytes:
    """The first bytes of all numbers, then the second ones, and so on."""
    if sys.byteorder == "little":
        values.byteswap()
    data = values.tobytes()
    return b"".join(data[at :: values.itemsize] for at in range(values.itemsize))


def _of_planes(kind: str, planes: bytes) -> array[Any]:
    """:raises ValueError: the last number is cut off."""
    values: array[Any] = array(kind)
    size = values.itemsize
    data = bytearray(len(planes))
    for at in range(size):
        data[at::size] = planes[at * len(planes) // size : (at + 1) * len(planes) // size]
    values.frombytes(bytes(data))
    if sys.byteorder == "little":
        values.byteswap()
    return values
