r"""One journal record: a registry event with its stamp, as one line of JSON. The only codec of records.

::

    {"v":4,"prev":"9f86d0…","seq":7,"time":"2026-11-21T14:02:03.123456Z","mono":81230001,"server":"hall","boot":"5f1c…",
     "outcome":"ok","event":"service.registered","protocol":"objects","session":"5f1c….3","service":"tv"}\n

``v`` is the schema version; records of an older one are read, too (:mod:`bussrv.journal.versions`). ``prev`` is the
hash of the line before (see :mod:`bussrv.journal.chain`), ``seq`` counts from 1 without gaps across segments and
restarts, ``time`` is UTC with microseconds, ``mono`` a monotonic clock in microseconds that starts anew with each boot.
"""

from __future__ import annotations

import calendar
import re
import time as _time
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from bussrv.errors import JournalError
from bussrv.events import AnyEvent, Event, Outcome
from bussrv.journal.chain import START
from bussrv.journal.versions import READ_VERSIONS, SCHEMA_VERSION, of_today

_SECONDS_FORMAT = "%Y-%m-%dT%H:%M:%S"
# Newer versions of Python read 24:00 as the next midnight.
_SECONDS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?!24)[0-9]{2}:[0-9]{2}:[0-9]{2}\.")


class Stamped(Struct, frozen=True):
    """An event and when it happened: UTC and monotonic, both in microseconds."""

    time: int
    mono: int
    event: Event


class Record(Struct, frozen=True):
    """One record of the journal. ``time`` is UTC in microseconds since 1970, ``mono`` in microseconds.

    :ivar prev: the hash of the line before it.
    """

    seq: int
    time: int
    mono: int
    server: str
    boot: str
    event: Event
    prev: str = START


class _Head(Struct):
    prev: str
    seq: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    time: str
    mono: int
    server: str
    boot: str
    outcome: Outcome


HEAD_SIZE = 240
"""About how many bytes of a line are not said by the event, but the same for all."""


class _Version(Struct):
    v: int


_BEGINNINGS = {f'{{"v":{version},'.encode(): version for version in READ_VERSIONS}
_BEGINNING_SIZE = len(f'{{"v":{SCHEMA_VERSION},')

_encoder = msgspec.json.Encoder()
_decode_version = msgspec.json.Decoder(_Version).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_event = msgspec.json.Decoder(AnyEvent).decode


_FIRST_SECOND = calendar.timegm((1000, 1, 1, 0, 0, 0))
_LAST_SECOND = calendar.timegm((9999, 12, 31, 23, 59, 59))


@lru_cache(maxsize=64)
def _seconds_text(seconds: int) -> str:
    # A year of another length could not be read.
    return _time.strftime(_SECONDS_FORMAT, _time.gmtime(min(max(seconds, _FIRST_SECOND), _LAST_SECOND)))


