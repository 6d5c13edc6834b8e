"""Servers for one connection, in a thread of their own, on real loopback sockets."""

import socket
import threading

import pytest

from bussrv.wire import objects
from bussrv.wire.objects import ObjectReader

PATIENCE = 30


class Peer:
    """The server's end of a connection, with what a script for it needs."""

    def __init__(self, connection):
        connection.settimeout(PATIENCE)
        # Or what is told last may wait for an acknowledgement, and be lost with a connection that is closed unread.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.reader = ObjectReader()

    def send(self, data):
        self.connection.sendall(data)

    def tell(self, metadata, payload=b""):
        self.send(objects.encode(metadata, payload))

    def chunk(self):
        return self.connection.recv(1 << 16)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            data += self.chunk() or pytest.fail(f"the client closed after {data!r}")
        return data

    def object(self):
        """The metadata and payload of the next object."""
        while (found := self.reader.next_event()) is None:
            self.reader.feed(self.chunk() or pytest.fail("the client closed"))
        return found.fields(), found.payload

    def until_closed(self):
        """What the client sends until it closes."""
        return b"".join(iter(self.chunk, b""))

    def reset(self):
        """Break the connection off."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()


class Servers:
    def __init__(self):
        self.threads = []
        self.failures = []

    def __call__(self, script):
        """Start a server that runs ``script(peer)`` on its one connection and then closes it. :returns: its port."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(PATIENCE)
        thread = threading.Thread(target=self.run, args=(listener, script), daemon=True)
        self.threads.append(thread)
        thread.start()
        return listener.getsockname()[1]

    def run(self, listener, script):
        try:
            with listener:
                connection, _ = listener.accept()
            with connection:
                script(Peer(connection))
        except BaseException as error:
            self.failures.append(error)

    def finish(self):
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        for failure in self.failures:
            raise failure


@pytest.fixture
def serve():
    """``serve(script)``: see :class:`Servers`. What goes wrong in a script fails the test."""
    servers = Servers()
    yield servers
    servers.finish()


@pytest.fixture
def closed_port():
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
