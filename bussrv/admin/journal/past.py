"""The past, read from the journal: the history of a session, and the registry at a moment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Raw, Struct

from bussrv import events as ev
from bussrv.admin.http.answers import Answer, Problem
from bussrv.admin.http.routes import Call
from bussrv.admin.journal.reading import Pace, TooLong
from bussrv.errors import JournalError
from bussrv.journal import record
from bussrv.journal.bounded import lines_in
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.moments import END, Moment, parse_moment
from bussrv.journal.reading import read_header
from bussrv.journal.segment import CORRUPT, first_seq, list_segments, open_segment
from bussrv.registry.state.history import snapshots
from bussrv.registry.state.snapshot import encoded_pieces

MOST_BYTES = 1 << 20
"""The most bytes of records of one page."""

REGISTRY_TIME = 5
"""How many times as long a registry may take as a page. A page can end early and be continued; a registry cannot."""


class HistoryPage(Struct, frozen=True):
    """Records about a session, as they stand in the journal.

    :ivar next: the value of ``after`` for the next page; ``None``: there is no further page. A page may end early, even
        without items, because reading took long.
    """

    seq: int
    items: list[Raw]
    next: int | None


async def history(call: Call) -> HistoryPage:
    """The records of the journal about a session, oldest first; also after it closed.

    :raises Problem: ``no-journal`` or ``journal-unreadable``.
    """
    directory = call.journal.directory
    session = call.server.bus.registry.state.sessions.get(call.path["session"])
    pace = Pace(call.server.bus.settings.admin_read_timeout)
    since = None if session is None else session.opened
    wanted = WantedRecords(call.path["session"], call.query["after"], call.query["limit"], since)
    try:
        items, more = await call.shared.reading.do(read_history, directory, wanted, pace)
    except JournalError as error:
        raise Problem("journal-unreadable", str(error)) from error
    return HistoryPage(call.shared.seq, items, more)


class WantedRecords(Struct, frozen=True):
    """The records that a request asks for.

    :ivar since: the time when the session was opened, UTC microseconds; ``None``: it is not known.
    """

    session: str
    after: int
    limit: int
    since: int | None


def read_history(directory: Path, wanted: WantedRecords, pace: Pace) -> tuple[list[Raw], int | None]:
    """The records, and the number of the record to continue after; ``None``: there are no further records."""
    scan = _Scan(b'"session":' + msgspec.json.encode(wanted.session), wanted.after, pace)
    found: list[Raw] = []
    size = 0
    try:
        for text in scan.lines(_segments(directory, wanted)):
            each = record.decode(text)
            if each.seq <= wanted.after or each.event.session != wanted.session:
                continue
            found.append(Raw(text.rstrip()))
            size += len(text)
            if isinstance(each.event, ev.SessionClosed):
                return found, None
            if len(found) >= wanted.limit or size >= MOST_BYTES:
                return found, each.seq
    except TooLong:
        return found, scan.seq
    return found, None


def _segments(directory: Path, wanted: WantedRecords) -> list[Path]:
    """The segments that may hold the records."""
    paths = list_segments(directory)
    begin = bisect_right(paths, wanted.after + 1, key=first_seq) - 1
    if wanted.since is not None:
        # Begin with the segment in which the session was opened: the last one that is not younger than the session.
        later = (index for index, path in enumerate(paths) if read_header(path).time > wanted.since)
        begin = max(begin, next(later, len(paths)) - 1)
    return paths[max(0, begin) :]


class _Scan:
    """Finds lines that contain a text. That is a hundred times as fast as decoding each line.

    :param after: the time limit begins when this record has been read.
    :ivar seq: the number of the last record that was read.
    """

    def __init__(self, text: bytes, after: int, pace: Pace) -> None:
        self.seq = 0
        self._after = after
        self._text = text
        self._pace = pace

    def lines(self, paths: Iterable[Path]) -> Iterator[bytes]:
        """The lines that contain the text, except those of snapshots.

        :raises JournalError: a segment cannot be read.
        :raises TooLong: the time is over.
        """
        for path in paths:
            # Retention may remove it meanwhile.
            with suppress(FileNotFoundError), _naming(path), open_segment(path) as file:
                yield from self._lines_of(file, first_seq(path))

    def _lines_of(self, file: BinaryIO, first: int) -> Iterator[bytes]:
        header = file.readline(MAX_LINE)
        parts = msgspec.json.decode(header, type=_Parts).parts
        for number, text in enumerate(lines_in(file)):
            is_over = self._pace.step()
            if is_over and self.seq > self._after:
                raise TooLong
            if number < parts:
                continue
            if not text.endswith(b"\n"):
                return  # It is being written.
            if self._text in text:
                yield text
            self.seq = first + number - parts
            if self.seq == self._after:
                # Records before it do not count: they could take all of the time in every request.
                self._pace.restart()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors name the segment that cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, msgspec.DecodeError, *CORRUPT) as error:
        raise JournalError(f"cannot read {path}: {error}") from error


class _Parts(Struct):
    parts: int


async def registry(call: Call) -> Answer:
    """The registry at a moment, as `bussrv journal state` shows it.

    :raises Problem: ``no-journal``, ``no-such-moment``, ``journal-unreadable`` or ``journal-too-long``.
    """
    directory = call.journal.directory
    try:
        moment = END if call.query["at"] is None else parse_moment(call.query["at"])
    except ValueError as error:
        raise Problem("no-such-moment", str(error)) from error
    pace = Pace(REGISTRY_TIME * call.server.bus.settings.admin_read_timeout)
    try:
        return Answer(await call.shared.reading.do(_registry, directory, moment, pace))
    except TooLong:
        raise Problem("journal-too-long") from None
    except JournalError as error:
        raise Problem("journal-unreadable", str(error)) from error


def _registry(directory: Path, moment: Moment, pace: Pace) -> bytes:
    def step() -> None:
        if pace.step():
            raise TooLong

    pieces = []
    for piece in encoded_pieces(snapshots(directory, [moment], step)[0]):
        pieces.append(piece)
        step()
    return b"".join(pieces)
