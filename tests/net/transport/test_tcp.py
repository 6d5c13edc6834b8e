"""Connections that are sent to at once, held against Twisted's own: the same bytes each way, the same end."""

import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet import reactor, tcp
from twisted.internet.endpoints import serverFromString
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure

from bussrv.compiled import SPEEDUPS
from bussrv.net.listening import StreamListener
from bussrv.net.transport import tcp as prompt
from bussrv.net.transport.tcp import MOST_READ, PromptServer, be_prompt
from tests.formats.network import Network
from tests.tables import each_row


class Polled:
    """What a reactor polls."""

    def __init__(self):
        self.readers, self.writers = set(), set()

        self.addReader, self.removeReader = self.readers.add, self.readers.discard
        self.addWriter, self.removeWriter = self.writers.add, self.writers.discard


class Ending(Protocol):
    reason = None

    def __init__(self):
        self.got = []

    def dataReceived(self, data):
        self.got.append(data)

    def connectionLost(self, reason):
        self.reason = reason.type


class Slowly:
    """A producer that notes when it is to stop and to go on."""

    def __init__(self):
        self.is_paused = False

    def pauseProducing(self):
        self.is_paused = True

    def resumeProducing(self):
        self.is_paused = False

    def stopProducing(self):
        """The connection is gone."""


class Stock(tcp.Server):
    """Twisted's own, with reads as large as ours."""

    bufferSize = MOST_READ  # noqa: N815 - Twisted's name


class Pair:
    """A connection of one kind, and its other end."""

    def __init__(self, kind):
        self.is_ending = False
        ours, self.theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.theirs.setblocking(False)
        self.polled, self.protocol, self.producer = Polled(), Ending(), Slowly()
        self.transport = kind(ours, self.protocol, ("there", 1), None, 0, self.polled)
        self.protocol.makeConnection(self.transport)
        self.transport.registerProducer(self.producer, True)
        self.taken = b""

    def write(self, data):
        self.transport.write(data)

    def finish(self):
        self.is_ending = True
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def poll(self):
        """What a reactor does with a connection that can be written to, or whose other end is closed."""
        why = self.transport.doWrite() if self.transport in self.polled.writers else None
        if why is None and self.theirs.fileno() < 0 and self.transport in self.polled.readers:
            why = self.transport.doRead()
        if why is not None:
            self.transport.connectionLost(Failure(why))

    def receive(self, data):
        """The other end sends as much as there is room for, and it is read as a reactor would, or in vain."""
        with contextlib.suppress(OSError):
            self.theirs.send(data)
        why = self.transport.doRead() if self.protocol.reason is None else None
        if why is not None:
            self.transport.connectionLost(Failure(why))

    def take(self, most):
        try:
            self.taken += self.theirs.recv(most)
        except OSError:
            return

    def settle(self):
        """Everything is written and read that can be."""
        for _ in range(1000):
            self.poll()
            before = len(self.taken)
            self.take(1 << 20)
            if len(self.taken) == before and self.transport not in self.polled.writers:
                return

    def left(self):
        """The other end goes: what had arrived until then, and whether it is noticed."""
        got = [*self.protocol.got]
        self.theirs.close()
        # What is on its way is read first.
        for _ in range(10):
            if self.protocol.reason is None:
                self.poll()
        return got, self.protocol.reason is not None

    def close(self):
        self.theirs.close()
        if self.protocol.reason is None:
            self.transport.connectionLost(Failure(Exception()))


class Keeping(Pair):
    """What does not fit is kept here, where others may share it, and sent when there is room."""

    def __init__(self, kind):
        self.waiting, self.is_paused = [], False
        super().__init__(kind)
        self.transport.unregisterProducer()
        self.transport.registerProducer(self, True)
        self.producer = self

    def write(self, data):
        if data:
            self.waiting.append(memoryview(data))
            self.send()

    def finish(self):
        self.is_ending = True
        if not self.waiting:
            super().finish()

    def send(self):
        while self.waiting and not self.is_paused:
            alone = len(self.waiting) == 1
            send_now, send_some = self.transport.send_now, self.transport.send_some
            sent = send_now(bytes(self.waiting[0])) if alone else send_some(self.waiting[:2])
            while sent and sent >= len(self.waiting[0]):
                sent -= len(self.waiting.pop(0))
            if sent:
                self.waiting[0] = self.waiting[0][sent:]

    def pauseProducing(self):
        self.is_paused = True

    def resumeProducing(self):
        self.is_paused = False
        self.send()
        if self.is_ending:
            self.finish()

    def stopProducing(self):
        self.waiting.clear()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([0, 1, 100, 5000, 70_000, 300_000])),
        st.tuples(st.just("receive"), st.sampled_from([0, 1, 65_535, 65_536, 200_000])),
        st.tuples(st.just("take"), st.sampled_from([1, 5000, 100_000])),
        st.tuples(st.sampled_from(["poll", "finish", "go"]), st.just(0)),
    ),
    max_size=12,
)


