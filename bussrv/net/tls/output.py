"""The output of sessions over TLS. Their input is in :mod:`bussrv.net.tls.connection`.

Bytes are encrypted when the transport has room for them. Until then they wait with the session, in chunks that many
sessions share. At most ``PART`` bytes wait encrypted because the transport took only some of them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol as TwistedProtocol
from zope.interface import implementer

from bussrv.memory.limits import HeldMemory

PART = 32 << 10
"""The most bytes that are encrypted before the transport has taken those before them."""

MOST_UNSENT = 128 << 10
"""The most encrypted bytes that may wait. Beyond it the other end asks TLS for more answers than it reads."""


@implementer(IPushProducer)
class _Room:
    """Hears from the transport whether there is room."""

    def __init__(self, output: TlsOutput) -> None:
        self._output = output

    def pauseProducing(self) -> None:
        """The transport is full."""
        self._output.is_full()

    def resumeProducing(self) -> None:
        """The transport has room again."""
        self._output.has_room()

    def stopProducing(self) -> None:
        """The connection is gone."""


class TlsOutput(TwistedProtocol):
    """The transport of a session, over TLS.

    :ivar tls: ``None`` until the other end has said something.
    :ivar outgoing: what TLS has made.
    :ivar is_closing: whether nothing more is sent, because the connection is being closed.
    :ivar is_over: whether the connection is cut, or gone.
    """

    transport: Any
    tls: ssl.SSLObject | None = None
    _producer: Any = None
    _holding: HeldMemory | None = None
    _send_now: Callable[[bytes], int] | None = None

    def __init__(self) -> None:
        self.outgoing = ssl.MemoryBIO()
        self._unsent = b""
        self._is_full = self.is_closing = self.is_over = False

    def begin_output(self) -> None:
        """The connection is there."""
        self._send_now = getattr(self.transport, "send_now", None)
        self.transport.registerProducer(_Room(self), True)

    def count_with(self, holding: HeldMemory) -> None:
        """Count the encrypted bytes that wait, too."""
        self._holding = holding

    @property
    def disconnecting(self) -> bool:
        """Whether the connection is being closed; some protocols of Twisted ask."""
        return self.is_closing or self.is_over

    @property
    def unsent(self) -> int:
        """How many encrypted bytes wait."""
        return len(self._unsent)

    def send_now(self, data: bytes) -> int:
        """Send as much as there is room for; see :class:`bussrv.net.transport.tcp.PromptServer`."""
        return self.send_some((data,))

    def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Send several pieces, one after the other; see :meth:`send_now`."""
        sent = 0
        for part in parts(pieces):
            if self._is_full or self.is_over:
                break
            try:
                self._encrypt(part)
            except ssl.SSLError:
                self.abortConnection()
                break
            self.flush()
            sent += len(part)
        return sum(map(len, pieces)) if self.is_over else sent

    def write(self, data: bytes) -> None:
        """Send a short text, which is kept until there is room for it."""
        if self.tls is not None and not (self.is_over or self.is_closing):
            self._encrypt(data)
            self.flush()

    def _encrypt(self, part: bytes | memoryview) -> None:
        assert self.tls is not None
        written = self.tls.write(part)
        while written < len(part):  # Some versions of Python write one record.
            written += self.tls.write(memoryview(part)[written:])

    def flush(self) -> None:
        """Send what TLS has made."""
        data = self.outgoing.read()
        if not data or self.is_over or self.is_closing:
            return
        if self._unsent or self._is_full:
            self._keep(self._unsent + data)
        elif self._send_now is None:
            self.transport.write(data)
        else:
            sent = self._send_now(data)
            if sent < len(data):
                self._keep(data[sent:])

    def _keep(self, data: bytes) -> None:
        self._unsent = data
        if self._holding is not None:
            self._holding.resize(len(data))
        if len(data) > MOST_UNSENT:
            self.abortConnection()

    def is_full(self) -> None:
        """The transport is full."""
        if not self._is_full:
            self._is_full = True
            if self._producer is not None:
                self._producer.pauseProducing()

    def has_room(self) -> None:
        """The transport has room again."""
        self._is_full = False
        if self._unsent and not self.is_over:
            data, self._unsent = self._unsent, b""
            self._keep(data[self._send(data) :])
        if self._producer is not None and not self._is_full:
            self._producer.resumeProducing()

    def _send(self, data: bytes) -> int:
        if self._send_now is not None:
            return self._send_now(data)
        self.transport.write(data)
        return len(data)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Tell ``producer``, a push producer, whether there is room."""
        self._producer = producer
        if self._is_full:
            producer.pauseProducing()

    def unregisterProducer(self) -> None:
        """Tell nobody any more."""
        self._producer = None

    def loseConnection(self) -> None:
        """Send what waits and the end of TLS, then close the connection."""
        if self.tls is not None and not self.is_over:
            with suppress(ssl.SSLError):  # It would wait for the other end's.
                self.tls.unwrap()
        self.close_after(self.outgoing.read())

    def close_after(self, last: bytes) -> None:
        """Close the connection after what waits, and ``last``, were sent."""
        if self.is_closing or self.is_over:
            return
        self.is_closing = True
        rest = self._unsent + last
        self.forget_output()
        self.transport.unregisterProducer()
        if rest:
            self.transport.write(rest)
        self.transport.loseConnection()

    def abortConnection(self) -> None:
        """Close the connection now."""
        self.is_over = True
        self.forget_output()
        self.transport.abortConnection()

    def getPeer(self) -> Any:
        """The address of the other end."""
        return self.transport.getPeer()

    def getHost(self) -> Any:
        """The address of this end."""
        return self.transport.getHost()

    def getHandle(self) -> Any:
        """The socket."""
        return getattr(self.transport, "getHandle", lambda: None)()

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Send small segments at once."""
        getattr(self.transport, "setTcpNoDelay", lambda on: None)(enabled)

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Find out that the other end has vanished."""
        getattr(self.transport, "setTcpKeepAlive", lambda on: None)(enabled)

    def forget_output(self) -> None:
        """Forget what waits."""
        self._unsent = b""
        if self._holding is not None:
            self._holding.resize(0)


def parts(pieces: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Pieces in parts of at most ``PART`` bytes: short ones are joined to one record, long ones are not copied."""
    short: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if short and size + len(piece) > PART:
            yield b"".join(short)
            short, size = [], 0
        if len(piece) <= PART:
            short.append(piece)
            size += len(piece)
        else:
            whole = memoryview(piece)
            yield from (whole[begin : begin + PART] for begin in range(0, len(whole), PART))
    if short:
        yield short[0] if len(short) == 1 else b"".join(short)
