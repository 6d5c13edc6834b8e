"""Base of the plain clients over TCP: a connection, perhaps with TLS, that is read event by event."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bussrv.client.tls import PERHAPS_TLS, Tls, dial, explain, place, secured
from bussrv.errors import RemoteProtocolError

if TYPE_CHECKING:
    from typing_extensions import Self

_CHUNK = 1 << 16
_FAREWELL = 1.0
# Only some systems tell.
_OVER = getattr(select, "POLLRDHUP", 0)

MAX_KEPT = 1000
"""The most events that are kept."""

MAX_KEPT_BYTES = 64 << 20
"""The most bytes of them. The latest is kept, however large it is."""

Event = TypeVar("Event")


OWN = ...
"""The time-out of a call that is given none: the client's own."""

Timeout = float | EllipsisType | None
"""Seconds; ``None``: for ever; ``OWN``: the client's own."""


class Deadline:
    """The time limit of one call.

    :param seconds: the limit, from now; ``None``: there is none.
    :param message: the sentence of the :exc:`TimeoutError`.
    """

    def __init__(self, seconds: float | None, message: str) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._message = message
        self._looked = False

    def left(self) -> float | None:
        """Seconds that are left; ``None`` for ever. When it is over: 0 for one last look at what has already come.

        :raises TimeoutError: when that look was taken.
        """
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0 and self._looked:
            raise TimeoutError(self._message)
        self._looked = left <= 0
        return max(left, 0.0)


