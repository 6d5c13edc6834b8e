"""TCP connections that send immediately, and receive without fragmenting the server's memory.

Writing: Twisted's own transport waits until the reactor reports that a connection is writable. That takes a change of
the polled set and a round of polling for each write, although there is room in most cases. Here, bytes are sent
immediately. Bytes that do not fit, and all later ones, are sent in Twisted's way. A write that fails is repeated there,
and ends the connection as usual.

Reading: Twisted's own transport allocates 64 KiB for each read, then shrinks them to the size of the chunk. Meanwhile
TLS and others allocate in the part that was freed, so that the next 64 KiB need another place. If connections come and
go, the memory of a server grows by half in minutes. Here, all connections read into one buffer.

The compiled module reads and sends without giving up Python's lock. The methods of a socket give it up for each call,
and then wait until the thread of the journal gives it back. That is a tenth of the cost of a change of the registry.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twisted.internet import main, tcp
from twisted.python.failure import Failure

from bussrv.compiled import SPEEDUPS
from bussrv.net.transport.losing import Losses
from bussrv.net.transport.shared_poll import SharedPoll, can_share

MOST_READ = 120 << 10
"""The most bytes of one read. From 128 KiB on, the C library may ask the system for the memory of each chunk anew."""

_TCP_FAMILIES = (socket.AF_INET, socket.AF_INET6)


_room = memoryview(bytearray(MOST_READ))
# All connections receive into this. Its content is copied before anything else happens.


def _receive(connection: socket.socket) -> bytes:
    return bytes(_room[: connection.recv_into(_room)])


receive: Callable[[socket.socket], bytes] = _receive if SPEEDUPS is None else SPEEDUPS.receive
"""The bytes that came; none: no more will come. Errors are those of ``recv``, but for a closed socket."""

send: Callable[[socket.socket, bytes], int] = socket.socket.send if SPEEDUPS is None else SPEEDUPS.send
"""Sends bytes as far as there is room, and returns how many were sent. Errors are those of ``send``, but for a closed
socket."""

FAILED = (OSError, ValueError)
"""The errors of both. A closed socket has no descriptor, which is a ``ValueError``."""


def _wait(_: bytes) -> int:
    """Takes the place of :func:`send` for a connection that may not be sent to now."""
    raise BlockingIOError


class PromptServer(tcp.Server):
    """A TCP connection of a client.

    :ivar try_send: does what :func:`send` does for this connection, by one call without a method of Python. Call
        :meth:`stalled` if it fails, or does not send everything. While the connection is waited for, it always fails.
    """

    _polled_as: int | None = None  # by its descriptor, if it is polled there now
    _is_read = _is_written = _is_lost = False

    def __init__(self, sock: Any, protocol: Any, client: Any, server: Any, number: int, reactor: Any) -> None:
        self._poll: SharedPoll | None = getattr(server, "shared_poll", None)
        self._losses: Losses | None = getattr(server, "losses", None)
        self.try_send: Callable[[bytes], int] = _wait
        super().__init__(sock, protocol, client, server, number, reactor)
        self.try_send = self._try_send = partial(send, self.socket)

    def startReading(self) -> None:
        """Read from now on."""
        if self._is_lost:
            return
        self._is_read = True
        if self._poll is None or self._is_written:
            super().startReading()
        elif self._polled_as is None:
            self._polled_as = self._poll.add(self)

    def stopReading(self) -> None:
        """Do not read any more."""
        self._is_read = False
        if not self._leave_poll():
            super().stopReading()

    def _leave_poll(self) -> bool:
        number, self._polled_as = self._polled_as, None
        if number is not None and self._poll is not None:
            self._poll.remove(number)
        return number is not None

    def readConnectionLost(self, reason: Failure) -> None:
        """The reactor has stopped reading, because the other end sends no more."""
        self._is_read = False
        super().readConnectionLost(reason)

    def startWriting(self) -> None:
        """Wait until there is room. Meanwhile the reactor polls the connection."""
        self.try_send = _wait
        if self._is_lost:
            return
        self._is_written = True
        if self._leave_poll():
            super().startReading()
        super().startWriting()

    def stopWriting(self) -> None:
        """Do not wait any more."""
        self._is_written = False
        self.try_send = self._try_send if self._may_send() else _wait
        super().stopWriting()
        if self._poll is not None and self._is_read and self._polled_as is None:
            super().stopReading()
            self._polled_as = self._poll.add(self)

    def connectionLost(self, reason: Failure) -> None:
        """The connection is lost, and polled no longer. It ends in this turn of the reactor, or in a later one."""
        if self._is_lost:
            return
        self._is_lost = True
        if self._losses is None:
            self._end(reason)
            return
        self._leave_poll()
        self.try_send = _wait
        producer: Any = self.producer
        self.producer = None
        if producer is not None:
            # Otherwise it would collect what waits for a client that is gone.
            producer.stopProducing()
        self._losses.lose(partial(self._end, reason))

    def _end(self, reason: Failure) -> None:
        super().connectionLost(reason)

    def startTLS(self, *given: Any) -> None:
        """Encrypt from now on. Nothing is sent without that any more."""
        self.try_send = _wait
        super().startTLS(*given)

    def doRead(self) -> Any:
        """Give the protocol the bytes that have come. :returns: the reason why the connection is over, or ``None``."""
        try:
            data = receive(self.socket)
        except BlockingIOError:
            return None
        except FAILED:
            return main.CONNECTION_LOST
        if not data:
            return main.CONNECTION_DONE
        self.protocol.dataReceived(data)
        return None

    def write(self, data: bytes) -> None:
        """Send as much as there is room for, and the rest later."""
        is_open = self.connected and not (self.TLS or self._writeDisconnected)
        if is_open and data and not (self.dataBuffer or self._tempDataBuffer):
            try:
                sent = send(self.socket, data)
            except FAILED:
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
        super().write(data)

    def send_now(self, data: bytes) -> int:
        """Send as much as there is room for, and do not keep the rest. If there is a rest, pause the producer.

        :returns: how many bytes were sent; all of them if the connection is gone, because they do not matter then.
        """
        # As _may_send() says. This is called for every client, and a call less is felt.
        is_open = self.connected and not (self.TLS or self._writeDisconnected)
        try:
            sent = send(self.socket, data) if is_open and not (self.dataBuffer or self._tempDataBuffer) else 0
        except FAILED:
            sent = 0  # The connection is full or broken. If it is broken, the next attempt ends it.
        return sent if sent == len(data) else self.stalled(sent, len(data))

    def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Send several pieces, one after the other; see :meth:`send_now`."""
        size = sum(map(len, pieces))
        try:
            sent = self.socket.sendmsg(pieces) if self._may_send() else 0
        except OSError:
            sent = 0
        return sent if sent == size else self.stalled(sent, size)

    def _may_send(self) -> bool:
        return bool(self.connected) and not (
            self.TLS or self._writeDisconnected or self.dataBuffer or self._tempDataBuffer
        )

    def stalled(self, sent: int, size: int) -> int:
        """Pause the producer until there is room again: ``sent`` bytes of ``size`` were sent.

        :returns: see :meth:`send_now`.
        """
        if not self.connected or self._writeDisconnected:
            return size
        self.producerPaused = True
        self.startWriting()
        producer: Any = self.producer
        if producer is not None:
            producer.pauseProducing()
        return sent


