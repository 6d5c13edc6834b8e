"""MQTT over WebSocket: whom it lets in, how it ends, and what is hostile. The rest is as over TCP: others test that."""

from __future__ import annotations

from typing import Any

import pytest
from wsproto import events as ws

from bussrv import events as ev
from bussrv.formats.mqtt.over_websocket import MqttSocketProtocol
from bussrv.formats.websocket.protocol import WebSocketProtocol
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_3_1_1, VERSION_5, Properties, Publish, WantedFilter, Will
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import encode
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.mqtt.sockets import MqttSocket
from tests.formats.network import Connection, Network, limits
from tests.logins import asking
from tests.tables import each_row
from tests.wire.test_websocket import CLOSE, CONTINUED, PING, TEXT, frame

PINGREQ = encode(packets.Pingreq(), VERSION_5)


def joined(network: Network, client_id: str = "page", version: int = VERSION_5, **asked: Any) -> MqttPeer:
    """A client over WebSocket that was let in."""
    peer = MqttPeer(network, client_id, version, MqttSocket(network), **asked)
    assert isinstance(peer.answer, packets.Connack)
    assert peer.answer.code == 0
    return peer


def socket_of(peer: MqttPeer) -> MqttSocket:
    assert isinstance(peer.connection, MqttSocket)
    return peer.connection


def send_raw(peer: MqttPeer, data: bytes) -> None:
    """Send bytes as they are, in one chunk."""
    Connection.send_bytes(peer.connection, data)


def closed(network: Network) -> list[str | None]:
    return [each.reason for each in network.events(ev.SessionClosed)]


# Who speaks MQTT.


@each_row(
    ("offers", "agreed", "protocol"),
    [
        (("mqtt",), "mqtt", MqttSocketProtocol),
        (("mqttv3.1", "mqtt"), "mqtt", MqttSocketProtocol),
        (("mqtt", "objects"), "mqtt", MqttSocketProtocol),
        (("objects", "mqtt"), "objects", WebSocketProtocol),
        (("mqttv3.1",), None, WebSocketProtocol),
        (("MQTT",), None, WebSocketProtocol),
        ((), None, WebSocketProtocol),
    ],
)
def test_the_subprotocol_decides(offers: tuple[str, ...], agreed: str | None, protocol: type) -> None:
    connection = MqttSocket(Network(), offers=offers)
    assert connection.events == [ws.AcceptConnection(subprotocol=agreed)]
    assert type(connection.protocol) is protocol


def test_packets_without_the_subprotocol_are_no_objects() -> None:
    """A client that offers none, or another one, is refused as a page is that sends no object."""
    network = Network()
    for offers in ((), ("amqp",)):
        connection = MqttSocket(network, offers=offers)
        connection.check = lambda message: None  # type: ignore[method-assign]
        connection.say(ws.BytesMessage(encode(packets.Connect("ann", VERSION_5), VERSION_5)))
        assert connection.close_frame()[0] == 1007
    assert {each.protocol for each in network.events(ev.SessionOpened)} == {"websocket"}


def test_a_session_is_of_mqtt_and_has_one_set_of_client_ids() -> None:
    network = Network()
    page = joined(network, "thermostat")
    session = network.registry.state.sessions[page.session_id]
    assert (session.protocol, session.name, session.peer) == ("mqtt", "thermostat", "10.0.0.1:4711")
    wired = MqttPeer(network, "thermostat")
    assert page.received() == [packets.Disconnect(ReasonCode.SESSION_TAKEN_OVER)]
    assert socket_of(page).close_frame() == (1008, "session-taken-over")
    other = joined(network, "thermostat")
    assert wired.received() == [packets.Disconnect(ReasonCode.SESSION_TAKEN_OVER)]
    assert (page.is_open, wired.is_open, other.is_open) == (False, False, True)
    assert {each.protocol for each in network.events(ev.SessionOpened)} == {"mqtt"}
    assert not network.factory("websocket").protocols


def test_those_who_get_the_same_share_the_bytes_of_a_message() -> None:
    network = Network()
    sender, pages = MqttPeer(network, "sender"), [joined(network, f"page {number}") for number in range(3)]
    given: list[bytes] = []
    for page in pages:
        page.subscribe("hall/#")
        page.connection.transport.write = given.append  # type: ignore[method-assign]
    sender.publish("hall/tv", b"x" * 1000)
    network.reactor.advance(0)
    assert len(given) == 3
    assert given[0] is given[1] is given[2]


def test_the_page_of_a_stranger_is_refused_and_journaled() -> None:
    network = Network(websocket_origin=("https://hall.example",))
    assert MqttSocket(network, origin="https://hall.example").is_open
    refused = MqttSocket(network, origin="https://evil.example")
    (answer,) = (each for each in refused.events if isinstance(each, ws.RejectConnection))
    assert (answer.status_code, refused.is_open) == (403, False)
    (denied,) = network.events(ev.AccessDenied)
    assert isinstance(denied, ev.AccessDenied)
    assert (denied.target, denied.protocol) == ("https://evil.example", "mqtt")
    assert closed(network) == ["origin-not-allowed"]


