"""The records of a segment, read fast: those that a moment does not depend on are not decoded. The chain is not checked
here, and a skipped record is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.header import Header, Part, decode_header, decode_part
from bussrv.journal.moments import Moment
from bussrv.journal.record import format_time, parse_time, version_of
from bussrv.journal.regular import NotRegular
from bussrv.journal.segment import CORRUPT, open_segment
from bussrv.journal.versions import SCHEMA_VERSION, of_today


class Place(Struct, frozen=True):
    """A record: its number, and its time in UTC microseconds."""

    seq: int
    time: int


class _Stamp(Struct):
    seq: int
    time: str


_BEGINNING = b'{"v":%d,"prev":"' % SCHEMA_VERSION
"""What a record of this version begins with. Then come the hash of the line before, the number, and the time."""

_SEQ = len(_BEGINNING) + 64 + len(b'","seq":')
_TIME = b',"time":"'
_TIME_SIZE = len("2026-11-21T14:02:03.123456Z")
_EVENT = b'"event":"'
_SESSION = b'"session":"'
_OPENED = b"session.opened"
_CLOSED = b"session.closed"


def _string(line: bytes, begin: int) -> bytes:
    """The text that stands at a place of a line, up to its quote."""
    return line[begin : line.index(b'"', begin)]


def _session_of(line: bytes) -> bytes:
    """The session of a record as it is written; empty: it has none. What an event has of its own stands before it."""
    begin = line.rfind(_SESSION)
    return b"" if begin < 0 else _string(line, begin + len(_SESSION))


_decode_stamp = msgspec.json.Decoder(_Stamp).decode
_decode_event = msgspec.json.Decoder(ev.AnyEvent).decode


def _stamp(line: bytes) -> tuple[int, bytes]:
    """The number and the time of a record, as it is written.

    :raises ValueError: there is none.
    """
    if line.startswith(_BEGINNING):
        # As nearly all do. That takes a fifth of the time that it takes to decode them.
        end = line.index(_TIME, _SEQ)
        begin = end + len(_TIME)
        return int(line[_SEQ:end]), line[begin : begin + _TIME_SIZE]
    older = _decode_stamp(line)
    return older.seq, older.time.encode()


class SegmentText:
    """A segment.

    :ivar header: its first line.
    :raises JournalError: it cannot be read, or has no header.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with open_segment(path) as file:
                self._lines = file.read().split(b"\n")
        except (NotRegular, OSError, *CORRUPT) as error:
            raise JournalError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
        self._lines.pop()  # empty, or the beginning of a line that is being written
        try:
            self.header: Header = decode_header(self._lines[0] if self._lines else b"")
        except JournalError as error:
            raise self._wrong(1, error) from error
        self._first = 1 + self.header.parts

    def _wrong(self, number: int, error: Exception) -> JournalError:
        return JournalError(f"{self._path}, line {number}: {error}")

    def snapshot(self) -> Iterator[Part]:
        """The registry before the first record, in parts.

        :raises JournalError: one is damaged.
        """
        number = 1
        try:
            for number, line in enumerate(self._lines[1 : self._first], 2):  # noqa: B007 - as below
                yield decode_part(line)
        except JournalError as error:
            raise self._wrong(number, error) from error

    def lines_about(
        self, moment: Moment, window: int, kinds: Set[bytes], pause: Callable[[], object] = lambda: None
    ) -> Iterable[int]:
        """The lines that a moment depends on, and all after it. A session that ended long before it says nothing.

        :param window: microseconds before the moment; the sessions that ended in it count.
        :param kinds: the events that count.
        :param pause: called between any two records.
        :raises JournalError: one is damaged.
        """
        latest = None if moment.time is None else format_time(moment.time).encode()
        numbers: list[int] = []
        sessions: list[bytes] = []
        opened: set[bytes] = set()
        closed: dict[bytes, tuple[int, bytes]] = {}
        number = last = self._first - 1
        time = b""
        try:
            for number, line in enumerate(self._lines[self._first :], self._first):
                pause()
                seq, text = _stamp(line)
                if (moment.seq is not None and seq > moment.seq) or (latest is not None and text > latest):
                    break
                last, time = number, text
                kind = _string(line, line.index(_EVENT, _SEQ) + len(_EVENT))
                if kind in kinds:
                    session = _session_of(line)
                    numbers.append(number)
                    sessions.append(session)
                    if kind == _OPENED:
                        opened.add(session)
                    elif kind == _CLOSED:
                        # The end of one that the snapshot has counts.
                        closed[session] = number + (session in opened), text
            until = moment.time or (parse_time(time.decode()) if time else 0)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._wrong(number + 1, error) from error
        # Texts of times are in the order of the times.
        since = format_time(until - window).encode()
        ended = {session: line for session, (line, text) in closed.items() if text < since}
        kept = [line for line, session in zip(numbers, sessions, strict=True) if line >= ended.get(session, 0)]
        if last >= self._first and kept[-1:] != [last]:
            kept.append(last)
        return chain(kept, range(last + 1, len(self._lines)))

    def records(
        self, pause: Callable[[], object] = lambda: None, lines: Iterable[int] | None = None
    ) -> Iterator[tuple[Place, ev.Event]]:
        """The records.

        :param pause: called between any two of them.
        :param lines: only those of these lines.
        :raises JournalError: one is damaged.
        """
        number = self._first
        try:
            for number in range(self._first, len(self._lines)) if lines is None else lines:
                line = self._lines[number]
                event = _decode_event(line)
                pause()
                seq, time = _stamp(line)
                if not line.startswith(_BEGINNING):
                    event = of_today(event, version_of(line))
                yield Place(seq, parse_time(time.decode())), event
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._wrong(number + 1, error) from error
