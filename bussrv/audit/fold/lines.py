"""The lines of a segment as typed records. A sound segment is decoded as a whole, any other one line by line.

The fast way accepts only what :class:`bussrv.journal.evidence.lines.LineJudge` accepts, and the order of a sound
segment. What is wrong with any other segment, the judge says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import reduce
from hashlib import sha256
from io import BytesIO
from itertools import pairwise
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from bussrv.errors import JournalError
from bussrv.events import EVENT_CLASSES, Event, Outcome, event_name
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.evidence.lines import decode_record, decode_snapshot
from bussrv.journal.header import Header, Part, decode_header
from bussrv.journal.versions import FIRST_WITH_CLAIMS, PROVING
from bussrv.values import InEffect, Interest

Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NEWLINE = ord("\n")
_BLOCK = 1 << 18
"""So many bytes are looked at at once: they stay in the cache of the processor."""

_SHORTEST = 100
"""No record has fewer bytes: the names of its members and its time take more."""


class FoldLine(Struct, kw_only=True, gc=False, omit_defaults=True, tag_field="event"):
    """A record: the stamp, the fields of all events, and ``None`` for those of other events.

    Each event has a class of its own, with its fields. So the decoder says of most lines what the judge would say.
    """

    event: ClassVar[str]

    v: Literal[2, 3, 4]
    prev: str
    seq: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    time: str
    mono: Integer
    server: str
    boot: str
    outcome: Outcome
    protocol: str | None = None
    session: str | None = None
    routing_id: str | None = None
    actor: str | None = None
    claimed: str | None = None
    peer: str | None = None
    service: str | None = None
    reason: str | None = None
    suppressed: Integer | None = None

    version: ClassVar[str | None] = None
    formats: ClassVar[dict[str, str] | None] = None
    in_effect: ClassVar[InEffect | None] = None
    sessions_closed: ClassVar[int | None] = None
    torn_bytes: ClassVar[int | None] = None
    persistent: ClassVar[bool | None] = None
    expiry: ClassVar[int | None] = None
    until: ClassVar[int | None] = None
    home: ClassVar[str | None] = None
    routing_ids: ClassVar[tuple[str, ...] | None] = None
    name: ClassVar[str | None] = None
    role: ClassVar[str | None] = None
    vocabulary: ClassVar[str | None] = None
    duration: ClassVar[int | None] = None
    objects_in: ClassVar[int | None] = None
    objects_out: ClassVar[int | None] = None
    bytes_in: ClassVar[int | None] = None
    bytes_out: ClassVar[int | None] = None
    interest: ClassVar[Interest | None] = None
    options: ClassVar[dict[str, Any] | None] = None
    pattern: ClassVar[bool | None] = None
    method: ClassVar[str | None] = None
    action: ClassVar[str | None] = None
    target: ClassVar[str | None] = None
    rule: ClassVar[str | None] = None
    count: ClassVar[int | None] = None
    limit: ClassVar[str | None] = None
    value: ClassVar[int | None] = None
    origin: ClassVar[str | None] = None
    lost: ClassVar[int | None] = None
    ahead: ClassVar[int | None] = None
    doubt: ClassVar[int | None] = None
    changed: ClassVar[tuple[str, ...] | None] = None
    message: ClassVar[str | None] = None
    refused: ClassVar[int | None] = None
    segment: ClassVar[int | None] = None
    line: ClassVar[int | None] = None
    last_seq: ClassVar[int | None] = None
    bytes: ClassVar[int | None] = None
    digest: ClassVar[str | None] = None
    incident: ClassVar[str | None] = None
    kind: ClassVar[str | None] = None
    since: ClassVar[int | None] = None
    note: ClassVar[str | None] = None
    witness: ClassVar[str | None] = None
    size: ClassVar[int | None] = None


_ABOUT_SESSIONS = ("session.opened", "session.identified", "session.left", "session.resumed", "session.closed")
_ABOUT_SERVICES = ("service.registered", "service.unregistered")

_SMALL = {int: Integer, int | None: Integer | None}
"""The types of fields that are narrower here than in events: numbers that a column of a table can have."""


def _line_class(event: type[Event]) -> type[FoldLine]:
    """The class of records of an event."""
    name = event_name(event)
    fields: list[Any] = []
    for each in msgspec.structs.fields(event):
        kind = _SMALL.get(each.type, each.type)
        if each.name not in FoldLine.__struct_fields__:
            fields.append((each.name, kind) if each.required else (each.name, kind | None, None))
    fields += [("session", str)] if name in (*_ABOUT_SESSIONS, *_ABOUT_SERVICES) else []
    fields += [("service", str)] if name in _ABOUT_SERVICES else []
    found = msgspec.defstruct(
        event.__name__, fields, bases=(FoldLine,), namespace={"event": name}, module=__name__,
        tag=name, tag_field="event", kw_only=True, gc=False, omit_defaults=True,
    )  # fmt: skip
    assert issubclass(found, FoldLine)
    return found


LINES = {event_name(each): _line_class(each) for each in EVENT_CLASSES}
"""The classes of records, by event."""

if TYPE_CHECKING:
    AnyLine = FoldLine
else:
    AnyLine = reduce(or_, LINES.values())

_lines = msgspec.json.Decoder(AnyLine).decode_lines
decode_line = msgspec.json.Decoder(AnyLine).decode
"""The record that a line holds. It raises ``msgspec.DecodeError`` if it is none."""

# 2026-11-21T14:02:03.123456Z
_TIME = 27
_PUNCTUATION = {4: b"-", 7: b"-", 10: b"T", 13: b":", 16: b":", 19: b".", 26: b"Z", 27: b"\n"}
_DIGITS = [at for at in range(_TIME) if at not in _PUNCTUATION]


_Records = tuple[list[FoldLine], Numbers, Numbers]
"""Records, their times and their numbers."""


class SegmentContent(Struct):
    """The content of a segment, as far as it can be read.

    :ivar header: its header, if that is its own and its first line.
    :ivar parts: of its snapshot.
    :ivar records: its records in the order of lines, ``actor`` and ``claimed`` as they are meant today.
    :ivar moments: their times, UTC microseconds since 1970.
    :ivar seqs: their numbers.
    :ivar is_sound: whether every line is what it should be, the chain holds, and no number is missing or repeated.
    """

    header: Header | None
    parts: list[Part]
    records: list[FoldLine]
    moments: Any
    seqs: Any
    is_sound: bool


def read_lines(content: bytes, number: int, *, is_chained: bool) -> SegmentContent:
    """Read the lines of a segment.

    :param content: all of it, uncompressed, without an unfinished line at the end.
    :param number: the number in its name.
    :param is_chained: whether its chain is known to hold, by its closing seal or by the judge of lines.
    """
    header, parts, begin = _head(content, number)
    sound = None
    if header is not None and len(parts) == header.parts:
        sound = _sound(content, begin, header, is_chained=is_chained)
    if sound is None:
        parts = [*_parts(content, number)]
    records, moments, seqs = sound or _each(content)
    for record in records:
        if record.v < FIRST_WITH_CLAIMS:
            of_today(record)
    return SegmentContent(header, parts, records, moments, seqs, sound is not None)


def header_of(text: bytes, number: int) -> Header | None:
    """The header that a line holds, if it is that of segment ``number``."""
    try:
        header = decode_header(text)
    except JournalError:
        return None
    return header if header.segment == number else None


def _head(content: bytes, number: int) -> tuple[Header | None, list[Part], int]:
    """The header, the parts of the snapshot after it, and where the records begin."""
    begin = content.find(b"\n") + 1
    header = header_of(content[:begin], number)
    parts: list[Part] = []
    with suppress(JournalError):
        while header is not None and len(parts) < header.parts:
            end = content.find(b"\n", begin) + 1
            part = decode_snapshot(content[begin:end])
            if (part.part, part.snapshot) != (len(parts) + 1, number):
                break
            parts.append(part)
            begin = end
    return header, parts, begin


def _sound(content: bytes, begin: int, header: Header, *, is_chained: bool) -> _Records | None:
    """The records of a segment in which nothing is wrong; ``None`` if anything is."""
    text = memoryview(content)[begin:]
    try:
        records = _lines(text)
        moments = _moments(records)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # Blank lines are no records.
    if len(records) != _count_lines(text) or not content.endswith(b"\n"):
        return None
    seqs = _seqs(records)
    if not np.array_equal(seqs, np.arange(header.segment, header.segment + len(records))):
        return None
    if not {record.server for record in records} <= {header.server}:
        return None
    return (records, moments, seqs) if is_chained or _holds(content, records, begin) else None


def _count_lines(text: memoryview) -> int:
    some = np.frombuffer(text, dtype=np.uint8)
    return sum(int(np.count_nonzero(some[at : at + _BLOCK] == _NEWLINE)) for at in range(0, some.size, _BLOCK))


def _holds(content: bytes, records: Sequence[FoldLine], begin: int) -> bool:
    head = content[:begin].split(b"\n")[:-1]
    lines = content[begin:].split(b"\n")[:-1]
    if any(len(line) >= MAX_LINE - 1 for line in lines):
        return False
    for before, part in pairwise(head):
        if decode_snapshot(part).prev != sha256(before).hexdigest():
            return False
    hashes = [sha256(line).hexdigest() for line in (head[-1], *lines[:-1])]
    return [record.prev for record in records] == hashes[: len(records)]


def _each(content: bytes) -> _Records:
    """The lines that are records, whatever stands between them."""
    found, moments = [], []
    for text in _whole_lines(content):
        if _SHORTEST <= len(text) < MAX_LINE - 1:
            with suppress(JournalError, msgspec.DecodeError, RecursionError):
                moment = decode_record(text).time
                found.append(decode_line(text))
                moments.append(moment)
    return found, np.array(moments, dtype=np.int64), _seqs(found)


def _seqs(records: Sequence[FoldLine]) -> Numbers:
    return np.fromiter([record.seq for record in records], np.int64, len(records))


def _whole_lines(content: bytes) -> Iterator[bytes]:
    """The lines that have an end, without it: one after the other, since there may be millions."""
    return (line[:-1] for line in BytesIO(content) if line.endswith(b"\n"))


def _parts(content: bytes, number: int) -> Iterator[Part]:
    """The parts of the snapshot, wherever they are."""
    for text in _whole_lines(content):
        if b'"snapshot"' in text:
            with suppress(JournalError):
                part = decode_snapshot(text)
                if part.snapshot == number:
                    yield part


def _moments(records: Sequence[FoldLine]) -> Numbers:
    """The times of records, UTC microseconds since 1970.

    :raises ValueError: if one is not written as a server writes it.
    """
    # With newlines between them, which no time may have, no time can be longer if another one is shorter.
    text = "\n".join([*[record.time for record in records], ""]).encode("ascii")
    if len(text) != (_TIME + 1) * len(records):
        raise ValueError("a time of another length")
    if not records:
        return np.empty(0, dtype=np.int64)
    table = np.frombuffer(text, dtype=np.uint8).reshape(-1, _TIME + 1)
    digits = table[:, _DIGITS]
    if digits.min() < ord("0") or digits.max() > ord("9"):
        raise ValueError("a time without digits")
    if not all((table[:, at] == ord(mark)).all() for at, mark in _PUNCTUATION.items()):
        raise ValueError("a time with other punctuation")
    texts = np.frombuffer(text, dtype=f"S{_TIME + 1}")
    return texts.astype("S26").astype("M8[us]").astype(np.int64)


def of_today(record: FoldLine) -> None:
    """Give a record of an older schema version ``actor`` and ``claimed`` as today's version has them; see
    :mod:`bussrv.journal.versions`.
    """
    if record.protocol == PROVING and record.event != "auth.failed":
        record.claimed = None
    else:
        record.actor, record.claimed = None, record.actor
