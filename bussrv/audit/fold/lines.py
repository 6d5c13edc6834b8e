"""The lines of a segment as typed records. A sound segment is decoded as a whole, any other one line by line.

The fast way accepts only what :class:`bussrv.journal.evidence.lines.LineJudge` accepts, and the order of a sound
segment. What is wrong with any other segment, the judge says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from inspect import Parameter, signature
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from bussrv.errors import JournalError
from bussrv.events import EVENT_CLASSES, Outcome, event_name
from bussrv.journal.evidence.lines import decode_record, decode_snapshot
from bussrv.journal.header import Header, Part, decode_header
from bussrv.journal.reading import MAX_LINE
from bussrv.journal.versions import FIRST_WITH_CLAIMS, PROVING, READ_VERSIONS
from bussrv.values import Interest

Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Numbers = NDArray[np.int64]


class Line(Struct, kw_only=True, gc=False, omit_defaults=True):
    """A record: the stamp, and the fields of all events."""

    v: int
    prev: str
    seq: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    time: str
    mono: Integer
    server: str
    boot: str
    outcome: Outcome
    event: str
    protocol: str | None = None
    session: str | None = None
    routing_id: str | None = None
    actor: str | None = None
    claimed: str | None = None
    peer: str | None = None
    service: str | None = None
    reason: str | None = None
    suppressed: Integer | None = None
    version: str | None = None
    formats: dict[str, str] | None = None
    sessions_closed: Integer | None = None
    torn_bytes: Integer | None = None
    persistent: bool | None = None
    home: str | None = None
    routing_ids: tuple[str, ...] | None = None
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None
    duration: Integer | None = None
    objects_in: Integer | None = None
    objects_out: Integer | None = None
    bytes_in: Integer | None = None
    bytes_out: Integer | None = None
    interest: Interest | None = None
    options: dict[str, Any] | None = None
    method: str | None = None
    action: str | None = None
    target: str | None = None
    rule: str | None = None
    limit: str | None = None
    value: Integer | None = None
    changed: tuple[str, ...] | None = None
    message: str | None = None
    refused: Integer | None = None
    segment: Integer | None = None
    line: Integer | None = None
    last_seq: Integer | None = None
    bytes: Integer | None = None
    digest: str | None = None


_ABOUT_SESSIONS = ("session.opened", "session.identified", "session.closed")
_ABOUT_SERVICES = ("service.registered", "service.unregistered")


def _required() -> dict[str, tuple[str, ...]]:
    """The fields that records of each event must have, beside the stamp."""
    found = {}
    for event in EVENT_CLASSES:
        name, parameters = event_name(event), signature(event).parameters
        wanted = [each for each in event.__struct_fields__ if parameters[each].default is Parameter.empty]
        wanted += ["session"] if name in (*_ABOUT_SESSIONS, *_ABOUT_SERVICES) else []
        wanted += ["service"] if name in _ABOUT_SERVICES else []
        found[name] = (*wanted,)
    return found


REQUIRED = _required()

_lines = msgspec.json.Decoder(Line).decode_lines
_line = msgspec.json.Decoder(Line).decode

# 2026-11-21T14:02:03.123456Z
_TIME = 27
_PUNCTUATION = {4: b"-", 7: b"-", 10: b"T", 13: b":", 16: b":", 19: b".", 26: b"Z"}
_DIGITS = [at for at in range(_TIME) if at not in _PUNCTUATION]


class Read(Struct):
    """The content of a segment, as far as it can be read.

    :ivar header: its header, if that is its own and its first line.
    :ivar parts: of its snapshot.
    :ivar records: its records in the order of lines, ``actor`` and ``claimed`` as they are meant today.
    :ivar moments: their times, UTC microseconds since 1970.
    :ivar is_sound: whether every line is what it should be, the chain holds, and no number is missing or repeated.
    """

    header: Header | None
    parts: list[Part]
    records: list[Line]
    moments: Any
    is_sound: bool


def read_lines(content: bytes, number: int, *, is_chained: bool) -> Read:
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
    records, moments = sound or _each(content)
    for record in records:
        if record.v < FIRST_WITH_CLAIMS:
            _of_today(record)
    return Read(header, parts, records, moments, sound is not None)


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


def _sound(content: bytes, begin: int, header: Header, *, is_chained: bool) -> tuple[list[Line], Numbers] | None:
    """The records of a segment in which nothing is wrong; ``None`` if anything is."""
    text = content[begin:]
    try:
        records = _lines(text)
        moments = _moments(records)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # Blank lines are no records. Of two events in a line, this decoder takes the last one, and the judge none.
    if len(records) != text.count(b"\n") or len(records) < text.count(b'"event"') or not content.endswith(b"\n"):
        return None
    seqs = [record.seq for record in records]
    if seqs != list(range(header.segment, header.segment + len(records))):
        return None
    if not all(_is_whole(record) and record.server == header.server for record in records):
        return None
    return (records, moments) if is_chained or _holds(content, records, begin) else None


def _is_whole(record: Line) -> bool:
    """Whether a record is of a known version and event, and has all that it needs."""
    required = REQUIRED.get(record.event)
    if required is None or record.v not in READ_VERSIONS:
        return False
    return all(getattr(record, name) is not None for name in required)


def _holds(content: bytes, records: Sequence[Line], begin: int) -> bool:
    head = content[:begin].split(b"\n")[:-1]
    lines = content[begin:].split(b"\n")[:-1]
    if any(len(line) >= MAX_LINE - 1 for line in lines):
        return False
    for before, part in pairwise(head):
        if decode_snapshot(part).prev != sha256(before).hexdigest():
            return False
    hashes = [sha256(line).hexdigest() for line in (head[-1], *lines[:-1])]
    return [record.prev for record in records] == hashes[: len(records)]


def _each(content: bytes) -> tuple[list[Line], Numbers]:
    """The lines that are records, whatever stands between them."""
    found, moments = [], []
    for record, moment in _decoded(content):
        found.append(record)
        moments.append(moment)
    return found, np.array(moments, dtype=np.int64)


def _parts(content: bytes, number: int) -> Iterator[Part]:
    """The parts of the snapshot, wherever they are."""
    for text in content.split(b"\n")[:-1]:
        if b'"snapshot"' in text:
            with suppress(JournalError):
                part = decode_snapshot(text)
                if part.snapshot == number:
                    yield part


def _decoded(content: bytes) -> Iterator[tuple[Line, int]]:
    for text in content.split(b"\n")[:-1]:
        if len(text) >= MAX_LINE - 1:
            continue
        with suppress(JournalError, msgspec.DecodeError, RecursionError):
            judged = decode_record(text)
            record = _line(text)
            if _is_whole(record):
                yield record, judged.time


def _moments(records: Sequence[Line]) -> Numbers:
    """The times of records, UTC microseconds since 1970.

    :raises ValueError: if one is not written as a server writes it.
    """
    text = "".join([record.time for record in records]).encode("ascii")
    if len(text) != _TIME * len(records) or not all(len(record.time) == _TIME for record in records):
        raise ValueError("a time of another length")
    if not records:
        return np.empty(0, dtype=np.int64)
    table = np.frombuffer(text, dtype=np.uint8).reshape(-1, _TIME)
    digits = table[:, _DIGITS]
    if digits.min() < ord("0") or digits.max() > ord("9"):
        raise ValueError("a time without digits")
    if not all((table[:, at] == ord(mark)).all() for at, mark in _PUNCTUATION.items()):
        raise ValueError("a time with other punctuation")
    texts = np.frombuffer(text, dtype=f"S{_TIME}")
    return texts.astype("S26").astype("M8[us]").astype(np.int64)


def _of_today(record: Line) -> None:
    """``actor`` and ``claimed`` as today's schema version has them; see :mod:`bussrv.journal.versions`."""
    if record.protocol == PROVING and record.event != "auth.failed":
        record.claimed = None
    else:
        record.actor, record.claimed = None, record.actor
