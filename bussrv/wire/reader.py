"""Base of the readers of stream formats: chunks in, events out one by one, and an error that lasts."""

from __future__ import annotations

from typing import Generic, TypeVar

from bussrv.errors import RemoteProtocolError

Event = TypeVar("Event")


class ReceiveBuffer:
    """Takes chunks in and gives messages out, without copying what stays.

    It has no limit of its own: a reader raises before more than one message gathers, and takes every whole message
    before more is fed.
    """

    def __init__(self) -> None:
        self._data: bytes | bytearray = b""
        self._start = 0
        self._absent: dict[bytes, int] = {}  # how many of the first bytes do not begin what was searched

    def __len__(self) -> int:
        """How many bytes wait."""
        return len(self._data) - self._start

    def feed(self, data: bytes) -> None:
        """Add a chunk at the end."""
        waiting = len(self._data) - self._start
        if not waiting:
            self._data = data
        elif waiting <= len(data):
            self._data = self.peek(waiting) + data
        else:
            self._grow(data)
        self._start = 0

    def _grow(self, data: bytes) -> None:
        """Add a chunk smaller than the rest: copying the rest each time would take quadratic time."""
        if isinstance(self._data, bytes):
            self._data = bytearray(memoryview(self._data)[self._start :])
        elif self._start:
            del self._data[: self._start]
        self._data += data

    def whole(self) -> tuple[bytes, int] | None:
        """Everything in one piece, and where in it what waits begins; ``None`` while a long message gathers."""
        return (self._data, self._start) if isinstance(self._data, bytes) else None

    def find(self, byte: bytes, limit: int) -> int:
        """The first place of ``byte``, or of several bytes, among the first ``limit`` bytes; or -1.

        The next search for the same continues where this one ended. So a long message may be searched for its end
        whenever a piece of it has come: that takes time in proportion to its size.
        """
        known = self._absent.get(byte, 0) if self._absent else 0
        index = self._data.find(byte, self._start + known, self._start + limit)
        if index >= 0:
            return index - self._start
        if not isinstance(self._data, bytes):  # Otherwise feed() has just copied as much as was searched.
            self._absent[byte] = max(known, min(len(self), limit) - len(byte) + 1)
        return index

    def peek(self, size: int) -> bytes:
        """The first ``size`` bytes, or fewer if fewer wait. They stay."""
        start, end = self._start, self._start + size
        if isinstance(self._data, bytes):
            return self._data[start:end]
        with memoryview(self._data) as view:
            return bytes(view[start:end])

    def take(self, size: int) -> bytes:
        """Take the first ``size`` bytes, which must be there."""
        taken = self.peek(size)
        self.skip(size)
        return taken

    def take_until(self, end: bytes, most: int, *others: bytes) -> bytes | None:
        """Take what comes before ``end``, and drop ``end``; ``None``: it has not come yet.

        :param most: how many bytes may come before it.
        :param others: that end it as well, if they come first.
        :raises RemoteProtocolError: ``packet-too-large``: there are more.
        """
        ends = [(self.find(each, most + len(each)), len(each)) for each in (end, *others)]
        size, length = min((each for each in ends if each[0] >= 0), default=(-1, 0))
        if size < 0:
            if len(self) >= most + len(end):
                raise RemoteProtocolError("packet-too-large", f"at most {most} bytes come before {end!r}")
            return None
        taken = self.take(size)
        self.skip(length)
        return taken

    def skip(self, size: int) -> None:
        """Drop the first ``size`` bytes, which must be there."""
        self._start += size
        if self._absent:
            self._absent.clear()
        if self._start == len(self._data):
            # An idle connection must not keep the memory of its last message.
            self._data = b""
            self._start = 0


def decode_text(data: bytes, what: str) -> str:
    """Text that a client sent.

    :param what: it is called in the error.
    :raises RemoteProtocolError: ``bad-utf8``: it is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError("bad-utf8", f"{what} is not UTF-8: {error.reason} at byte {error.start}") from error


class StreamReader(Generic[Event]):
    """Reads the events of one connection. Subclasses say how, in :meth:`read_event`.

    :ivar buffer: the bytes that came and are not read yet.
    """

    def __init__(self) -> None:
        self.buffer = ReceiveBuffer()
        self._error: RemoteProtocolError | None = None

    def __len__(self) -> int:
        """How many bytes of memory are held for what is not read yet: they count towards ``--max-inbound-total``.

        Those in :attr:`buffer`, unless a subclass adds what it has taken from there and keeps. Count the objects, too:
        a small part takes some 50 bytes more than it has.
        """
        return len(self.buffer)

    def feed(self, data: bytes) -> None:
        """Add a chunk. To be followed by :meth:`next_event` until that returns ``None``."""
        self.buffer.feed(data)

    def clear(self) -> None:
        """Forget what waits; nothing more comes."""
        self.buffer = ReceiveBuffer()

    def next_event(self) -> Event | None:
        """The next event, or ``None`` when more bytes are needed.

        :raises RemoteProtocolError: the peer sent something malformed; every later call raises it again.
        """
        if self._error is not None:
            raise self._error
        try:
            return self.read_event()
        except RemoteProtocolError as error:
            self._error = error
            raise

    def read_event(self) -> Event | None:
        """Take the next event from :attr:`buffer`; ``None``: more bytes are needed.

        :raises RemoteProtocolError: the peer sent something malformed, or more than the format allows.
        """
        raise NotImplementedError