def be_prompt(port: Any, factory: Any, begin: Callable[[], object], end: Callable[[], object]) -> None:
    """Make connections of ``port`` send immediately, and be polled together, if it is one of plain TCP for ``factory``.

    Other ports have another transport of this package between protocol and connection, which does its own sending.

    :param begin: see :class:`bussrv.net.transport.shared_poll.SharedPoll`; so is ``end``.
    """
    is_plain = isinstance(port, tcp.Port) and port.transport is tcp.Server and port.factory is factory
    if is_plain:
        port.transport = PromptServer
        port.losses = losses = Losses(port.reactor)
        if can_share(port.reactor):
            port.shared_poll = SharedPoll(port.reactor, begin, end, losses)


def bound_send_buffer(port: Any, size: int) -> None:
    """Let the system hold at most ``size`` unsent bytes, or a little more, for each connection of ``port``.

    Otherwise the system keeps megabytes for every client that does not read. Bytes in flight do not count, so a
    connection over a long distance stays as fast. Only TCP on Linux and macOS has this option.
    """
    option, listening = getattr(socket, "TCP_NOTSENT_LOWAT", None), getattr(port, "socket", None)
    if option is not None and isinstance(listening, socket.socket) and listening.family in _TCP_FAMILIES:
        # Connections inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, option, size)
