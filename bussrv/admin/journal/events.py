"""``/api/v1/events``: every record of the journal, as it is written, as server-sent events.

A stream goes through two states:

1. *Catching up*: records after the one that the client names are read from the files, a page at a time. The next page
   is read when the client has taken the one before. Only records that are durable are read.
2. *Live*: records are sent when they are durable.

A stream is live from the moment at which the last record that it was sent is the last one that is durable. Both belong
to the reactor's thread, so that no record comes twice or is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from bussrv.admin.http.sending import EventStream
from bussrv.errors import JournalError
from bussrv.events import event_name
from bussrv.journal import record
from bussrv.journal.lines import LinesAfter, RecordLine
from bussrv.journal.record import Record

SIGN_OF_LIFE = 15.0
"""Seconds between two comments."""

SKIPPED = "skipped"
"""The event that says how many records are not there any more."""

log = Logger()

Page = list[RecordLine]

Read = Callable[[Callable[[int], Page], int], Coroutine["Deferred[Any]", Any, Page]]
"""Calls a function, with its argument, in another thread."""


def encoded(seq: int, event: str, line: bytes) -> bytes:
    """A record as a server-sent event."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, event.encode(), line)


class JournalEvents:
    """The streams of records.

    :param seq: the number of the last record that is durable.
    :param directory: the directory of the journal; ``None``: the journal is off.
    :param read: calls a function in another thread.
    """

    def __init__(self, seq: int, directory: Path | None, read: Read, reactor: Any) -> None:
        self.seq = seq
        self._directory = directory
        self._read = read
        self._reading = DeferredLock()
        self._live: dict[EventStream, None] = {}
        self._open: dict[EventStream, None] = {}
        self._signs = LoopingCall(self._give_signs)
        self._signs.clock = reactor

    def written(self, records: list[Record]) -> None:
        """Records are durable."""
        self.seq = records[-1].seq if records else self.seq
        if self._live and records:
            text = b"".join(
                encoded(each.seq, event_name(each.event), record.encode(each).rstrip(b"\n")) for each in records
            )
            for stream in tuple(self._live):
                stream.send_encoded(text)

    async def send(self, stream: EventStream, after: int | None) -> None:
        """Send records to a client until it is gone.

        :param after: the number of the last record that it knows; ``None``: it wants those from now on.
        """
        self._open[stream] = None
        # The client gets its answer immediately, even if the first record is late.
        stream.comment()
        if not self._signs.running:
            self._signs.start(SIGN_OF_LIFE, now=False)
        try:
            if after is not None and after < self.seq:
                await self._catch_up(stream, after)
            self._live[stream] = None
            await stream.closed()
        finally:
            self._live.pop(stream, None)
            del self._open[stream]
            if not self._open:
                self._signs.stop()

    async def _catch_up(self, stream: EventStream, after: int) -> None:
        """Return when the client has been sent every record that is durable then."""
        if self._directory is None:
            stream.send_encoded(_skipped(after, self.seq))
            return
        lines = LinesAfter(self._directory, after)
        try:
            await self._send_pages(stream, lines)
        except JournalError as error:
            log.error("admin: the journal cannot be shown: {error}", event="admin.journal-unreadable", error=error)
            stream.send_encoded(_skipped(lines.seq, self.seq))
        finally:
            lines.close()

    async def _send_pages(self, stream: EventStream, lines: LinesAfter) -> None:
        while lines.seq < self.seq and stream.is_open:
            known = lines.seq
            # A page of one stream at a time: they are read in turns.
            page = await self._reading.run(self._page, lines)
            if not page:
                raise JournalError(f"there is no record {lines.seq + 1}")
            stream.send_encoded(b"".join(_encoded_page(known, page)))
            await stream.room()

    def _page(self, lines: LinesAfter) -> Deferred[Page]:
        return Deferred.fromCoroutine(self._read(lines.page, self.seq))

    def _give_signs(self) -> None:
        for stream in tuple(self._open):
            stream.comment()


def _encoded_page(known: int, page: Page) -> Iterator[bytes]:
    for each in page:
        if each.seq > known + 1:
            yield _skipped(known, each.seq - 1)
        known = each.seq
        yield encoded(each.seq, each.event, each.text)


def _skipped(known: int, seq: int) -> bytes:
    """The event that the records after ``known``, up to ``seq``, are not there any more."""
    return encoded(seq, SKIPPED, msgspec.json.encode({"count": seq - known}))


MOST_DIGITS = 18
"""Text of more digits is no number of a record."""


def last_known(header: str | None, after: int | None) -> int | None:
    """The number of the last record that a client knows.

    :param header: ``Last-Event-ID``. A stream that is resumed has it besides the parameter that it began with.
    """
    if header is not None and header.isdecimal() and len(header) <= MOST_DIGITS:
        return int(header)
    return after
