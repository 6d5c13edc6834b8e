"""Base of the readers of stream formats: chunks in, events out one by one, and an error that lasts."""

from __future__ import annotations

from typing import Generic, TypeVar

from bussrv.errors import RemoteProtocolError
from bussrv.wire.buffer import ReceiveBuffer

Event = TypeVar("Event")


class StreamReader(Generic[Event]):
    """Reads the events of one connection. Subclasses say how, in ``_read_event``."""

    def __init__(self) -> None:
        self._buffer = ReceiveBuffer()
        self._error: RemoteProtocolError | None = None

    def __len__(self) -> int:
        """How many bytes wait to be read."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add a chunk. To be followed by :meth:`next_event` until that returns ``None``."""
        self._buffer.feed(data)

    def clear(self) -> None:
        """Forget what waits; nothing more comes."""
        self._buffer = ReceiveBuffer()

    def next_event(self) -> Event | None:
        """The next event, or ``None`` when more bytes are needed.

        :raises RemoteProtocolError: the peer sent something malformed; every later call raises it again.
        """
        if self._error is not None:
            raise self._error
        try:
            return self._read_event()
        except RemoteProtocolError as error:
            self._error = error
            raise

    def _read_event(self) -> Event | None:
        raise NotImplementedError
