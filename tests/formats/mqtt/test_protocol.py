"""MQTT on the bus: who is let in, what is published, and what comes to whom, in all formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.bus.groups.filtering import MOST_SHARED
from bussrv.formats.mqtt.link import MqttLink
from bussrv.policy.logins.users import SecretHash
from bussrv.policy.permissions.file import parse_policy
from bussrv.wire import objects
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_3_1_1, VERSION_5, Properties, Publish, WantedFilter, Will
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import encode
from tests.formats.mqtt.peer import VERSIONS, MqttPeer
from tests.formats.network import Network
from tests.journal.support import fold
from tests.logins import USERS, asking
from tests.services.scene import Hosting
from tests.tables import each_row

FORMATS = ("objects", "spp", "inbus", "business", "mqtt")


def closed(network: Network) -> list[str | None]:
    return [each.reason for each in network.events(ev.SessionClosed)]


# Joining.


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_is_in_the_registry(version: int) -> None:
    network = Network()
    peer = MqttPeer(network, "thermostat", version)
    assert isinstance(peer.answer, packets.Connack)
    assert (peer.answer.code, peer.answer.session_present) == (0, False)
    session = network.registry.state.sessions[peer.session_id]
    assert (session.protocol, session.name) == ("mqtt", "thermostat")
    peer.send(packets.Pingreq())
    assert peer.received() == [packets.Pingresp()]
    peer.send(packets.Disconnect())
    assert not peer.is_open
    assert closed(network) == ["client-closed"]


def test_a_client_without_an_id_is_given_one() -> None:
    network = Network()
    peer = MqttPeer(network, "", properties=Properties(session_expiry_interval=60))
    assert isinstance(peer.answer, packets.Connack)
    told = peer.answer.properties
    assert network.registry.state.sessions[peer.session_id].name == told.assigned_client_identifier
    assert told.session_expiry_interval is None, "it gets what it asks for"
    older = MqttPeer(network, "", VERSION_3_1_1, clean_start=False)
    assert (older.answer, older.is_open) == (packets.Connack(2), False)


@each_row(
    ("asked", "code", "reason"),
    [
        ({"client_id": "a\u200bb"}, ReasonCode.CLIENT_ID_NOT_VALID, "bad-client-id"),
        (
            {"properties": Properties(authentication_method="SCRAM")},
            ReasonCode.BAD_AUTHENTICATION_METHOD,
            "bad-auth-method",
        ),
    ],
)
def test_who_is_refused_is_told_why(asked: dict[str, Any], code: int, reason: str) -> None:
    network = Network()
    peer = MqttPeer(network, **asked)
    assert isinstance(peer.answer, packets.Connack)
    assert (peer.answer.code, peer.is_open, closed(network)) == (code, False, [reason])


def test_the_same_client_id_takes_the_session_over() -> None:
    network = Network()
    first, second = MqttPeer(network), MqttPeer(network)
    assert first.received() == [packets.Disconnect(ReasonCode.SESSION_TAKEN_OVER)]
    assert (first.is_open, second.is_open, closed(network)) == (False, True, ["session-taken-over"])


def test_who_says_nothing_is_cut() -> None:
    network = Network(subscribe_timeout=5)
    connection = network.connect("mqtt")
    peer = MqttPeer(network, keep_alive=10)
    network.reactor.advance(6)
    assert not connection.is_open
    for _ in range(3):
        network.reactor.advance(8)
        peer.send(packets.Pingreq())
    assert peer.is_open
    network.reactor.advance(16)
    assert peer.received() == [packets.Pingresp()] * 3 + [packets.Disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT)]
    assert closed(network) == ["subscribe-timeout", "keep-alive-timeout"]


@each_row(
    ("version", "data", "told"),
    [
        (VERSION_5, b"\x40\x02\x00\x00", [packets.Disconnect(ReasonCode.PROTOCOL_ERROR)]),
        (VERSION_5, b"\x82\x06\x00\x01\x00\x00\x01", None),
        (VERSION_3_1_1, b"\x40\x02\x00\x00", []),
    ],
)
def test_malformed_packets_end_the_session(version: int, data: bytes, told: list[Any] | None) -> None:
    network = Network()
    peer = MqttPeer(network, version=version)
    peer.connection.send_bytes(data + b"\0" * 8)
    said = peer.received()
    assert not peer.is_open
    assert [type(each) for each in said] == ([packets.Disconnect] if version == VERSION_5 else [])
    assert told is None or said == told


# Messages.


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_message_comes_with_the_lower_qos(version: int, qos: int, granted: int) -> None:
    network = Network()
    sender, receiver = MqttPeer(network, "sender", version), MqttPeer(network, "receiver", version)
    (granting,) = receiver.subscribe(WantedFilter("hall/+", granted))
    assert granting == packets.Suback(1, (granted,))
    said = sender.publish("hall/tv", b"on", qos)
    assert said == {0: [], 1: [packets.Puback(7)], 2: [packets.Pubrec(7)]}[qos]
    if qos == 2:
        assert sender.publish("hall/tv", b"on", 2, dup=True) == [packets.Pubrec(7)]
        for code in (0, ReasonCode.PACKET_ID_NOT_FOUND if version == VERSION_5 else 0):
            sender.send(packets.Pubrel(7))
            assert sender.received() == [packets.Pubcomp(7, code)]
    (message,) = receiver.received()
    assert isinstance(message, Publish)
    lower = min(qos, granted)
    assert (message.topic, message.payload, message.qos, bool(message.id)) == ("hall/tv", b"on", lower, lower > 0)
    if lower == 1:
        receiver.send(packets.Puback(message.id))
    if lower == 2:
        receiver.send(packets.Pubrec(message.id))
        assert receiver.received() == [packets.Pubrel(message.id)]
        receiver.send(packets.Pubcomp(message.id))
    assert receiver.received() == []
    link = receiver.connection.protocol.link
    assert isinstance(link, MqttLink)
    assert not link.outgoing


def test_no_more_messages_are_on_their_way_than_the_client_takes() -> None:
    network = Network()
    sender = MqttPeer(network, "sender")
    receiver = MqttPeer(network, "receiver", properties=Properties(receive_maximum=2))
    receiver.subscribe(WantedFilter("tv", 1))
    for number in range(5):
        sender.publish("tv", b"%d" % number, 1)
    sender.publish("tv", b"not counted", 0)
    taken: list[bytes] = []
    while messages := [each for each in receiver.received() if isinstance(each, Publish)]:
        assert len([each for each in messages if each.qos]) <= 2
        for each in messages:
            taken.append(each.payload)
            if each.qos:
                receiver.send(packets.Puback(each.id))
    assert taken == [b"0", b"1", b"not counted", b"2", b"3", b"4"]


@pytest.mark.parametrize("session_expiry_interval", [None, 1000], ids=["clean", "durable"])
def test_no_more_messages_are_on_their_way_than_the_limit(session_expiry_interval: int | None) -> None:
    network = Network(mqtt_max_unacknowledged=3)
    sender = MqttPeer(network, "sender")
    receiver = MqttPeer(network, "receiver", properties=Properties(session_expiry_interval=session_expiry_interval))
    receiver.subscribe(WantedFilter("tv", 1))
    for number in range(9):
        sender.publish("tv", b"%d" % number, 1)
        network.reactor.advance(1)
    taken: list[bytes] = []
    while messages := [each for each in receiver.received() if isinstance(each, Publish)]:
        assert len(messages) <= 3
        taken += [each.payload for each in messages]
        for each in messages:
            receiver.send(packets.Puback(each.id))
        network.reactor.advance(1)
    assert taken == [b"%d" % number for number in range(9)]
    assert network.bus.counters["mqtt-max-unacknowledged"] >= 1


def test_who_acknowledges_nothing_is_cut() -> None:
    network = Network(max_outbound=10_000)
    sender = MqttPeer(network, "sender")
    receiver = MqttPeer(network, "receiver", properties=Properties(receive_maximum=1))
    receiver.subscribe(WantedFilter("tv", 1))
    for _ in range(12):
        sender.publish("tv", b"x" * 1000, 1)
    network.reactor.advance(1)
    assert closed(network) == ["slow-consumer"]


def test_everything_crosses_to_and_from_other_formats() -> None:
    network = Network()
    peers, sender = [MqttPeer(network, f"v{version}", version) for version in VERSIONS], MqttPeer(network)
    for peer in peers:
        peer.subscribe("#")
    member = network.member(subscriptions=[], services=["hall/#"])
    network.udp.subscribe("hall/lamp")
    network.udp.sent.clear()
    sender.publish("hall/lamp", b"on", properties=Properties(content_type="text/plain"))
    watcher = network.watcher()
    watcher.received()
    watcher.subscribe("hall/lamp")
    assert watcher.messages() == [b"on"]
    ((fields, payload),) = member.received()
    assert (fields["sender"], fields["type"], payload) == ("hall/lamp", "text/plain", b"on")
    assert len(network.udp.sent) == 1
    network.udp.publish("door", b"open")
    member.send({"event": "services/register", "name": "tv"})
    member.send({"type": "text/css", "sender": "tv"}, b"seen")
    for peer in peers:
        messages = [each for each in peer.received() if isinstance(each, Publish)]
        assert [(each.topic, each.payload) for each in messages] == [
            ("hall/lamp", b"on"),
            ("door", b"open"),
            ("tv", b"seen"),
        ]
        types = [each.properties.content_type for each in messages]
        assert types == (["text/plain", "text/plain; charset=UTF-8", "text/css"] if peer.version == 5 else [None] * 3)


def test_a_message_comes_once_with_all_its_identifiers() -> None:
    network = Network()
    sender, receiver = MqttPeer(network, "sender"), MqttPeer(network, "receiver")
    receiver.subscribe("hall/+", number=3)
    receiver.subscribe(WantedFilter("hall/tv", 1), number=5)
    receiver.subscribe("cellar/#", number=9)
    sender.publish("hall/tv", b"x", 2)
    (message,) = receiver.received()
    assert isinstance(message, Publish)
    assert (message.qos, sorted(message.properties.subscription_identifiers)) == (1, [3, 5])
    receiver.send(packets.Unsubscribe(2, ("hall/+", "nothing")))
    assert receiver.received() == [packets.Unsuback(2, (0, ReasonCode.NO_SUBSCRIPTION_EXISTED))]
    sender.publish("hall/tv", b"x")
    (message,) = receiver.received()
    assert isinstance(message, Publish)
    assert message.properties.subscription_identifiers == (5,)
    assert network.registry.state == fold(network.journal.records)


@each_row(("no_local", "retain_as_published"), [(False, False), (True, False), (False, True)])
def test_options_of_a_subscription(no_local: bool, retain_as_published: bool) -> None:
    network = Network()
    peer, other = MqttPeer(network), MqttPeer(network, "other")
    peer.subscribe(WantedFilter("tv", 0, no_local, retain_as_published))
    peer.publish("tv", b"mine", retain=True)
    own = [] if no_local else [("tv", b"mine")]
    other.publish("tv", b"other's", retain=True)
    found = [each for each in peer.received() if isinstance(each, Publish)]
    assert [(each.topic, each.payload) for each in found] == [*own, ("tv", b"other's")][len(own) :]
    assert all(each.retain == retain_as_published for each in found)


def test_properties_are_passed_on() -> None:
    network = Network()
    sender, receiver = MqttPeer(network, "sender"), MqttPeer(network, "receiver")
    receiver.subscribe("tv")
    given = Properties(
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic="answers",
        correlation_data=b"7",
        user_properties=(("a", "1"), ("a", "2")),
        message_expiry_interval=60,
    )
    sender.publish("tv", properties=given)
    (message,) = receiver.received()
    assert isinstance(message, Publish)
    assert message.properties == given
    sender.publish("tv", properties=Properties(topic_alias=3))
    sender.publish("", b"by alias", properties=Properties(topic_alias=3))
    assert receiver.messages()[1:] == [("tv", b"by alias")]
    sender.publish("", b"unknown", properties=Properties(topic_alias=4))
    assert not sender.is_open


# Shared subscriptions.


@pytest.mark.parametrize("version", VERSIONS)
def test_of_those_who_share_a_filter_one_gets_each_message(version: int) -> None:
    network = Network()
    sender, watcher = MqttPeer(network, "sender", version), MqttPeer(network, "watcher")
    watcher.subscribe("#")
    peers = [MqttPeer(network, f"p{number}", version) for number in range(3)]
    for peer in peers:
        assert peer.subscribe(WantedFilter("$share/work/jobs/+", 1)) == [packets.Suback(1, (1,))]
    other = MqttPeer(network, "other", version)
    other.subscribe("$share/others/jobs/#")
    sender.publish("jobs/1", b"retained", 1, retain=True)

    def publish(number: int, *, at_once: bool) -> list[list[bytes]]:
        """:returns: what each of those who share is given."""
        payloads = [b"%d" % each for each in range(number)]
        frames = [encode(Publish("jobs/1", payload), version) for payload in payloads]
        for data in [b"".join(frames)] if at_once else frames:
            sender.connection.send_bytes(data)
        assert [payload for _, payload in watcher.messages()] == payloads
        assert [payload for _, payload in other.messages()] == payloads
        return [[payload for _, payload in peer.messages()] for peer in peers]

    for each in (watcher, other, *peers):
        each.received()
    for at_once in (False, True):
        assert sorted(map(len, publish(6, at_once=at_once))) == [2, 2, 2]
    peers.pop(0).connection.close()
    assert sorted(map(len, publish(4, at_once=False))) == [2, 2]
    assert [type(each) for each in peers[0].subscribe("$share/work/jobs/+")] == [packets.Suback]
    peers[0].send(packets.Unsubscribe(4, ("$share/work/jobs/+",)))
    peers[0].received()
    assert publish(3, at_once=True) == [[], [b"0", b"1", b"2"]]
    if version == VERSION_3_1_1:  # In 5.0 that is no well-formed packet.
        assert peers[0].subscribe("$share/work") == [packets.Suback(1, (0x80,))]
    assert network.registry.state == fold(network.journal.records)


def test_other_formats_publish_to_those_who_share() -> None:
    network = Network()
    peers = [MqttPeer(network, f"p{number}") for number in range(2)]
    for peer in peers:
        peer.subscribe("$share/work/tv")
    watcher = network.watcher()
    member = network.member()
    member.send({"event": "services/register", "name": "tv"})
    watcher.received()
    watcher.subscribe("tv")
    for number in range(4):
        member.send({"type": "text/plain", "sender": "tv"}, b"%d" % number)
    network.udp.publish("tv", b"4")
    assert watcher.messages() == [b"", b"0", b"1", b"2", b"3", b"4"]
    assert sorted(payload for peer in peers for _, payload in peer.messages()) == [b"0", b"1", b"2", b"3", b"4"]


# Retained messages.


def test_a_retained_message_outlives_its_publisher() -> None:
    network = Network()
    sender = MqttPeer(network, "sender")
    for topic, payload in (("hall/tv", b"on"), ("hall/lamp", b"off"), ("hall/lamp", b""), ("door", b"open")):
        sender.publish(topic, payload, 1, retain=True)
    sender.publish("hall/tv", b"not kept")
    sender.send(packets.Disconnect())
    assert network.registry.state.services == {}
    for version in VERSIONS:
        receiver = MqttPeer(network, f"r{version}", version)
        answer, message = receiver.subscribe(WantedFilter("hall/#", 2))
        assert isinstance(answer, packets.Suback)
        assert isinstance(message, Publish)
        assert (message.topic, message.payload, message.retain, message.qos) == ("hall/tv", b"on", True, 1)
    answer, message = receiver.subscribe(WantedFilter("hall/#", 2, retain_handling=0))
    assert len(receiver.subscribe(WantedFilter("hall/#", 2, retain_handling=1))) == 1
    assert len(receiver.subscribe(WantedFilter("door", 2, retain_handling=2))) == 1
    assert [type(each) for each in receiver.subscribe("nothing")] == [packets.Suback]


@pytest.mark.parametrize("wanted", ["hall/#", "hall/temp"])
def test_the_last_value_of_another_format_is_retained(wanted: str) -> None:
    """As long as its provider is there, and if the client may watch it, with its content type, also if nobody was
    subscribed when it came. What a client of MQTT published without RETAIN is not retained.
    """
    network = Network()

    def comes(host: str = "192.168.7.9") -> list[tuple[bytes, str | None]]:
        peer = MqttPeer(network, host=host)
        found = peer.subscribe(WantedFilter(wanted, 1, retain_as_published=False))
        peer.connection.close()
        messages = [each for each in found if isinstance(each, Publish)]
        assert all((each.topic, each.retain, each.qos) == ("hall/temp", True, 1) for each in messages)
        return [(each.payload, each.properties.content_type) for each in messages]

    MqttPeer(network, "sensor").publish("hall/temp", b"for now", 1)
    assert comes() == []
    network.udp.publish("hall/temp", b"21.5")
    assert comes() == [(b"21.5", "text/plain; charset=UTF-8")]
    member = network.member()
    member.send({"event": "services/register", "name": "hall/temp"})
    member.send({"type": "application/json", "sender": "hall/temp", "size": 2}, b"22")
    assert comes() == [(b"22", "application/json")]
    types = ["text/plain", "text/html", "text/plain"]
    chunk = [objects.encode({"type": each, "sender": "hall/temp", "size": 2}, b"23") for each in types]
    for further in (chunk, chunk[:2]):
        member.connection.send_bytes(b"".join(further))
        assert comes() == [(b"23", types[len(further) - 1])]
    other = MqttPeer(network)
    other.subscribe(WantedFilter("#", 0))
    member.send({"type": "application/json", "sender": "hall/temp", "size": 2}, b"24")
    assert comes() == [(b"24", "application/json")]
    policy = """
        [[rule]]
        networks = ["192.168.7.0/24", "10.0.0.1/32"]
        watch = "*"
        provide = "*"
        send = "*"
        [[rule]]
        networks = "10.0.0.5/32"
        watch = "hall/#"
    """
    network.bus.access.policy = parse_policy(policy, Path("policy.toml"), ("mqtt",))
    network.bus.policy_changed()
    assert comes() == [(b"24", "application/json")]
    assert comes("10.0.0.5") == []
    member.connection.close()
    assert comes() == []


def test_a_retained_message_expires() -> None:
    network = Network()
    sender = MqttPeer(network, "sender")
    sender.publish("tv", retain=True, properties=Properties(message_expiry_interval=10))
    network.reactor.advance(4)
    receiver = MqttPeer(network, "receiver")
    _, message = receiver.subscribe("tv")
    assert message.properties.message_expiry_interval == 6  # type: ignore[union-attr]
    network.reactor.advance(6)
    assert len(receiver.subscribe("tv")) == 1
    assert network.bus.retained.services() == []


def test_what_does_not_fit_is_not_retained() -> None:
    network = Network(max_retained=2_000)
    sender = MqttPeer(network, "sender")
    codes = [sender.publish(f"t{number}", b"x" * 300, 1, retain=True)[0].code for number in range(4)]  # type: ignore[union-attr]
    assert codes == [0, 0, ReasonCode.QUOTA_EXCEEDED, ReasonCode.QUOTA_EXCEEDED]
    assert network.bus.counters["retained-full"] == 2
    sender.publish("t0", b"", 1, retain=True)
    assert sender.publish("t3", b"x", 1, retain=True) == [packets.Puback(7)]


def test_one_address_fills_its_share_only() -> None:
    network = Network(max_retained=10_000, max_retained_per_address=1_000)
    near, far = (MqttPeer(network, name, host=host) for name, host in (("near", "10.0.0.1"), ("far", "10.0.0.2")))
    assert near.publish("t0", b"x" * 300, 1, retain=True) == [packets.Puback(7)]
    assert near.publish("t1", b"x" * 300, 1, retain=True) == [packets.Puback(7, ReasonCode.QUOTA_EXCEEDED)]
    assert network.bus.counters["retained-address-full"] == 1
    assert far.publish("t1", b"x" * 300, 1, retain=True) == [packets.Puback(7)]
    assert near.publish("t0", b"", 1, retain=True) == [packets.Puback(7)]
    assert near.publish("t2", b"x" * 300, 1, retain=True) == [packets.Puback(7)]


# Wills.


@each_row(
    ("leave", "comes"),
    [
        (lambda peer: peer.send(packets.Disconnect()), False),
        (lambda peer: peer.send(packets.Disconnect(ReasonCode.DISCONNECT_WITH_WILL)), True),
        (lambda peer: peer.connection.close(), True),
        (lambda peer: peer.connection.send_bytes(b"\xff\xff"), True),
        (lambda peer: peer.connection.protocol.end("closed-by-operator"), True),
        (lambda peer: peer.connection.protocol.end("server-stopped"), False),
    ],
)
def test_the_will_comes_unless_the_client_says_goodbye(leave: Any, comes: bool) -> None:
    network = Network()
    watcher = MqttPeer(network, "watcher")
    watcher.subscribe("#")
    peer = MqttPeer(network, will=Will("state/ann", b"gone", 1, True))
    leave(peer)
    assert watcher.messages() == ([("state/ann", b"gone")] if comes else [])
    assert (network.bus.retained.get("state/ann") is not None) == comes


# Topics.


def test_topics_end_with_the_session_and_are_bounded() -> None:
    network = Network(max_services=3)
    sender, receiver = MqttPeer(network, "sender"), MqttPeer(network, "receiver")
    receiver.subscribe("#")
    for topic in ("a", "b", "c", "a", "d"):
        sender.publish(topic, b"x", 1)
    assert [topic for topic, _ in receiver.messages()] == ["a", "b", "c", "a", "d"]
    assert sorted(network.registry.state.services) == ["a", "c", "d"]
    sender.connection.close()
    assert network.registry.state.services == {}
    assert network.registry.state == fold(network.journal.records)


@each_row(
    ("topic", "code"),
    [
        ("bus/clock", ReasonCode.TOPIC_INVALID),
        ("x" * 256, ReasonCode.TOPIC_INVALID),
        ("a\u200bb", ReasonCode.TOPIC_INVALID),
    ],
)
def test_topics_that_cannot_be_services_are_refused(topic: str, code: int) -> None:
    network = Network()
    sender, older = MqttPeer(network, "sender"), MqttPeer(network, "older", VERSION_3_1_1)
    assert sender.publish(topic, b"x", 1) == [packets.Puback(7, code)]
    assert sender.publish(topic, b"x", 2) == [packets.Pubrec(7, code)]
    assert older.publish(topic, b"x", 1) == [packets.Puback(7)]
    assert sender.is_open
    assert network.registry.state.services == {}


# Permission.

POLICY = """
[[rule]]
users = "anonymous"
networks = "10.0.0.1"
publish = "hall/*"
watch = ["hall/*", "shared"]
"""


def test_topics_and_filters_are_judged() -> None:
    network = Network()
    network.bus.access.policy = parse_policy(POLICY, Path("policy.toml"), FORMATS)
    network.bus.policy_changed()
    peer, older = MqttPeer(network), MqttPeer(network, "older", VERSION_3_1_1)
    assert peer.publish("hall/tv", b"x", 1) == [packets.Puback(7)]
    assert peer.publish("cellar/tv", b"x", 1) == [packets.Puback(7, ReasonCode.NOT_AUTHORIZED)]
    (granted,) = peer.subscribe("hall/#", "#", "cellar", "$share/g/hall/+", "shared")
    denied = ReasonCode.NOT_AUTHORIZED
    assert granted == packets.Suback(1, (0, denied, denied, 0, 0))
    (granted,) = older.subscribe("hall/#", "#")
    assert granted == packets.Suback(1, (0, 0x80))
    peer.publish("hall/tv", b"y")
    assert older.messages() == [("hall/tv", b"y")]
    refused = MqttPeer(network, "will", will=Will("cellar/tv", b"gone"))
    assert isinstance(refused.answer, packets.Connack)
    assert (refused.answer.code, refused.is_open) == (ReasonCode.NOT_AUTHORIZED, False)
    network.bus.access.policy = parse_policy(POLICY.replace('"hall/*"', '"shared"'), Path("policy.toml"), FORMATS)
    network.bus.policy_changed()
    network.reactor.advance(1)
    assert network.registry.state.services == {}
    assert network.registry.state.subscribed_by(peer.session_id) == {"shared"}
    assert network.registry.state == fold(network.journal.records)


# Many, and hostile ones.


def test_many_filters_of_one_client_work_as_few() -> None:
    network = Network()
    sender, receiver = MqttPeer(network, "sender"), MqttPeer(network, "receiver")
    for number in range(MOST_SHARED + 10):
        receiver.subscribe(WantedFilter(f"hall/{number}", number % 3))
    receiver.subscribe(WantedFilter("hall/+", 2))
    for number in (0, 1, MOST_SHARED + 1):
        sender.publish(f"hall/{number}", b"x", 2)
        sender.send(packets.Pubrel(7))
    assert [(each.topic, each.qos) for each in receiver.received() if isinstance(each, Publish)] == [
        (f"hall/{number}", 2) for number in (0, 1, MOST_SHARED + 1)
    ]
    receiver.send(packets.Unsubscribe(3, ("hall/+", *(f"hall/{number}" for number in range(MOST_SHARED)))))
    receiver.received()
    for number in (0, MOST_SHARED + 1):
        sender.publish(f"hall/{number}", b"y")
    assert receiver.messages() == [(f"hall/{MOST_SHARED + 1}", b"y")]


@each_row("is_compiled", [True, False])
def test_one_more_filter_of_many_counts_for_the_next_object(is_compiled: bool) -> None:
    """Whatever is remembered of who is given objects like it."""
    network = Network()
    if not is_compiled:
        network.bus.compiled_router.make = None
    sender, receiver = network.member(), MqttPeer(network, "receiver")
    sender.send({"event": "services/register", "name": "tv"})
    for number in range(MOST_SHARED + 1):
        receiver.subscribe(WantedFilter(f"hall/{number}", 0))
    receiver.received()
    for name in (None, "tv", "+"):
        if name is not None:
            receiver.subscribe(WantedFilter(name, 0))
            receiver.received()
        sender.connection.send_bytes(b'{"type":"a/b","size":1}\0x{"type":"a/b","size":1}\0y')
        assert receiver.messages() == ([] if name is None else [("tv", b"x"), ("tv", b"y")])
    receiver.send(packets.Unsubscribe(4, ("tv", "+")))
    receiver.received()
    sender.connection.send_bytes(b'{"type":"a/b","size":1}\0x')
    assert receiver.messages() == []


def test_messages_that_wait_for_acknowledgements_count_as_memory() -> None:
    """Or a thousand clients that acknowledge nothing would each take ``--max-outbound``."""
    network = Network(max_outbound=100_000, max_outbound_total=50_000)
    sender = MqttPeer(network, "sender")
    silent = [
        MqttPeer(network, f"silent {number}", properties=Properties(receive_maximum=1 + number % 2))
        for number in range(4)
    ]
    for peer in silent:
        peer.subscribe(WantedFilter("tv", 1))
    for _ in range(20):
        sender.publish("tv", b"x" * 1000, 1)
        network.reactor.advance(1)
    assert "outbound-full" in closed(network)
    assert network.bus.streams.outbound.total <= 50_000
    for peer in silent:
        peer.connection.close()
    network.reactor.advance(1)
    assert network.bus.streams.outbound.total == 0


def test_unfinished_packets_of_all_clients_count_as_memory() -> None:
    network = Network(max_inbound_total=250_000)
    peers = [MqttPeer(network, f"peer {number}") for number in range(3)]
    begun = encode(Publish("tv", b"x" * 500_000), VERSION_5)[:100_000]
    for _ in range(2):
        for peer in peers:
            if peer.is_open:
                peer.connection.send_bytes(begun)
                network.reactor.advance(0)
    assert set(closed(network)) == {"inbound-full"}
    told = [peer.received() for peer in peers if not peer.is_open]
    assert told == [[packets.Disconnect(ReasonCode.SERVER_BUSY)]] * len(told)


def test_wills_of_thousands_are_published_in_slices() -> None:
    """As the sessions end: a machine with thousands of clients may go down."""
    network = Network()
    watcher = MqttPeer(network, "watcher")
    watcher.subscribe("state/#")
    peers = [MqttPeer(network, f"p{number}", will=Will(f"state/{number}", b"gone", retain=True)) for number in range(9)]
    network.bus.slices.begin_turn()
    network.bus.slices.spend(10)
    for peer in peers:
        peer.connection.close()
    assert (closed(network), network.bus.retained.services()) == ([], [])
    network.reactor.pump([0.1] * 30)
    assert len(watcher.messages()) == len(network.bus.retained.services()) == len(closed(network)) == 9


def test_services_of_the_server_begin_with_their_state() -> None:
    network = Hosting()
    peer = MqttPeer(network)
    state, granted = peer.subscribe("bus/registry")
    assert isinstance(state, Publish)
    assert (state.topic, state.retain, state.properties.content_type) == ("bus/registry", True, "application/json")
    assert granted == packets.Suback(1, (0,))
    assert peer.session_id in state.payload.decode()
    MqttPeer(network, "other")
    network.tick()
    assert {topic for topic, _ in peer.messages()} == {"bus/registry"}


# Logins.

BOTH = {"ann": USERS["ann"], "ben": SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(b"other")}


@each_row(
    ("asked", "code", "returned", "reason"),
    [
        ({"username": "ann", "password": b"s3cret"}, 0, 0, None),
        ({"username": "ann", "password": b"wrong"}, ReasonCode.BAD_CREDENTIALS, 4, "bad-credentials"),
        ({"username": "ann"}, ReasonCode.BAD_CREDENTIALS, 4, "bad-credentials"),
        ({}, ReasonCode.NOT_AUTHORIZED, 5, "not-authenticated"),
    ],
)
def test_clients_log_in_by_connect(asked: dict[str, Any], code: int, returned: int, reason: str | None) -> None:
    network = asking(BOTH)
    for version, told in ((VERSION_5, code), (VERSION_3_1_1, returned)):
        peer = MqttPeer(network, f"v{version}", version, **asked)
        assert isinstance(peer.answer, packets.Connack)
        assert (peer.answer.code, peer.is_open) == (told, reason is None)
        if reason is None:
            session = network.registry.state.sessions[peer.session_id]
            assert (session.actor, session.claimed) == ("ann", None)
    assert closed(network) == ([] if reason is None else [reason] * 2)


def test_the_client_id_of_another_user_is_not_taken_over() -> None:
    network = asking(BOTH)
    first = MqttPeer(network, "shared", username="ann", password=b"s3cret")
    second = MqttPeer(network, "shared", username="ben", password=b"other")
    assert isinstance(second.answer, packets.Connack)
    assert (second.answer.code, first.is_open, second.is_open) == (ReasonCode.CLIENT_ID_NOT_VALID, True, False)
    assert closed(network) == ["client-id-taken"]
    third = MqttPeer(network, "shared", username="ann", password=b"s3cret")
    assert (first.is_open, third.is_open) == (False, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_wants_no_confirmed_messages_confirms_nothing(version: int) -> None:
    peer = MqttPeer(Network(), version=version)
    peer.subscribe("tv")
    for packet in (packets.Puback(5), packets.Pubcomp(5)):
        peer.send(packet)
    assert peer.received() == []
    peer.send(packets.Pubrec(5))
    code = ReasonCode.PACKET_ID_NOT_FOUND if version == VERSION_5 else ReasonCode.SUCCESS
    assert peer.received() == [packets.Pubrel(5, code)]
    assert getattr(peer.connection.protocol.link, "outgoing", "no link of MQTT") is None
