"""MQTT with a client that others wrote, paho-mqtt: over TCP, WebSocket, and TLS with both."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.testing.server import PATIENCE, RunningServer
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.writer import encode
from tests.certificates import Authority
from tests.end_to_end.journals import events_of
from tests.end_to_end.paho import VERSIONS, Paho
from tests.forked import ForkedServer
from tests.net.tls.tls_clients import Place
from tests.wire.test_websocket import CLOSE, TEXT, frame

pytestmark = pytest.mark.processes

POLICY = '[[rule]]\nusers = "ann"\nprovide = "*"\npublish = "*"\nwatch = "*"\n'


@pytest.mark.parametrize("version", VERSIONS)
def test_paho_speaks_over_websocket_as_over_tcp(tmp_path: Path, version: int) -> None:
    """With a server that is started as users start it."""
    journal, large = tmp_path / "journal", os.urandom(200_000)
    with (
        ForkedServer(journal, ["--mqtt", "0", "--websocket", "0"]) as server,
        Paho(server, "websocket", "page", version) as page,
        Paho(server, "mqtt", "wired", version) as wired,
    ):
        assert (page.code, wired.code) == (0, 0)
        for receiver, sender in ((page, wired), (wired, page)):
            assert receiver.subscribe("hall/#", 2) == 2
            for qos in range(3):
                sender.publish(f"hall/{qos}", large, qos)
                assert receiver.message() == (f"hall/{qos}", large)
            receiver.client.unsubscribe("hall/#")
        page.publish("state", b"on", 1, retain=True)
        wired.subscribe("state")
        assert wired.message() == ("state", b"on")
        with Paho(server, "websocket", "wired", version) as other:
            assert wired.end() == (0x8E if version == 5 else 0x80)
            wired.client.disconnect()
            assert other.code == 0
        assert server.stop() == 0
    opened = [each for each in events_of(journal, ev.SessionOpened) if isinstance(each, ev.SessionOpened)]
    assert [each.protocol for each in opened] == ["bus", "mqtt", "mqtt", "mqtt"]


class Secured:
    """A server whose ports of MQTT and WebSocket speak TLS, and take the certificate of a client as its login."""

    def __init__(self, directory: Path) -> None:
        self.place = Place(directory)
        self.journal = directory / "journal"
        policy = directory / "policy.toml"
        policy.write_text(POLICY)
        port = f"{self.place.port}:clientCA={self.place.authority.file}:clientCert=optional"
        options = ["--mqtt", port, "--websocket", port, "--auth", "certificates:cn", "--policy", str(policy)]
        self.server = ForkedServer(self.journal, options)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("mqtts"))
    with made.server:
        yield made
        assert made.server.stop() == 0
    assert not any("Traceback" in line for line in made.server.lines)


@pytest.mark.parametrize("name", ["mqtt", "websocket"])
def test_the_certificate_of_a_client_is_its_login(secured: Secured, name: str) -> None:
    server, place = secured.server, secured.place
    with (
        Paho(server, name, f"ann {name}", place=place, pair=place.client) as ann,
        Paho(server, name, f"stranger {name}", place=place) as stranger,
    ):
        assert (ann.code, stranger.code) == (0, 0x87)
        assert ann.subscribe("hall/+", 1) == 1
        ann.publish("hall/tv", b"on", 1)
        assert ann.message() == ("hall/tv", b"on")
    proofs = [each for each in events_of(secured.journal, ev.AuthSucceeded) if isinstance(each, ev.AuthSucceeded)]
    assert {(each.actor, each.method) for each in proofs} == {("ann", "certificate")}


@pytest.mark.parametrize("name", ["mqtt", "websocket"])
def test_a_certificate_that_nobody_here_signed_is_refused(secured: Secured, name: str, tmp_path: Path) -> None:
    pair = Authority(tmp_path / "strangers").pair(tmp_path / "stranger", "ann")
    stranger = Paho(secured.server, name, "stranger", place=secured.place, pair=pair)
    assert stranger.why_not() in {"TLSV1_ALERT_UNKNOWN_CA", "CONN_LOST"}
    assert stranger.code is None


# Sockets without a client.


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    options = ["--mqtt", "0", "--websocket", "0", "--subscribe-timeout", "1", "--close-timeout", "1"]
    with ForkedServer(tmp_path_factory.mktemp("plain") / "journal", options) as server:
        yield server


def upgraded(server: RunningServer) -> socket.socket:
    """A connection whose client has asked for MQTT over WebSocket, and has read the answer."""
    connection = socket.create_connection(server.addresses["websocket"], PATIENCE)
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n".encode()
    )
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        said += connection.recv(1)
    assert b"\r\nSec-WebSocket-Protocol: mqtt\r\n" in said
    return connection


def receive(connection: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size and (piece := connection.recv(size - len(said))):
        said += piece
    return said


CONNECT, PINGREQ = (encode(each, 4) for each in (packets.Connect("ann", 4), packets.Pingreq()))
CONNACK, PINGRESP = b"\x82\x04\x20\x02\x00\x00", b"\x82\x02\xd0\x00"


def closing(code: int, reason: str) -> bytes:
    return bytes((0x88, 2 + len(reason))) + code.to_bytes(2, "big") + reason.encode()


def go_half(connection: socket.socket) -> None:
    connection.sendall(frame(CONNECT + PINGREQ[:1]) + frame(PINGREQ[1:]))
    connection.shutdown(socket.SHUT_WR)


def say_text(connection: socket.socket) -> None:
    connection.sendall(frame(CONNECT) + frame(PINGREQ) + frame(PINGREQ, TEXT))


def say_nothing(connection: socket.socket) -> None:
    """Not even CONNECT."""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (go_half, CONNACK + PINGRESP + closing(1000, "client-closed")),
        (say_text, CONNACK + PINGRESP + closing(1003, "not-binary")),
        (say_nothing, closing(1008, "subscribe-timeout")),
    ],
)
def test_a_connection_ends_as_the_page_says(
    plain: RunningServer, act: Callable[[socket.socket], None], said: bytes
) -> None:
    with upgraded(plain) as connection:
        act(connection)
        assert receive(connection, len(said)) == said
        if act is not go_half:
            connection.sendall(frame(b"", CLOSE))
        assert connection.recv(1) == b""
