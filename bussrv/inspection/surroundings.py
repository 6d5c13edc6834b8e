"""The lines of a journal around a place, also where it is damaged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from bussrv.errors import JournalError
from bussrv.journal.bounded import lines_in
from bussrv.journal.moments import parse_instant
from bussrv.journal.reading import read_header, segments
from bussrv.journal.record import Record, decode, format_time
from bussrv.journal.segment import COMPRESSED_SUFFIX, CORRUPT, SUFFIX, first_seq, open_segment


class LinePlace(NamedTuple):
    """A record by its number, a line of a segment, or the first record at a time or after it.

    :ivar number: of the record, or of the line in ``file``, from 1.
    :ivar file: the name of the segment.
    :ivar time: UTC microseconds since 1970.
    """

    number: int = 0
    file: str | None = None
    time: int | None = None


class Found(NamedTuple):
    """A line of a journal.

    :ivar record: the record; ``None``: the line is not a record.
    """

    file: str
    line: int
    text: bytes
    record: Record | None


def parse_place(text: str) -> LinePlace:
    """The place of the text ``SEQ``, ``TIME`` or ``FILE:LINE``.

    :raises ValueError: the text is malformed.
    """
    if text.endswith("Z"):
        return LinePlace(time=parse_instant(text))
    file, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdecimal() and len(number) < 20):
        raise ValueError(f"{text!r} is neither the number of a record, nor a time, nor FILE:LINE")
    return LinePlace(int(number), file or None)


def around(directory: Path, place: LinePlace, count: int) -> list[Found]:
    """The lines around a place: about as many before it as after it. Headers and snapshots are left out.

    Nothing is verified, and lines that are not records are among them.

    :param count: the number of lines.
    :raises JournalError: if the directory cannot be read, holds no journal, no such segment, or nothing at the place.
    """
    lines = chain.from_iterable(map(_lines, _paths(directory, place, count)))
    before: deque[Found] = deque(maxlen=count // 2)
    last = 0
    for each in lines:
        if _is_there(each, place):
            return [*before, each, *islice(lines, count - len(before) - 1)] if count else []
        before.append(each)
        last = each.record.seq if each.record is not None else last
    raise JournalError(f"{directory} has no {_named(place)}" + (f"; the last record is {last}" if last else ""))


def _named(place: LinePlace) -> str:
    if place.file is not None:
        return f"line {place.number} in {place.file}"
    if place.time is not None:
        return f"record at {format_time(place.time)} or later"
    return f"record {place.number} or a later one"


def _paths(directory: Path, place: LinePlace, count: int) -> Sequence[Path]:
    """The segment of the place, the next one, and the one before it if it is needed."""
    paths = segments(directory)
    if place.time is not None:
        at = next((at for at in range(len(paths) - 1, 0, -1) if read_header(paths[at]).time <= place.time), 0)
        return paths[max(0, at - 1) : at + 2]
    if place.file is None:
        at = max((at for at, path in enumerate(paths) if first_seq(path) <= place.number), default=0)
        return paths[max(0, at - 1) if place.number - first_seq(paths[at]) < count else at : at + 2]
    for at, path in enumerate(paths):
        if _plain(path.name) == _plain(place.file):
            return paths[at : at + 2]
    raise JournalError(f"{directory} has no segment {place.file}")


def _plain(name: str) -> str:
    """The name of a segment before it is compressed."""
    return name.removesuffix(COMPRESSED_SUFFIX).removesuffix(SUFFIX)


def _is_there(found: Found, place: LinePlace) -> bool:
    if place.file is None:
        record = found.record
        return record is not None and (record.seq >= place.number if place.time is None else record.time >= place.time)
    return _plain(found.file) == _plain(place.file) and found.line >= place.number


def _lines(path: Path) -> Iterator[Found]:
    try:
        with open_segment(path) as file:
            for number, text in enumerate(lines_in(file), 1):
                record = _record(text)
                if record is not None or not _is_head(text):
                    yield Found(path.name, number, text, record)
    except (OSError, *CORRUPT) as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def _record(text: bytes) -> Record | None:
    try:
        return decode(text)
    except JournalError:
        return None


def _is_head(text: bytes) -> bool:
    """Whether it is a header, or a part of a snapshot: they have no number."""
    try:
        members = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(members, dict) and {"segment", "snapshot"} & members.keys() != set() and "seq" not in members
