"""Connections that are written to at once, and read without holes in memory.

Writing: Twisted's own transport waits until the reactor reports that a connection is writable. That takes a change of
the polled set and a round of polling for each write, though there is room in most cases. Bytes that do not fit, and all
later ones, are sent in Twisted's way. An error of a write occurs there once more, and ends the connection as usual.

Reading: Twisted's own transport takes 64 KiB of memory for what comes and cuts them to its size. Meanwhile TLS and
others take memory of the rest, so that the next 64 KiB need another place. With changing connections the memory of a
server grows by half in minutes.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from twisted.internet import main, tcp

_TCP_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class PromptServer(tcp.Server):
    """A connection of a client."""

    room = memoryview(bytearray(tcp.Connection.bufferSize))
    """Where all connections receive: the content is copied before anything else is done."""

    def doRead(self) -> Any:
        """Give the protocol what has come. :returns: why the connection is over, or ``None``."""
        try:
            size = self.socket.recv_into(self.room)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not size:
            return main.CONNECTION_DONE
        self.protocol.dataReceived(bytes(self.room[:size]))
        return None

    def write(self, data: bytes) -> None:
        """Send as much as there is room for, and the rest later."""
        is_open = self.connected and not (self.TLS or self._writeDisconnected)
        if is_open and data and not (self.dataBuffer or self._tempDataBuffer):
            try:
                sent = self.socket.send(data)
            except OSError:
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
        super().write(data)

    def send_now(self, data: bytes) -> int:
        """Send as much as there is room for; the rest is not kept. If there is any, the producer is paused.

        :returns: how many bytes were sent, or do not matter because the connection is gone.
        """
        try:
            sent = self.socket.send(data) if self._may_send() else 0
        except OSError:
            sent = 0  # Full, or broken: then the next attempt ends the connection.
        return sent if sent == len(data) else self._stalled(sent, len(data))

    def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        """The same for several pieces, one after the other."""
        size = sum(map(len, pieces))
        try:
            sent = self.socket.sendmsg(pieces) if self._may_send() else 0
        except OSError:
            sent = 0
        return sent if sent == size else self._stalled(sent, size)

    def _may_send(self) -> bool:
        return bool(self.connected) and not (
            self.TLS or self._writeDisconnected or self.dataBuffer or self._tempDataBuffer
        )

    def _stalled(self, sent: int, size: int) -> int:
        """Have the producer resumed when there is room again."""
        if not self.connected or self._writeDisconnected:
            return size
        self.producerPaused = True
        self.startWriting()
        producer: Any = self.producer
        if producer is not None:
            producer.pauseProducing()
        return sent


def be_prompt(port: Any, factory: Any) -> None:
    """Let connections of ``port`` be sent to at once, if that is one of plain TCP and serves ``factory`` itself.

    Between that and the connection there may be another transport of this package, which does its own sending.
    """
    if isinstance(port, tcp.Port) and port.transport is tcp.Server and port.factory is factory:
        port.transport = PromptServer


def bound_send_buffer(port: Any, size: int) -> None:
    """Let the system hold at most ``size`` unsent bytes, or a little more, for each connection of ``port``.

    Otherwise it takes megabytes for every client that does not read. What is on its way is not counted, so a connection
    to far away is as fast as ever. Only TCP on Linux and macOS can do that.
    """
    option, listening = getattr(socket, "TCP_NOTSENT_LOWAT", None), getattr(port, "socket", None)
    if option is not None and isinstance(listening, socket.socket) and listening.family in _TCP_FAMILIES:
        # Connections inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, option, size)