def format_time(micros: int) -> str:
    """UTC microseconds since 1970 as ``2026-11-21T14:02:03.123456Z``, always with a year from 1000 to 9999."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{_seconds_text(seconds)}.{fraction:06d}Z"


@lru_cache(maxsize=64)
def _text_seconds(text: str) -> int | None:
    """The seconds of a time, given its text up to the point; ``None`` if it is not in that form."""
    if _SECONDS.fullmatch(text) is None:
        return None
    # Not strptime(), which takes ten times as long.
    return calendar.timegm(datetime.fromisoformat(text[:-1]).timetuple())


def parse_time(text: str) -> int:
    """The inverse of :func:`format_time`.

    :raises ValueError: if ``text`` is not written in exactly that form.
    """
    seconds, fraction = _text_seconds(text[:20]), text[20:26]
    if seconds is None or text[26:] != "Z" or not (fraction.isdigit() and fraction.isascii()):
        raise ValueError(f"not a time of a journal record: {text!r}")
    return seconds * 1_000_000 + int(fraction)


def encode(record: Record) -> bytes:
    """The line of ``record``, newline included."""
    return line(record, encode_event(record.event))


def encode_event(event: Event) -> bytes:
    """The part of a line that only the event decides.

    :raises ValueError: if a text in it cannot be written as UTF-8.
    :raises TypeError: if its options hold what JSON has no words for.
    """
    return _encoder.encode(event)


def line(record: Record, body: bytes, version: int = SCHEMA_VERSION) -> bytes:
    """The line of ``record``, newline included.

    :param body: what :func:`encode_event` says of its event.
    """
    head = (
        f'{{"v":{version},"prev":"{record.prev}","seq":{record.seq},"time":"{format_time(record.time)}",'
        f'"mono":{record.mono},'
        f'{_origin(record.server, record.boot)},"outcome":"{record.event.OUTCOME}",'
    )
    return head.encode() + body[1:] + b"\n"


def number(
    stamped: Sequence[Stamped], bodies: Sequence[bytes], seq: int, prev: str, server: str, boot: str
) -> tuple[bytes, list[Record], str]:
    """Number events that are written in a row, and chain their lines.

    A busy server does this for every change, so it makes the lines that :func:`line` makes with fewer calls.

    :param bodies: what :func:`encode_event` says of each event.
    :param seq: the number of the first event.
    :param prev: the hash of the line before it.
    :returns: the lines, the records, and the hash of the last line.
    """
    beginning = f'{{"v":{SCHEMA_VERSION},"prev":"'
    middle = f'{_origin(server, boot)},"outcome":"'
    second, second_text = 0, _seconds_text(0)
    records: list[Record] = []
    lines: list[bytes] = []
    for each, body in zip(stamped, bodies, strict=True):
        time, mono, event = each.time, each.mono, each.event
        if not second <= time < second + 1_000_000:
            second = time // 1_000_000 * 1_000_000
            second_text = _seconds_text(second // 1_000_000)
        records.append(Record(seq, time, mono, server, boot, event, prev))
        head = (
            f'{beginning}{prev}","seq":{seq},"time":"{second_text}.{time - second:06d}Z","mono":{mono},'
            f'{middle}{event.OUTCOME}",'
        )
        text = head.encode() + body[1:]
        prev = sha256(text).hexdigest()
        lines.append(text)
        seq += 1
    lines.append(b"")
    return b"\n".join(lines), records, prev


@lru_cache(maxsize=64)
def _origin(server: str, boot: str) -> str:
    return f'"server":{_encoder.encode(server).decode()},"boot":{_encoder.encode(boot).decode()}'


def decode(text: bytes) -> Record:
    """The record that a line holds; the newline at its end may be missing.

    :raises JournalError: if it is not a record of a schema version that this program reads.
    """
    try:
        version = _BEGINNINGS.get(text[:_BEGINNING_SIZE]) or version_of(text)
        head = _decode_head(text)
        event = _decode_event(text)
        moment = parse_time(head.time)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise JournalError(f"not a journal record: {error}") from error
    if version != SCHEMA_VERSION:
        event = of_today(event, version)
    return Record(head.seq, moment, head.mono, head.server, head.boot, event, head.prev)


def rewritten(text: bytes, record: Record, version: int) -> bytes:
    """The line, newline included, that a server of a schema version writes of the record that a line holds.

    :param record: what :func:`decode` says of ``text``.
    :raises ValueError, TypeError: if no server can write it.
    """
    event = record.event if version == SCHEMA_VERSION else _decode_event(text)
    return line(record, _encoder.encode(event), version)


def version_of(text: bytes) -> int:
    """The schema version of a line.

    :raises JournalError: if this program does not read it.
    :raises msgspec.DecodeError: if the line has none.
    """
    version = _decode_version(text).v
    if version not in READ_VERSIONS:
        known = " and ".join(map(str, READ_VERSIONS))
        raise JournalError(f"journal schema version {version}, this program reads versions {known}")
    return version