def test_limits_for_sessions_hold_as_for_others() -> None:
    network = Network(max_sessions=2)
    joined(network, "first")
    MqttSocket(network)
    refused = MqttSocket(network)
    (answer,) = (each for each in refused.events if isinstance(each, ws.RejectConnection))
    assert (answer.status_code, refused.is_open) == (503, False)
    assert [each[0] for each in limits(network)] == ["max-sessions"]


# The end.


@each_row(
    ("data", "code", "reason", "told"),
    [
        (frame(PINGREQ, TEXT), 1003, "not-binary", ReasonCode.PROTOCOL_ERROR),
        (frame(b"", TEXT, final=False), 1003, "not-binary", ReasonCode.PROTOCOL_ERROR),
        (b"\x82\x02" + PINGREQ, 1002, "bad-frame", ReasonCode.PROTOCOL_ERROR),
        (frame(b"\x03\xe8\xff", CLOSE), 1007, "bad-utf8", ReasonCode.MALFORMED_PACKET),
        (frame(b"\x00\x00"), 1008, "malformed-packet", ReasonCode.MALFORMED_PACKET),
        (frame(b"\x30\xff\xff\xff\x7f"), 1009, "packet-too-large", ReasonCode.PACKET_TOO_LARGE),
        (frame((1005).to_bytes(2, "big"), CLOSE), 1002, "bad-frame", ReasonCode.PROTOCOL_ERROR),
    ],
)
def test_malformed_input_is_answered_and_closed_with_a_code(data: bytes, code: int, reason: str, told: int) -> None:
    for version in (VERSION_5, VERSION_3_1_1):
        network = Network()
        page = joined(network, version=version)
        send_raw(page, frame(PINGREQ) + data + frame(PINGREQ))
        farewell = [packets.Disconnect(told)] if version == VERSION_5 else []
        assert page.received() == [packets.Pingresp(), *farewell]
        assert socket_of(page).close_frame() == (code, reason)
        assert (page.is_open, closed(network), network.bus.counters["internal-error"]) == (False, [reason], 0)


@each_row(
    ("leave", "comes"),
    [
        (frame(encode(packets.Disconnect(), VERSION_5)), False),
        (frame(encode(packets.Disconnect(), VERSION_5)) + frame(b"\x03\xe8", CLOSE), False),
        (frame(b"\x03\xe9", CLOSE), True),
        (frame(PINGREQ, TEXT), True),
        (None, True),
    ],
)
def test_the_will_comes_unless_the_client_says_goodbye(leave: bytes | None, comes: bool) -> None:
    network = Network()
    watcher, page = MqttPeer(network, "watcher"), joined(network, will=Will("state", b"gone"))
    watcher.subscribe("state")
    if leave is None:
        page.connection.close()
    else:
        send_raw(page, leave)
    assert watcher.messages() == ([("state", b"gone")] if comes else [])
    assert not page.is_open


def test_a_client_that_sends_no_more_is_not_waited_for() -> None:
    network = Network()
    page, half = joined(network), joined(network, "half")
    send_raw(page, frame(PINGREQ) + frame(PINGREQ)[:5])
    page.connection.protocol.readConnectionLost()
    assert page.received() == [packets.Pingresp()]
    assert socket_of(page).close_frame() == (1000, "client-closed")
    half.connection.protocol.end("server-stopped")
    half.connection.protocol.readConnectionLost()
    assert socket_of(half).close_frame() == (1001, "server-stopped")
    assert (page.is_open, half.is_open) == (False, False)


def test_a_client_that_never_closes_is_cut() -> None:
    network = Network(close_timeout=10)
    page = joined(network)
    page.connection.protocol.end("server-stopped")
    send_raw(page, frame(PINGREQ) * 1000)
    assert page.connection.transport.connected
    network.reactor.advance(11)
    assert not page.connection.transport.connected


# Silence.


def test_who_says_nothing_is_cut_at_each_step() -> None:
    """Before the request, before CONNECT, and after it. Frames without packets say nothing."""
    network = Network(subscribe_timeout=5, websocket_ping=0)
    unasked, unconnected = network.connect("websocket"), MqttSocket(network)
    silent, talking = joined(network, "silent", keep_alive=10), joined(network, "talking", keep_alive=10)
    for _ in range(4):
        network.reactor.advance(4)
        unconnected.say(ws.Ping())
        send_raw(silent, frame(b"", PING) + frame(b""))
        send_raw(talking, frame(PINGREQ, final=False))
        send_raw(talking, frame(b"", CONTINUED))
    assert (unasked.is_open, unconnected.is_open) == (False, False)
    assert silent.received() == [packets.Disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT)]
    assert (silent.is_open, talking.is_open) == (False, True)
    assert closed(network) == ["subscribe-timeout", "keep-alive-timeout"]
    assert limits(network) == [("subscribe-timeout", 5, "subscribe-timeout", "10.0.0.1:4711")]


def test_a_client_without_keep_alive_is_pinged() -> None:
    network = Network(websocket_ping=30)
    page = joined(network)
    network.reactor.pump([30, 30, 0])
    page.received()
    assert socket_of(page).events[-1] == ws.Ping(bytearray())
    network.reactor.pump([30, 0])
    assert closed(network) == ["ping-timeout"]


