"""The client of Inbus."""

import json
import socket

import pytest

from bussrv.client import inbus as client
from bussrv.client.inbus import InbusSubscriber, publish
from bussrv.errors import Refused
from bussrv.wire import inbus
from bussrv.wire.inbus import Datagram
from tests.tables import each_row


class Server:
    """An Inbus server: a socket, read and written by the test itself."""

    def __init__(self, host="127.0.0.1"):
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(30)
        self.socket.bind((host, 0))
        self.address = self.socket.getsockname()[:2]

    def receive(self):
        return inbus.decode(self.socket.recv(1 << 16))

    def send(self, data, subscriber):
        self.socket.sendto(data, subscriber.address)


@pytest.fixture
def server():
    server = Server()
    yield server
    server.socket.close()


@pytest.mark.parametrize("version", [1, 2])
def test_subscribing_receiving_renewing_and_unsubscribing(server, version):
    with InbusSubscriber("upnp", server.address, version) as subscriber:
        host, port = subscriber.address
        assert host == "127.0.0.1"
        assert server.receive() == Datagram(version, 1, "upnp", 0, host, port, b"")
        server.send(inbus.publish("upnp", 17, b"one", version), subscriber)
        server.send(inbus.publish("upnp", 18, b"two", version), subscriber)
        assert subscriber.receive(30) == Datagram(version, 3, "upnp", 17, "", 0, b"one")
        assert subscriber.receive() == Datagram(version, 3, "upnp", 18, "", 0, b"two")
        subscriber.renew()
        assert server.receive() == Datagram(version, 1, "upnp", 0, host, port, b"")
    assert server.receive() == Datagram(version, 2, "upnp", 0, host, port, b"")


def test_version_2_is_what_is_spoken_unless_told_otherwise(server):
    with InbusSubscriber("upnp", server.address) as subscriber:
        assert server.receive().version == 2
        server.send(inbus.publish("upnp", 1, b"\xff\0", 2), subscriber)
        assert subscriber.receive(30).payload == b"\xff\0"
    publish("upnp", b"\xff", server=server.address)
    assert [server.receive().opcode, server.receive()] == [2, Datagram(2, 3, "upnp", 1, "", 0, b"\xff")]


def test_what_does_not_publish_on_the_app_key_is_dropped(server):
    with InbusSubscriber("upnp", server.address) as subscriber:
        for data in (
            b"",
            b"\xff",
            b"{}",
            inbus.publish("other", 1, b"x"),
            inbus.subscribe("upnp", "127.0.0.1", 1),
            inbus.unsubscribe("upnp", "127.0.0.1", 1),
            inbus.publish("upnp", 1, b"this"),
        ):
            server.send(data, subscriber)
        assert subscriber.receive(30).payload == b"this"


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_receiving_times_out_with_a_sentence(server, timeout):
    with InbusSubscriber("upnp", server.address) as subscriber:
        server.send(b"dropped", subscriber)
        with pytest.raises(TimeoutError) as caught:
            subscriber.receive(timeout)
        where = f"{server.address[0]} port {server.address[1]}"
        assert str(caught.value) == f"nothing on upnp came from {where} within {timeout} s"


def test_a_timeout_of_zero_takes_what_is_there(server):
    with InbusSubscriber("upnp", server.address) as subscriber:
        server.send(inbus.publish("upnp", 1, b"x"), subscriber)
        assert subscriber.receive(0).payload == b"x"


def test_a_closed_subscriber_says_so(server):
    subscriber = InbusSubscriber("upnp", server.address)
    subscriber.close()
    subscriber.close()
    assert [server.receive().opcode, server.receive().opcode] == [1, 2]
    for call in (subscriber.receive, subscriber.renew):
        with pytest.raises(ConnectionError, match="this subscriber of upnp is closed"):
            call()
    server.socket.settimeout(0)
    with pytest.raises(BlockingIOError):
        server.receive()


def test_each_subscriber_has_a_port_of_its_own(server):
    with InbusSubscriber("a", server.address) as one, InbusSubscriber("a", server.address) as two:
        assert one.address[1] != two.address[1]


def test_closing_never_fails(server, monkeypatch):
    subscriber = InbusSubscriber("upnp", server.address)
    subscriber._server = ("127.0.0.1", 0)
    subscriber.close()
    assert subscriber._socket.fileno() == -1


@each_row("host", ["0.0.0.0", "::"])
def test_an_address_that_nothing_can_be_sent_to(host):
    with pytest.raises(ValueError, match=f"nothing can be sent to {host}"):
        InbusSubscriber("upnp", host=host)


def test_an_address_of_another_machine():
    with pytest.raises(OSError, match="Cannot assign requested address"):
        InbusSubscriber("upnp", host="192.0.2.1")


@pytest.mark.parametrize(
    ("arguments", "message"), [(("*",), "reserved"), (("upnp", client.SERVER, 3), "version is 1 or 2, not 3")]
)
def test_what_no_subscription_can_say(arguments, message, recwarn):
    with pytest.raises(ValueError, match=message):
        InbusSubscriber(*arguments)
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]


@each_row("name", ["", "x" * 256, "a\nb"])
def test_impossible_names_are_refused_before_they_are_sent(name):
    for call in (lambda: InbusSubscriber(name), lambda: publish(name, b"")):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.reason == "bad-service-name"


def test_ipv6():
    try:
        server = Server("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with InbusSubscriber("upnp", server.address, host="::1") as subscriber:
        assert (server.receive().host, subscriber.address[0]) == ("::1", "::1")
        server.send(inbus.publish("upnp", 1, b"x"), subscriber)
        assert subscriber.receive(30).payload == b"x"
    publish("upnp", b"x", server=server.address)
    assert [server.receive().opcode, server.receive().opcode] == [2, 3]
    server.socket.close()


def test_publishing(server):
    publish("upnp", b"Omega", app_type=17, version=1, server=server.address)
    data, source = server.socket.recvfrom(1 << 16)
    assert inbus.decode(data) == Datagram(1, 3, "upnp", 17, "", 0, b"Omega")
    assert list(json.loads(data)) == ["version", "opcode", "application", "address", "payload"]
    publish("upnp", b"", server=server.address)
    _, other = server.socket.recvfrom(1 << 16)
    assert source[0] == other[0] == "127.0.0.1"


def test_the_longest_payload_that_a_datagram_carries(server):
    room = (inbus.MAX_DATAGRAM - len(inbus.publish("upnp", 1, b"", 2))) // 4 * 3
    publish("upnp", bytes(room), server=server.address)
    assert server.receive().payload == bytes(room)
    with pytest.raises(ValueError, match=f"a payload of {room + 1} bytes makes a datagram of .* the most is 65507"):
        publish("upnp", bytes(room + 1), server=server.address)
    text = b"x" * (inbus.MAX_DATAGRAM - len(inbus.publish("upnp", 1, b"", 1)))
    publish("upnp", text, version=1, server=server.address)
    assert server.receive().payload == text
    with pytest.raises(ValueError, match="makes a datagram of 65508 bytes"):
        publish("upnp", text + b"x", version=1, server=server.address)


def test_version_1_carries_only_text(server):
    with pytest.raises(ValueError, match="can't decode byte 0xff"):
        publish("upnp", b"\xff", version=1, server=server.address)


@each_row("version", [1, 2])
def test_a_text_is_no_payload(version):
    with pytest.raises(TypeError, match="a payload is bytes, not str: encode it"):
        publish("tv", "hello", version=version, server=("127.0.0.1", 9))
