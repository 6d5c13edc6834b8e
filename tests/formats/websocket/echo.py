"""An echo over WebSocket, made of the part of the server that reads and writes frames, for the Autobahn test suite.

``python -m tests.formats.websocket.echo`` serves it at ws://127.0.0.1:9001. Then, in an environment with Python 2.7 and
``autobahntestsuite==0.8.2``, ``wstest -m fuzzingclient -s FILE`` tries it, where the file has::

    {"outdir": "report", "cases": ["*"], "exclude-cases": ["12.*", "13.*"],
     "servers": [{"agent": "bussrv", "url": "ws://127.0.0.1:9001"}]}
"""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory, Protocol
from wsproto.frame_protocol import Frame, Opcode

from bussrv.errors import RemoteProtocolError
from bussrv.wire import frames

PORT = 9001


class TypedReader(frames.FrameReader):
    """:ivar kind: of the message that is read, text or binary."""

    kind = Opcode.BINARY

    def _read_frame(self, frame: Frame) -> Any:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self.kind = frame.opcode
        return super()._read_frame(frame)


class Echo(Protocol):
    """Sends each message back, answers pings, and closes as the server does."""

    transport: Any

    def connectionMade(self) -> None:
        self._reader = TypedReader("echo", takes_text=True)
        self._parts: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (event := self._reader.read()) is not None:
                self._answer(event)
        except RemoteProtocolError as error:
            self._close(error.reason)

    def _answer(self, event: Any) -> None:
        if isinstance(event, frames.Upgrade):
            self.transport.write(self._reader.accept())
        elif isinstance(event, frames.Pinged):
            self.transport.write(frames.pong(event.payload))
        elif isinstance(event, frames.ClosedByClient):
            self._close("client-closed")
        elif isinstance(event, frames.Fragment):
            self._parts.append(event.payload)
            if event.is_last:
                message, self._parts = b"".join(self._parts), []
                self.transport.write(frames._frame(self._reader.kind, message))

    def _close(self, reason: str) -> None:
        self.transport.write(self._reader.close(reason))
        self.transport.loseConnection()


def main() -> None:
    from twisted.internet import reactor

    factory = Factory.forProtocol(Echo)
    reactor.listenTCP(PORT, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
    reactor.run()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
