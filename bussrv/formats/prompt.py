"""Connections that are sent to at once.

Twisted's own wait for the reactor to say that a connection may be written to: a change of what is polled, and another
round of polling, for each thing that is sent. Mostly there is room already. What does not fit goes Twisted's way, and
so does everything behind it; an error of a send is met there once more, and ends the connection as any other does.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import tcp


class PromptServer(tcp.Server):
    """A connection of a client."""

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


def be_prompt(port: Any, factory: Any) -> None:
    """Let connections of ``port`` be sent to at once, if that is one of plain TCP and serves ``factory`` itself."""
    if isinstance(port, tcp.Port) and port.transport is tcp.Server and port.factory is factory:
        port.transport = PromptServer
