"""Messages that come in one chunk are given together; that must not change what anybody gets."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_3_1_1, VERSION_5, Properties, Publish, WantedFilter
from bussrv.wire.mqtt.writer import encode
from tests.formats.mqtt.peer import VERSIONS, MqttPeer
from tests.formats.network import Network

FILTERS = (("#", 0), ("#", 1), ("hall/tv", 2), ("hall/+", 1))

messages = st.builds(
    Publish,
    st.sampled_from(["hall/tv", "hall/tv", "hall/tv", "door"]),
    st.sampled_from([b"", b"a", b"b", b"longer"]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([False, False, False, True]),
)


class Scene:
    """A publisher and subscribers of every kind; ``others``: whether members of the object network are among them."""

    def __init__(self, version: int, *, others: bool) -> None:
        network = Network()
        self.sender = MqttPeer(network, "sender", version)
        self.version = version
        self.peers = []
        for subscriber in VERSIONS:
            for filter_, qos in FILTERS:
                peer = MqttPeer(network, f"{subscriber} {filter_} {qos}", subscriber)
                peer.subscribe(WantedFilter(filter_, qos, retain_as_published=subscriber == VERSION_5))
                self.peers.append(peer)
        small = MqttPeer(network, "small", properties=Properties(maximum_packet_size=14))
        small.subscribe("#")
        self.peers.append(small)
        self.member = network.member(services=["hall/#"]) if others else None
        self.sender.publish("hall/tv", b"first")
        self.watcher = network.watcher()
        self.watcher.received()
        self.watcher.subscribe("hall/tv")
        network.udp.subscribe("hall/tv")
        self.network = network

    def received(self) -> list[Any]:
        found: list[Any] = [peer.received() for peer in (self.sender, *self.peers)]
        if self.member is not None:
            found.append([(fields.get("sender"), payload) for fields, payload in self.member.received()])
        retained = [(each, self.network.bus.retained.get(each)) for each in self.network.bus.retained.services()]
        kept = [(name, each and (each.payload, each.content_type)) for name, each in retained]
        traffic = self.network.bus.totals.by_format()["mqtt"]
        return [*found, self.watcher.messages(), self.network.udp.sent, kept, traffic]


@given(st.lists(messages, max_size=12), st.sampled_from([VERSION_3_1_1, VERSION_5]), st.booleans())
def test_a_chunk_brings_what_its_packets_bring(sent: list[Publish], version: int, others: bool) -> None:
    together, apart = (Scene(version, others=others) for _ in range(2))
    numbered = [
        packets.Publish(each.topic, each.payload, each.qos, each.retain, number + 1 if each.qos else 0)
        for number, each in enumerate(sent)
    ]
    frames = [encode(each, version) for each in numbered]
    together.sender.connection.send_bytes(b"".join(frames))
    for frame in frames:
        apart.sender.connection.send_bytes(frame)
    assert together.received() == apart.received()


def confirmed(packet: Publish) -> packets.Packet:
    return (packets.Puback if packet.qos == 1 else packets.Pubrec)(packet.id)


@given(
    st.lists(st.integers(0, 2), max_size=12), st.integers(1, 4), st.sampled_from([VERSION_3_1_1, VERSION_5]), st.data()
)
def test_what_confirms_messages_may_come_in_one_chunk(
    qualities: list[int], most: int, version: int, data: st.DataObject
) -> None:
    """Whatever order it has, and though some of it confirms nothing."""
    together, apart = (receiver(most, version, qualities) for _ in range(2))
    while True:
        came = together.received()
        assert came == apart.received()
        answers = [confirmed(each) for each in came if isinstance(each, Publish) and each.qos]
        answers += [packets.Pubcomp(each.id) for each in came if isinstance(each, packets.Pubrel)]
        if not answers:
            break
        strange = [kind(number) for kind in (packets.Puback, packets.Pubcomp) for number in (1, 2, 99)]
        shuffled = data.draw(st.permutations([*answers, *data.draw(st.lists(st.sampled_from(strange), max_size=3))]))
        frames = [encode(each, version) for each in shuffled]
        together.connection.send_bytes(b"".join(frames))
        for frame in frames:
            apart.connection.send_bytes(frame)
    counts = [each.connection.protocol.traffic for each in (together, apart)]
    assert counts[0].objects_in == counts[1].objects_in
    assert not any(each.connection.protocol.link.outgoing for each in (together, apart))


def receiver(most: int, version: int, qualities: list[int]) -> MqttPeer:
    """A client that takes so many messages at a time, and is sent some."""
    network = Network()
    asked = {"properties": Properties(receive_maximum=most)} if version == VERSION_5 else {}
    peer, sender = MqttPeer(network, "receiver", version, **asked), MqttPeer(network, "sender")
    peer.subscribe(WantedFilter("tv", 2))
    for number, qos in enumerate(qualities):
        sender.send(Publish("tv", b"%d" % number, qos, id=number + 1 if qos else 0))
    return peer