def test_a_durable_session_goes_on_over_either_transport() -> None:
    """And its client is asked for signs of life also after its session was exchanged at CONNECT."""
    network = Network(websocket_ping=30)
    lasting: Any = {"clean_start": False, "properties": Properties(session_expiry_interval=3600)}
    wired = MqttPeer(network, "ann", **lasting)
    wired.subscribe(WantedFilter("tv", 1))
    wired.connection.close()
    MqttPeer(network, "bob").publish("tv", b"on", 1)
    page = joined(network, "ann", **lasting)
    assert page.session_id == wired.session_id
    assert [each.payload for each in (*page.rest, *page.received()) if isinstance(each, Publish)] == [b"on"]
    for _ in range(5):
        network.reactor.advance(30)
        page.received()
        socket_of(page).say(ws.Pong())
    assert page.is_open
    network.reactor.pump([30, 30, 30, 0, 11])
    assert network.bus.counters["ping-timeout"] == 1
    assert not page.connection.transport.connected
    assert network.registry.state.sessions[wired.session_id].is_away


# Hostile clients.


def test_pings_are_answered_between_the_fragments_of_a_packet() -> None:
    network = Network()
    page = joined(network)
    send_raw(page, frame(PINGREQ[:1], final=False) + frame(b"now", PING) + frame(b"", CONTINUED, final=False))
    assert page.received() == []
    assert socket_of(page).events[-1] == ws.Pong(bytearray(b"now"))
    send_raw(page, frame(PINGREQ[1:], CONTINUED))
    assert page.received() == [packets.Pingresp()]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_client_that_reads_too_slowly_is_cut(qos: int) -> None:
    """Its last message is whole, and after it come DISCONNECT and the close frame."""
    network = Network(max_outbound=100_000)
    sender, page = MqttPeer(network, "sender"), joined(network)
    page.subscribe(WantedFilter("tv", qos))
    page.connection.transport.producer.pauseProducing()
    for _ in range(20):
        sender.publish("tv", b"x" * 10_000, qos)
        network.reactor.advance(0)
    page.connection.transport.producer.resumeProducing()
    *messages, last = page.received()
    assert all(isinstance(each, Publish) for each in messages)
    assert last == packets.Disconnect(ReasonCode.QUOTA_EXCEEDED)
    assert socket_of(page).close_frame() == (1008, "slow-consumer")
    assert (page.is_open, closed(network)) == (False, ["slow-consumer"])


def test_pings_of_a_client_that_reads_nothing_are_bounded() -> None:
    network = Network(max_outbound=100_000)
    page = joined(network)
    page.connection.transport.producer.pauseProducing()
    for _ in range(100):
        send_raw(page, frame(b"p" * 125, PING) * 50)
        network.reactor.advance(0)
    assert closed(network) == ["slow-consumer"]


def test_memory_before_a_login_is_bounded() -> None:
    """64 KiB, whatever frames it comes in."""
    network = asking()
    stranger = MqttSocket(network)
    begun = encode(packets.Connect("ann", VERSION_5, will=Will("t", b"x" * 60_000), password=b"x" * 60_000), VERSION_5)
    Connection.send_bytes(stranger, b"\x82\xff" + (1 << 40).to_bytes(8, "big") + bytes(4) + begun[:100_000])
    for _ in range(3):
        network.reactor.advance(0)
        Connection.send_bytes(stranger, b"x")
    assert closed(network) == ["packet-too-large"]
    assert network.bus.streams.inbound.total == 0


def test_frames_that_bring_nothing_leave_others_their_slices() -> None:
    """Ten thousand empty fragments in one chunk are read over many slices, in which others are served."""
    network = Network(slice_seconds=0.002)
    page, other = joined(network), MqttPeer(network, "other")
    now = network.reactor.seconds

    def a_clock_that_runs() -> float:
        network.reactor.rightNow += 0.0001
        return now()

    network.reactor.seconds = a_clock_that_runs  # type: ignore[method-assign]
    send_raw(page, frame(b"", final=False) + frame(b"", CONTINUED, final=False) * 10_000)
    other.send(packets.Pingreq())
    assert network.bus.counters["slice-over"] >= 1
    network.reactor.pump([0.001] * 200)
    assert other.received() == [packets.Pingresp()]
    send_raw(page, frame(PINGREQ, CONTINUED))
    network.reactor.pump([0.001] * 10)
    assert page.received() == [packets.Pingresp()]


def test_a_gone_connection_leaves_nothing() -> None:
    network = Network()
    before = network.registry.state.copy()
    for piece in (b"", frame(b"\x30", final=False), frame(b"", PING)[:3]):
        page = joined(network)
        send_raw(page, piece)
        page.connection.close()
    MqttSocket(network).close()
    assert network.registry.state == before
    assert not network.factory("mqtt").protocols
    assert not network.factory("websocket").protocols
    assert len(network.reactor.getDelayedCalls()) == len(Network().reactor.getDelayedCalls())
