"""Base of the clients of stream formats: a connection over TCP or TLS that is read event by event."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from bussrv.client.tls import PERHAPS_TLS, Tls, explain
from bussrv.errors import RemoteProtocolError

_CHUNK = 1 << 16
_FAREWELL = 1.0
# Only some systems tell.
_OVER = getattr(select, "POLLRDHUP", 0)

MAX_KEPT = 1000
"""The most events that are kept."""

MAX_KEPT_BYTES = 64 << 20
"""The most bytes of them. The latest is kept, however large it is."""

P = ParamSpec("P")
R = TypeVar("R")
Event = TypeVar("Event")
Event_co = TypeVar("Event_co", covariant=True)
Client = TypeVar("Client", bound="StreamClient[Any]")


class Own(Enum):
    """The time-out of a call that is given none."""

    OWN = "the client's own time-out"

    def __repr__(self) -> str:
        return self.name


OWN = Own.OWN

Timeout = float | Own | None
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
        if left > 0:
            return left
        if self._looked:
            raise TimeoutError(self._message)
        self._looked = True
        return 0.0


class ClientReader(Protocol[Event_co]):
    """Bytes in, events out."""

    def feed(self, data: bytes) -> None:
        """Add a chunk."""

    def next_event(self) -> Event_co | None:
        """The next event, or ``None`` when more bytes are needed."""


class KeptEvents(Generic[Event]):
    """Received events that were not taken yet, in order. If there are too many, the oldest are forgotten.

    :param weigh: the bytes of an event.
    :ivar forgotten: how many were forgotten.
    """

    def __init__(self, weigh: Callable[[Event], int], most: int = MAX_KEPT, most_bytes: int = MAX_KEPT_BYTES) -> None:
        self.forgotten = 0
        self._weigh = weigh
        self._most = most
        self._most_bytes = most_bytes
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._events)

    def add(self, event: Event) -> None:
        """Keep an event."""
        weight = self._weigh(event)
        self._events.append((event, weight))
        self._bytes += weight
        while len(self._events) > 1 and (len(self._events) > self._most or self._bytes > self._most_bytes):
            self.first()
            self.forgotten += 1

    def first(self) -> Event:
        """Take the oldest."""
        event, weight = self._events.popleft()
        self._bytes -= weight
        return event

    def last(self) -> Event:
        """Take the latest."""
        event, weight = self._events.pop()
        self._bytes -= weight
        return event

    def find(self, predicate: Callable[[Event], bool]) -> Event | None:
        """Take the oldest for which ``predicate`` is true; ``None``: there is none."""
        for index, (event, weight) in enumerate(self._events):
            if predicate(event):
                del self._events[index]
                self._bytes -= weight
                return event
        return None

    def clear(self) -> None:
        """Keep nothing."""
        self._events.clear()
        self._bytes = 0


def by_one_thread(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Let only one thread at a time call methods like this one of a client, which has a reentrant lock ``_used``.

    Two at once would take each other's events, and mix up the bytes of TLS.

    :raises RuntimeError: another thread is in such a method.
    """

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        used: threading.RLock = self._used
        if not used.acquire(blocking=False):
            name, kind = method.__name__.lstrip("_"), type(self).__name__
            raise RuntimeError(f"{name}: another thread uses this {kind}; give each thread a client of its own")
        try:
            return method(self, *args, **kwargs)
        finally:
            used.release()

    return call


