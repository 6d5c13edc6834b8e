"""A server of objects that makes mistakes on purpose; otherwise everybody who subscribes gets what is published."""

from __future__ import annotations

import json
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType

PROBE = 1 << 47
SEQUENCE = PROBE - 1

Fault = Callable[[int, bytes], list[bytes]]
"""What becomes of a publication: its sequence number and bytes to what is sent."""


def split(data: bytearray) -> Iterator[tuple[dict[str, object], bytes, bytes]]:
    """Take whole objects from the front: metadata, payload, and all of its bytes."""
    while (end := data.find(0)) >= 0:
        metadata = json.loads(data[:end])
        whole = end + 1 + metadata.get("size", 0)
        if len(data) < whole:
            return
        yield metadata, bytes(data[end + 1 : whole]), bytes(data[:whole])
        del data[:whole]


class Relay:
    """Runs in a thread, as a context manager.

    :param fault: its mistakes; the probes, by which the generator knows that all is set up, are spared them.
    :param chunk: how many bytes it sends at a time.
    """

    def __init__(self, fault: Fault = lambda _, frame: [frame], chunk: int = 1 << 16) -> None:
        self._fault = fault
        self._chunk = chunk
        self._poll = selectors.DefaultSelector()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._received: dict[socket.socket, bytearray] = {}
        self._subscribers: list[socket.socket] = []
        self._ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        self._thread.join()
        for each in (self._listening, self._theirs, *self._received):
            each.close()
        self._poll.close()

    def _serve(self) -> None:
        self._poll.register(self._listening, selectors.EVENT_READ)
        self._poll.register(self._theirs, selectors.EVENT_READ)
        while True:
            for key, _ in self._poll.select():
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if connection is self._theirs:
                    return
                if connection is self._listening:
                    accepted, _ = connection.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._received[accepted] = bytearray()
                    self._poll.register(accepted, selectors.EVENT_READ)
                    continue
                self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self._poll.unregister(connection)
            self._subscribers = [each for each in self._subscribers if each is not connection]
            return
        self._received[connection] += data
        for metadata, payload, frame in split(self._received[connection]):
            if metadata.get("event") in ("routing/subscribe", "services/register"):
                self._answer(connection, metadata)
            else:
                self._relay(payload, frame)

    def _answer(self, connection: socket.socket, metadata: dict[str, object]) -> None:
        reply = {"event": f"{metadata['event']}/reply", "in-reply-to": metadata["id"]}
        connection.sendall(json.dumps(reply).encode() + b"\0")
        if "types" in metadata:
            self._subscribers.append(connection)

    def _relay(self, payload: bytes, frame: bytes) -> None:
        (word,) = struct.unpack_from("<Q", payload)
        frames = [frame] if word & PROBE else self._fault(word & SEQUENCE, frame)
        data = b"".join(frames)
        chunks = [data[start : start + self._chunk] for start in range(0, len(data), self._chunk)]
        for subscriber in self._subscribers:
            # The generator may be gone already.
            with suppress(ConnectionError):
                for chunk in chunks:
                    subscriber.sendall(chunk)