def lived(kind, history, pair_of=Pair):
    """What arrives, and how it ends. Nothing is written once the end was asked for: whether that still goes out
    depends on whether everything before it has. Nor is asked what arrives after the other end has gone: a write that
    fails may come before it.
    """
    pair = pair_of(kind)
    try:
        for number, (step, size) in enumerate(history):
            if step == "write" and pair.is_ending:
                continue
            if step == "write":
                pair.write(bytes([number]) * size)
            elif step == "take":
                pair.take(size)
            elif step == "receive":
                pair.receive(bytes([number]) * size)
            elif step == "poll":
                pair.poll()
            elif step == "finish":
                pair.finish()
            else:
                return pair.left()
        pair.settle()
        # Who is not registered any more may have been stopped earlier, and is not told to go on.
        is_stuck = pair.transport.producer is not None and pair.producer.is_paused
        return pair.protocol.got, pair.taken, pair.protocol.reason, is_stuck
    finally:
        pair.close()


@given(steps)
def test_what_arrives_and_how_it_ends_is_the_same(history):
    expected = lived(Stock, history)
    assert lived(PromptServer, history) == expected
    assert lived(PromptServer, history, Keeping) == expected


def test_what_there_is_room_for_is_sent_at_once():
    pair = Pair(PromptServer)
    pair.transport.write(b"hello")
    pair.take(10)
    assert (pair.taken, pair.polled.writers) == (b"hello", set())
    pair.close()


def test_what_comes_behind_something_that_waits_waits_as_well():
    pair = Pair(PromptServer)
    sent = [b"a" * 300_000, b"b"]
    for each in sent:
        pair.transport.write(each)
    pair.take(1 << 20)
    assert pair.taken.count(b"b") == 0
    pair.settle()
    assert pair.taken == b"".join(sent)
    pair.close()


def test_an_error_ends_the_connection_when_the_reactor_polls():
    pair = Pair(PromptServer)
    pair.theirs.close()
    pair.transport.write(b"hello")
    assert pair.protocol.reason is None
    pair.poll()
    assert pair.protocol.reason is not None


@pytest.mark.parametrize(
    ("endpoint", "expected"), [("tcp:0:interface=127.0.0.1", PromptServer), ("unix:{path}", None)], ids=["tcp", "unix"]
)
def test_plain_tcp_sends_at_once_and_nothing_else_is_changed(endpoint, expected, tmp_path):
    network = Network()
    listener = StreamListener(network.factory("objects"), endpoint.format(path=tmp_path / "s"), reactor)
    listener.startService()
    port = listener._port
    assert port.transport is (expected or type(port).transport)
    listener.stopService()


def test_a_port_that_serves_through_something_else_keeps_its_own():
    ports = []
    serverFromString(reactor, "tcp:0:interface=127.0.0.1").listen(Network().factory("objects")).addCallback(
        ports.append
    )
    be_prompt(ports[0], None, lambda: None, lambda: None)
    assert ports[0].transport is tcp.Server
    ports[0].stopListening()


def test_what_does_not_fit_is_not_kept():
    pair = Keeping(PromptServer)
    pair.write(b"a" * 300_000)
    assert pair.waiting
    assert (pair.transport.dataBuffer, pair.transport._tempDataBuffer, pair.is_paused) == (b"", [], True)
    pair.settle()
    assert pair.taken == b"a" * 300_000
    pair.close()


@each_row(("interface", "family"), [("127.0.0.1", socket.AF_INET), ("\\:\\:1", socket.AF_INET6)])
def test_the_system_holds_little_for_each_connection_of_a_port(interface, family):
    network = Network(send_buffer=50_000)
    listener = StreamListener(network.factory("objects"), f"tcp:0:interface={interface}", reactor)
    listener.startService()
    listening = listener._port.socket
    assert listening.family == family
    assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 50_000
    client = socket.create_connection(listening.getsockname()[:2])
    accepted, _ = listening.accept()
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 50_000
    client.close()
    accepted.close()
    listener.stopService()


@pytest.mark.skipif(SPEEDUPS is None, reason="there is no compiled module")
@pytest.mark.parametrize(
    ("receive", "send"),
    [(SPEEDUPS and SPEEDUPS.receive, SPEEDUPS and SPEEDUPS.send), (prompt._receive, socket.socket.send)],
)
def test_the_compiled_module_receives_and_sends_as_sockets_do(receive, send):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            receive(ours)
        theirs.sendall(b"ab\0c")
        assert (receive(ours), send(ours, b"x\0y"), theirs.recv(9)) == (b"ab\0c", 3, b"x\0y")
        assert 0 < send(ours, bytes(1 << 20)) < 1 << 20
        with pytest.raises(BlockingIOError):
            send(ours, bytes(1 << 20))
        theirs.shutdown(socket.SHUT_WR)
        assert receive(ours) == b""
        theirs.close()
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send(ours, b"x")
    for gone in (lambda: receive(ours), lambda: send(ours, b"x")):
        with pytest.raises(prompt.FAILED):
            gone()