class StreamClient(Generic[Event]):
    """A connection and the events received from it that were not taken yet. For one thread; a context manager.

    A call raises :exc:`RuntimeError` while another thread is in one.

    :param timeout: how long connecting, sending and waiting may take unless a call says otherwise, in seconds;
        ``None`` for ever.
    :param tls: connect over TLS; ``None``: in the clear.
    :raises ConnectionError: the server cannot be reached, or does not prove who it is.
    :raises TimeoutError: it does not answer.
    """

    def __init__(
        self,
        reader: ClientReader[Event],
        host: str,
        port: int,
        timeout: float | None,
        tls: Tls | ssl.SSLContext | None = None,
    ) -> None:
        context = tls.context() if isinstance(tls, Tls) else tls
        self.timeout = timeout
        self._where = f"{host} port {port}"
        self._reader = reader
        self._kept: KeptEvents[Event] = KeptEvents(self._weigh)
        self._closed = False
        self._refusal = ""
        self._heard = context is not None
        self._used = threading.RLock()
        try:
            self._socket: socket.socket = socket.create_connection((host, port), timeout)
        except TimeoutError as error:
            raise TimeoutError(f"{self._where} did not take the connection{_within(timeout)}") from error
        except OSError as error:
            raise ConnectionError(f"cannot connect to {self._where}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self._socket = self._secured(context, (tls.server_name if isinstance(tls, Tls) else None) or host)

    def _secured(self, context: ssl.SSLContext, name: str) -> ssl.SSLSocket:
        try:
            return context.wrap_socket(self._socket, server_hostname=name)
        except TimeoutError as error:
            raise TimeoutError(f"{self._where} did not finish the TLS handshake{_within(self.timeout)}") from error
        except OSError as error:
            raise ConnectionError(f"no TLS with {self._where}: {_why(error)}") from error
        finally:
            self._socket.close()  # If it is used, it is the other's now.

    def __enter__(self: Client) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @by_one_thread
    def close(self) -> None:
        """Say that nothing more will be sent, wait a moment until the server has read everything, and close.

        Closing a second time does nothing. What was received and not taken is forgotten.
        """
        if self._closed:
            return
        self._closed = True
        self._kept.clear()
        # Closing while something waits unread would reset the connection, and what was sent last could be lost.
        deadline = Deadline(_FAREWELL, "")
        with contextlib.suppress(OSError):
            self._end_tls()
            self._socket.shutdown(socket.SHUT_WR)
            while True:
                self._socket.settimeout(deadline.left())
                if not self._socket.recv(_CHUNK):
                    break
        self._socket.close()

    def _end_tls(self) -> None:
        """Say that nothing more will be sent. Nobody wants to know what comes after that, so it is not decrypted."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(0)
            with contextlib.suppress(ssl.SSLError):
                self._socket.unwrap()
            self._socket = socket.socket(fileno=self._socket.detach())

    def fileno(self) -> int:
        """The descriptor of the connection, for programs that wait for several things at once.

        When it is readable, take events with a time-out of 0 until that raises :exc:`TimeoutError`: more than one may
        have come, and with TLS some are not seen at the descriptor any more.
        """
        return self._socket.fileno()

    def wait_for(self, predicate: Callable[[Event], bool], timeout: Timeout = OWN) -> Event:
        """The first event for which ``predicate`` is true, among kept events and those that come.

        Other events are kept, in order, for later calls. If there are too many, the oldest are dropped.

        :param timeout: the limit in seconds; ``None``: there is none; by default the client's own.
        :raises TimeoutError: none came in time.
        :raises ConnectionError: the connection ended, or the client was closed.
        :raises bussrv.errors.RemoteProtocolError: the server sent something malformed.
        """
        return self._wait_for(predicate, self._deadline(timeout, "what was waited for"))

    @by_one_thread
    def _wait_for(self, predicate: Callable[[Event], bool], deadline: Deadline) -> Event:
        event = self._kept.find(predicate)
        while event is None:
            # Kept before it is looked at: a predicate that raises must not lose it.
            latest = self._read(deadline)
            self._kept.add(latest)
            if predicate(latest):
                event = self._kept.last()
        return event

    @by_one_thread
    def _next(self, predicate: Callable[[Event], bool], deadline: Deadline) -> Event:
        """The first event for which ``predicate`` is true. Drop other events that come meanwhile."""
        event = self._kept.find(predicate)
        while event is None:
            latest = self._read(deadline)
            event = latest if predicate(latest) else None
        return event

    @property
    def forgotten(self) -> int:
        """How many received events were forgotten because too many had not been taken."""
        return self._kept.forgotten

    def _weigh(self, event: Event) -> int:
        """The bytes of an event, as far as they count."""
        return 0

    @by_one_thread
    def _take(self, timeout: Timeout) -> Event:
        if self._kept:
            return self._kept.first()
        return self._read(self._deadline(timeout, "nothing more"))

    def _deadline(self, timeout: Timeout, wanted: str) -> Deadline:
        seconds = self.timeout if isinstance(timeout, Own) else timeout
        came = "came" if wanted.startswith("no") else "did not come"
        return Deadline(seconds, f"{wanted} {came} from {self._where}{_within(seconds)}")

    def _read(self, deadline: Deadline) -> Event:
        while (event := self._reader.next_event()) is None:
            self._reader.feed(self._receive(deadline))
        return event

    def _receive(self, deadline: Deadline) -> bytes:
        while True:
            left = deadline.left()
            self._check_open()
            try:
                self._socket.settimeout(left)
                data = self._socket.recv(_CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            except OSError as error:
                if _is_patience(error):
                    continue
                raise self._broke(error) from self._last_words() or error
            if not data:
                raise self._lost(f"{self._where} closed the connection") from self._last_words()
            self._heard = True
            return data

    @by_one_thread
    def _send(self, data: bytes) -> None:
        self._check_open()
        if self._is_over():
            self._read_the_rest()
            raise self._lost(f"{self._where} closed the connection") from self._last_words()
        try:
            self._socket.settimeout(self.timeout)
            self._socket.sendall(data)
        except OSError as error:
            if _is_patience(error):
                # Part of it may have been sent: whatever followed would be read as the rest.
                self._closed = True
                self._socket.close()
                raise TimeoutError(
                    f"{self._where} did not take {len(data)} bytes{_within(self.timeout)}; the connection is closed now"
                ) from error
            self._read_the_rest()
            raise self._broke(error) from self._last_words() or error

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
                self._kept.add(self._read(Deadline(0, "")))

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionError(f"this client of {self._where} is closed")

    def _broke(self, error: OSError) -> ConnectionError:
        if isinstance(error, ssl.SSLError):
            self._refusal = explain(error)
        return self._lost(f"the connection to {self._where} broke: {_why(error)}")

    def _lost(self, sentence: str) -> ConnectionError:
        words = self._last_words() or self._refusal
        if words:
            return ConnectionError(f"{sentence}, after the error: {words}")
        return ConnectionError(sentence if self._heard else f"{sentence}, {PERHAPS_TLS}")

    def _last_words(self) -> Exception | None:
        """The error that the server sent last, in formats that have such."""
        return None


def _why(error: OSError) -> str:
    return explain(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)


def _is_patience(error: OSError) -> bool:
    """Whether the client's own time limit was reached; the system's time limit raises the same exception."""
    return isinstance(error, TimeoutError) and error.errno is None


def _within(seconds: float | None) -> str:
    return "" if seconds is None else f" within {seconds:g} s"
