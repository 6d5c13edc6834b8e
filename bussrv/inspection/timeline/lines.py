"""Lines of a segment, of which only the members are decoded that say whether they matter. Nothing is verified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import Struct

from bussrv.incidents.vocabulary import address_of
from bussrv.journal.record import Record, encode

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_TIME_SIZE = len("2026-11-21T14:02:03.123456Z")
_SECOND_SIZE = len("2026-11-21T14:02:03")
_BAD = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class Line(Struct, gc=False):
    """The members of a line that say whether it matters."""

    v: int = 0
    event: str = ""
    server: str = ""
    boot: str = ""
    seq: int = 0
    time: str = ""
    mono: int = 0
    session: str | None = None
    service: str | None = None
    routing_id: str | None = None
    reason: str | None = None
    actor: str | None = None
    claimed: str | None = None
    peer: str | None = None


class NamedLine(Line, gc=False):
    """The same, with all names of a client."""

    name: str | None = None
    routing_ids: tuple[str, ...] = ()

    def names(self) -> set[str | None]:
        """Every name of the client that it is about, and its address."""
        return {
            *(self.session, self.routing_id, self.actor, self.claimed, self.peer, address_of(self.peer), self.name),
            *self.routing_ids,
        }


Kind = TypeVar("Kind", bound=Line)


def read_lines(content: bytes, kind: type[Kind], count: int) -> list[Kind]:
    """The lines of a segment up to its last newline. For one that is no object of JSON there is a line without event.

    :param kind: the class of lines to decode.
    :param count: how many newlines there are.
    """
    whole = memoryview(content)[: content.rfind(b"\n") + 1]
    decoder = msgspec.json.Decoder(kind)
    try:
        lines = decoder.decode_lines(whole)
    except _BAD:
        lines = []
    # Blank lines are left out.
    if len(lines) != count:
        return [read_line(text, kind) or kind() for text in bytes(whole).split(b"\n")[:-1]]
    return lines


def read_line(text: bytes, kind: type[Kind]) -> Kind | None:
    """One line; ``None``: it is no object of JSON."""
    try:
        return msgspec.json.decode(text, type=kind)
    except _BAD:
        return None


def line_of(record: Record) -> NamedLine:
    """A record as a line."""
    return msgspec.json.decode(encode(record), type=NamedLine)


def lines_with(content: bytes, needles: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that have one of some texts in them, each once or more often."""
    for needle in needles:
        at = content.find(needle)
        while at >= 0:
            end = content.find(b"\n", at) + 1
            if not end:
                break
            yield content[content.rfind(b"\n", 0, at) + 1 : end]
            at = content.find(needle, end)


def moment_of(text: str) -> int | None:
    """A time of a record, UTC microseconds since 1970; ``None``: it is not the time of a record."""
    second, micros = _second_of(text[:_SECOND_SIZE]), text[_SECOND_SIZE + 1 : -1]
    is_time = len(text) == _TIME_SIZE and text[_SECOND_SIZE] == "." and text[-1] == "Z"
    return second + int(micros) if second is not None and is_time and micros.isascii() and micros.isdigit() else None


@lru_cache(256)
def _second_of(text: str) -> int | None:
    """Successive records are of few seconds."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is not None else (moment - _EPOCH) // _MICROSECOND
