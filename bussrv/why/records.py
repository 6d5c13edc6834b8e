"""The records of a segment, read as fast as they can be decoded. The chain is not checked here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.header import Header, Part, decode_header, decode_part
from bussrv.journal.record import parse_time, version_of
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


_STAMP = re.compile(rb'\{"v":%d,"prev":"[0-9a-f]{64}","seq":([0-9]+),"time":"([^"]+)",' % SCHEMA_VERSION)

_decode_stamp = msgspec.json.Decoder(_Stamp).decode
_decode_event = msgspec.json.Decoder(ev.AnyEvent).decode


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

    def _wrong(self, number: int, error: Exception) -> JournalError:
        return JournalError(f"{self._path}, line {number}: {error}")

    def snapshot(self) -> Iterator[Part]:
        """The registry before the first record, in parts.

        :raises JournalError: one is damaged.
        """
        number = 1
        try:
            for number, line in enumerate(self._lines[1 : 1 + self.header.parts], 2):  # noqa: B007 - as below
                yield decode_part(line)
        except JournalError as error:
            raise self._wrong(number, error) from error

    def records(self, pause: Callable[[], object] = lambda: None) -> Iterator[tuple[Place, ev.Event]]:
        """The records.

        :param pause: called between any two of them.
        :raises JournalError: one is damaged.
        """
        number = begin = 1 + self.header.parts
        try:
            for number, line in enumerate(self._lines[begin:], begin + 1):  # noqa: B007 - the fault is there
                event = _decode_event(line)
                pause()
                stamp = _STAMP.match(line)
                if stamp is not None:
                    # Written by this version, as nearly all are. That is twice as fast as to decode the stamp, too.
                    yield Place(int(stamp[1]), parse_time(stamp[2].decode())), event
                else:
                    older = _decode_stamp(line)
                    yield Place(older.seq, parse_time(older.time)), of_today(event, version_of(line))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._wrong(number, error) from error
