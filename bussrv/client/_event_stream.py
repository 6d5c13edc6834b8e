r"""Reads server-sent events. Source: the HTML standard, "Server-sent events", as far as the admin interface uses it.

::

    stream = *( line "\n" )
    line   = ":" comment | "id: " text | "event: " text | "data: " text | ""

An empty line ends an event. Lines end with LF or CR LF.
"""

from __future__ import annotations

from typing import NamedTuple

from bussrv.errors import RemoteProtocolError

MAX_EVENT = 17 << 20
"""The most bytes of an event, and of a line: the longest line of a journal, and what is said about it."""


class ServerSentEvent(NamedTuple):
    """An event.

    :ivar id: the place in the stream, to continue after it; empty: none was given.
    :ivar event: its name.
    :ivar data: its lines, joined.
    """

    id: str
    event: str
    data: str


class EventReader:
    """Lines in, events out.

    :ivar last_id: the id that was given last.
    """

    def __init__(self, most: int = MAX_EVENT) -> None:
        self.last_id = ""
        self._most = most
        self._clear()

    def _clear(self) -> None:
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, line: bytes) -> ServerSentEvent | None:
        """Take a line, with its end. :returns: the event that it ends; ``None``: none.

        :raises RemoteProtocolError: it is not UTF-8, or the line or the event is too large.
        """
        self._size += len(line)
        if self._size > self._most:
            raise RemoteProtocolError("too-large", f"an event of the stream has more than {self._most} bytes")
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("bad-utf-8", "a line of the stream of events is not UTF-8") from error
        if not text:
            return self._complete()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        return None

    def _complete(self) -> ServerSentEvent | None:
        found = ServerSentEvent(self.last_id, self._event or "message", "\n".join(self._data)) if self._data else None
        self._clear()
        return found
