"""A TLS connection passes on what was sent, however it was cut into records and chunks, and whoever pauses."""

import contextlib
import ssl
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from bussrv.net.tls.connection import TlsConnection, record_buffer
from bussrv.turns.slices import Slices
from tests.formats.network import Transport
from tests.net.tls.tls_clients import Place


class Served:
    """What is served: keeps what it is given."""

    def __init__(self) -> None:
        self.got = b""
        self.ends = 0
        self.is_paused = False

    def makeConnection(self, transport: Any) -> None:
        self.transport = transport

    def dataReceived(self, data: bytes) -> None:
        assert not self.is_paused
        self.got += data

    def readConnectionLost(self) -> None:
        assert not self.is_paused
        self.ends += 1

    def connectionLost(self, reason: Any) -> None:
        """It is gone."""


class Side:
    is_port = True

    def __init__(self, context: ssl.SSLContext) -> None:
        self.clock = Clock()
        self.slices = Slices(self.clock, 1.0, Counter())
        self.record = record_buffer()
        self.served = Served()
        self.failures: list[str] = []
        self._context = context

    def begun(self, connection: TlsConnection, peer: str) -> bool:
        return True

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self._context.wrap_bio(incoming, outgoing, server_side=True)

    def established(self, connection: TlsConnection) -> None:
        connection.serve(self.served)

    def failed(self, connection: TlsConnection, why: str, *, proved_nothing: bool) -> None:
        self.failures.append(why)

    def gone(self, connection: TlsConnection) -> None:
        """It is gone."""


class Wire:
    """A connection, and the client's end of it."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, cut: int) -> None:
        self.side = Side(server)
        self.connection = TlsConnection(self.side)
        self.transport = Transport()
        self.transport.protocol = self.connection
        self.connection.makeConnection(self.transport)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            said = self.outgoing.read()
            if not said:
                return
            self.pass_on(said, cut)
            self.incoming.write(self.transport.value())
            self.transport.clear()

    def pass_on(self, data: bytes, cut: int) -> None:
        for begin in range(0, len(data), cut):
            self.connection.dataReceived(data[begin : begin + cut])
        self.side.clock.advance(0)

    def pause(self, is_paused: bool) -> None:
        served = self.side.served
        served.is_paused = is_paused
        if is_paused:
            self.connection.pauseProducing()
        else:
            self.connection.resumeProducing()
        self.side.clock.advance(0)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    place = Place(Path(tmp_path_factory.mktemp("tls")))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(place.server.certificate, place.server.key)
    return server, place.context()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 40_000), st.sampled_from([1, 7, 100, 20_000]), st.just(0)),
        st.tuples(st.just("pass on"), st.just(0), st.just(0), st.sampled_from([1, 3, 5, 22, 1000, 1 << 16])),
        st.tuples(st.sampled_from(["pause", "go on"]), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@given(steps, st.sampled_from([1, 5, 1000]), st.booleans())
def test_what_was_sent_is_passed_on(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
    history: list[tuple[str, int, int, int]],
    cut: int,
    with_end: bool,
) -> None:
    wire, sent, number = Wire(*contexts, cut), b"", 0
    for step, size, record, cut in history:
        if step == "send":
            number += 1
            data = bytes([number]) * min(size, 300 * record)
            for begin in range(0, len(data), record):
                wire.tls.write(data[begin : begin + record])
            sent += data
        elif step == "pass on":
            wire.pass_on(wire.outgoing.read(), cut)
            if not wire.side.served.is_paused:
                assert wire.side.served.got == sent
        else:
            wire.pause(step == "pause")
    if with_end:
        with contextlib.suppress(ssl.SSLError):
            wire.tls.unwrap()
    wire.pass_on(wire.outgoing.read(), 1 << 16)
    wire.connection.readConnectionLost()
    wire.pause(False)
    wire.side.clock.advance(0)
    assert (wire.side.served.got, wire.side.served.ends, wire.side.failures) == (sent, 1, [])


def test_a_connection_that_cannot_be_served_is_closed(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Served, "makeConnection", lambda self, transport: 1 / 0)
    with capturedLogs() as logged:
        wire = Wire(*contexts, 1 << 16)
    assert [event["log_failure"].type for event in logged] == [ZeroDivisionError]
    assert wire.transport.aborted


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_break_it(contexts: tuple[ssl.SSLContext, ssl.SSLContext], junk: bytes, place: int) -> None:
    """Not before the handshake, and not after it: the worst that comes of them is the end."""
    side = Side(contexts[0])
    early = TlsConnection(side)
    transport = Transport()
    transport.protocol = early
    early.makeConnection(transport)
    early.dataReceived(b"\x16" + junk)
    early.readConnectionLost()
    assert (side.failures != [], transport.connected) == (True, False)
    wire = Wire(*contexts, 1 << 16)
    wire.tls.write(bytes(100))
    data = wire.outgoing.read()
    wire.pass_on(data[: place % len(data)] + junk + data[place % len(data) :], 1 << 16)
    assert set(wire.side.served.got) <= {0}