class StreamClient(Generic[Event]):
    """A connection, and the events received from it that were not taken yet. For one thread; a context manager.

    Every call raises :exc:`ConnectionError` if the connection has ended or the client was closed, and
    :exc:`RuntimeError` while another thread is in a call. A call that waits raises :exc:`TimeoutError` if nothing came
    in time, and :exc:`~bussrv.errors.RemoteProtocolError` if the server sent something malformed. Its ``timeout`` is in
    seconds; ``None``: there is no limit; by default the client's own.

    :param timeout: how long connecting, sending and waiting may take unless a call says otherwise, in seconds;
        ``None`` for ever.
    :param tls: connect over TLS; ``None``: in the clear.
    :raises ConnectionError: the server cannot be reached, or does not prove who it is.
    :raises TimeoutError: it does not answer.
    :ivar forgotten: how many received events were forgotten because too many had not been taken.
    """

    def __init__(
        self, reader: Any, host: str, port: int, timeout: float | None, tls: Tls | ssl.SSLContext | None = None
    ) -> None:
        self.timeout = timeout
        self.forgotten = 0
        self._reader = reader
        self._where = place(host, port)
        self._kept: deque[Event] = deque()
        self._kept_bytes = 0
        self._closed = False
        self._refusal = ""
        self._used = threading.RLock()
        self._socket = dial(host, port, timeout, *secured(tls, host))
        self._heard = isinstance(self._socket, ssl.SSLSocket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Say that nothing more will be sent, wait a moment until the server has read everything, and close.

        Closing a second time does nothing. What was received and not taken is forgotten.
        """
        with self._alone():
            if self._closed:
                return
            self._closed = True
            self._kept.clear()
            # Closing while something waits unread would reset the connection, and what was sent last could be lost.
            deadline = Deadline(_FAREWELL, "")
            with contextlib.suppress(OSError):
                if isinstance(self._socket, ssl.SSLSocket):
                    # Nobody wants to know what comes after the end of TLS, so it is not decrypted.
                    self._socket.settimeout(0)
                    with contextlib.suppress(ssl.SSLError):
                        self._socket.unwrap()
                    self._socket = socket.socket(fileno=self._socket.detach())
                self._socket.shutdown(socket.SHUT_WR)
                data = b"unread"
                while data:
                    self._socket.settimeout(deadline.left())
                    data = self._socket.recv(_CHUNK)
            self._socket.close()

    def fileno(self) -> int:
        """The descriptor of the connection, for programs that wait for several things at once.

        When it is readable, take events with a time-out of 0 until that raises :exc:`TimeoutError`: more than one may
        have come, and with TLS some are not seen at the descriptor any more.
        """
        return self._socket.fileno()

    def wait_for(self, predicate: Callable[[Event], bool], timeout: Timeout = OWN) -> Event:
        """The first event for which ``predicate`` is true, among kept events and those that come.

        Other events are kept, in order, for later calls. If there are too many, the oldest are dropped.
        """
        return self._wait_for(predicate, self._deadline(timeout, "what was waited for did not come"))

    def _take(self, timeout: Timeout) -> Event:
        return self._wait_for(lambda _: True, self._deadline(timeout, "nothing more came"))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two threads would take each other's events. :raises RuntimeError: another one is in a call."""
        if not self._used.acquire(blocking=False):
            raise RuntimeError(f"another thread uses this {type(self).__name__}; give each thread a client of its own")
        try:
            yield
        finally:
            self._used.release()

    def _wait_for(self, predicate: Callable[[Event], bool], deadline: Deadline, *, keeps_others: bool = True) -> Event:
        with self._alone():
            for index, event in enumerate(self._kept):
                if predicate(event):
                    return self._unkeep(index)
            while True:
                latest = self._read(deadline)
                if keeps_others:
                    # Before it is looked at: a predicate that raises must not lose it.
                    self._keep(latest)
                if predicate(latest):
                    return self._unkeep(-1) if keeps_others else latest

    def _keep(self, event: Event) -> None:
        self._kept.append(event)
        self._kept_bytes += self._weigh(event)
        while len(self._kept) > 1 and (len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES):
            self._unkeep(0)
            self.forgotten += 1

    def _unkeep(self, index: int) -> Event:
        event = self._kept[index]
        del self._kept[index]
        self._kept_bytes -= self._weigh(event)
        return event

    def _weigh(self, event: Event) -> int:
        """The bytes of an event, as far as they count."""
        raise NotImplementedError

    def _deadline(self, timeout: Timeout, sentence: str) -> Deadline:
        """:param sentence: says what has not come, for the :exc:`TimeoutError`."""
        seconds = self.timeout if isinstance(timeout, EllipsisType) else timeout
        within = "" if seconds is None else f" within {seconds:g} s"
        return Deadline(seconds, f"{sentence} from {self._where}{within}")

    def _read(self, deadline: Deadline) -> Event:
        while (event := self._next_event()) is None:
            self._reader.feed(self._receive(deadline))
        return event

    def _next_event(self) -> Event | None:
        """The next event of the bytes that came; ``None``: more are needed."""
        found: Event | None = self._reader.next_event()
        return found

    def _receive(self, deadline: Deadline) -> bytes:
        while True:
            left = deadline.left()
            self._check_open()
            try:
                self._socket.settimeout(left)
                data = self._socket.recv(_CHUNK)
            except OSError as error:
                if _is_patience(error):
                    continue
                raise self._lost(error) from self._last_words() or error
            if not data:
                raise self._lost() from self._last_words()
            self._heard = True
            return data

    def _send(self, data: bytes) -> None:
        with self._alone():
            self._check_open()
            if self._is_over():
                self._read_the_rest()
                raise self._lost() from self._last_words()
            try:
                self._socket.settimeout(self.timeout)
                self._socket.sendall(data)
            except OSError as error:
                if _is_patience(error):
                    # Part of it may have been sent: whatever followed would be read as the rest.
                    self._closed = True
                    self._socket.close()
                    sentence = f"{self._where} did not take {len(data)} bytes within {self.timeout:g} s"
                    raise TimeoutError(f"{sentence}; the connection is closed now") from error
                self._read_the_rest()
                raise self._lost(error) from self._last_words() or error

    def _is_over(self) -> bool:
        """Whether the server has closed the connection in order. The first send after that seems to succeed."""
        if not _OVER:
            return False
        poll = select.poll()
        poll.register(self._socket, _OVER)
        return any(found & (_OVER | select.POLLERR) == _OVER for _, found in poll.poll(0))

    def _read_the_rest(self) -> None:
        """The server may have said why, before it closed the connection."""
        with contextlib.suppress(OSError, RemoteProtocolError):
            while True:
                self._keep(self._read(Deadline(0, "")))

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionError(f"this client of {self._where} is closed")

    def _lost(self, error: OSError | None = None) -> ConnectionError:
        """:param error: broke the connection; ``None``: the server closed it."""
        words = self._last_words() or self._refusal
        sentence = f"{self._where} closed the connection"
        if error is not None:
            why = explain(error)
            sentence = f"the connection to {self._where} broke: {why}"
            self._refusal = why if isinstance(error, ssl.SSLError) else self._refusal
        if words:
            return ConnectionError(f"{sentence}, after the error: {words}")
        return ConnectionError(sentence if self._heard or self._refusal else f"{sentence}, {PERHAPS_TLS}")

    def _last_words(self) -> Exception | None:
        """The error that the server sent last, in formats that have such."""
        return None


def _is_patience(error: OSError) -> bool:
    """Whether the client's own time limit was reached; the system's time limit raises the same exception."""
    waits = isinstance(error, (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError))
    return waits or (isinstance(error, TimeoutError) and error.errno is None)
