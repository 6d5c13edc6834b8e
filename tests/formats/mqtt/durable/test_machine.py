"""Durable sessions against what MQTT promises, whatever connections, acknowledgements, the disk and the server do.

Two clients behave as MQTT wants them to: a publisher that sends again what was not acknowledged, and a subscriber that
recognises what it has. In the end, everything that was acknowledged has come: of QoS 1 at least once, of QoS 2 exactly
once, each in order.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bussrv import events as ev
from bussrv.formats.mqtt import publishing
from bussrv.spool import merging
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Properties, WantedFilter
from tests.formats.mqtt.durable.clients import Publisher, Subscriber
from tests.formats.mqtt.peer import VERSIONS, MqttPeer
from tests.formats.network import Network
from tests.journal.support import fold

TOPIC = "tv"
TOGETHER = publishing.MOST_TOGETHER
FEW = merging.FEW


class Client:
    """A client in memory.

    :ivar unsent: packets that it will send when the test lets it.
    """

    def __init__(self, client_id: str, core: Subscriber | Publisher) -> None:
        self.client_id = client_id
        self.core = core
        self.peer: MqttPeer | None = None
        self.is_present = False
        self.unsent: list[packets.Packet] = []

    @property
    def is_connected(self) -> bool:
        return self.peer is not None and self.peer.is_open

    def connect(self, network: Network, version: int, receive_maximum: int) -> bool:
        """:returns: whether the server let it in."""
        about = {} if version != VERSION_5 else {"session_expiry_interval": 1000, "receive_maximum": receive_maximum}
        self.unsent = []
        self.peer = MqttPeer(network, self.client_id, version, clean_start=False, properties=Properties(**about))
        answer = self.peer.answer
        if not isinstance(answer, packets.Connack) or answer.code:
            self.peer.connection.close()
            return False
        self.is_present = answer.session_present
        if isinstance(self.core, Publisher):
            for each in self.core.connected(is_present=self.is_present):
                self.peer.send(each)
        for each in self.peer.rest:
            self.unsent += self.core.take(each)
        return True

    def hear(self) -> None:
        if self.peer is not None:
            for each in self.peer.received():
                self.unsent += self.core.take(each)

    def say(self, count: int) -> None:
        """Send some of what is unsent, in order."""
        for each in self.unsent[:count]:
            if self.peer is not None and self.peer.is_open:
                self.peer.send(each)
        del self.unsent[:count]


class DurableSessions(RuleBasedStateMachine):
    @initialize(qos=st.sampled_from([1, 2]), together=st.sampled_from([1, TOGETHER]), few=st.sampled_from([1, FEW]))
    def begin(self, qos: int, together: int, few: int) -> None:
        publishing.MOST_TOGETHER = together
        merging.FEW = few
        self.network = Network(mqtt_session_expiry=1000)
        self.qos = qos
        self.has_failed = False
        self.made = 0
        self.got, self.sent = Subscriber(), Publisher()
        self.subscriber, self.publisher = Client("sub", self.got), Client("pub", self.sent)
        assert self.subscriber.connect(self.network, VERSION_5, 10)
        assert self.subscriber.peer is not None
        self.session_id = self.subscriber.peer.session_id
        self.subscriber.peer.subscribe(WantedFilter(TOPIC, qos))
        assert self.publisher.connect(self.network, VERSION_5, 10)

    @property
    def clients(self) -> tuple[Client, Client]:
        return self.subscriber, self.publisher

    @rule(which=st.integers(0, 1), version=st.sampled_from(VERSIONS), receive_maximum=st.integers(1, 3))
    def connect(self, which: int, version: int, receive_maximum: int) -> None:
        """If it is connected already, the older connection ends."""
        self.clients[which].connect(self.network, version, receive_maximum)

    @rule(which=st.integers(0, 1))
    def lose_the_connection(self, which: int) -> None:
        peer = self.clients[which].peer
        if peer is not None and peer.is_open:
            peer.connection.close()

    @rule(qos=st.sampled_from([1, 2]))
    def publish(self, qos: int) -> None:
        if len(self.sent.open) < 60:
            self.made += 1
            packet, peer = self.sent.publish(TOPIC, b"%d" % self.made, qos), self.publisher.peer
            if peer is not None and peer.is_open:
                peer.send(packet)

    @rule(qos=st.sampled_from([1, 2]), count=st.integers(2, 5))
    def publish_several(self, qos: int, count: int) -> None:
        for _ in range(count):
            self.publish(qos)

    @rule(which=st.integers(0, 1), count=st.integers(1, 5))
    def say(self, which: int, count: int) -> None:
        client = self.clients[which]
        client.hear()
        client.say(count)

    @rule(seconds=st.sampled_from([0.0, 0.5]))
    def let_the_disk_take(self, seconds: float) -> None:
        self.network.bus.spool.delay = seconds  # type: ignore[attr-defined]

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.network.reactor.advance(seconds)

    @precondition(lambda self: not self.network.bus.spool.fails)
    @rule()
    def fail_the_disk(self) -> None:
        self.network.bus.spool.fails = self.has_failed = True  # type: ignore[attr-defined]

    @precondition(lambda self: self.network.bus.spool.fails)
    @rule()
    def restore_the_disk(self) -> None:
        self.network.bus.spool.fails = False  # type: ignore[attr-defined]

    @rule()
    def crash(self) -> None:
        """The server is gone, with everything that is not on the disk."""
        for each in self.clients:
            each.peer, each.unsent = None, []
        spool = self.network.bus.spool
        spool.fails, spool.delay = False, 0.0  # type: ignore[attr-defined]
        self.network = self.network.restarted()

    @invariant()
    def sessions_are_there(self) -> None:
        network = getattr(self, "network", None)
        if network is None:
            return
        found = [each for each in network.registry.state.sessions.values() if each.is_durable]
        assert len({each.name for each in found}) == len(found)
        for each in found:
            client = self.subscriber if each.name == "sub" else self.publisher
            assert each.is_away != client.is_connected or client.peer is None or not client.is_present

    def teardown(self) -> None:
        publishing.MOST_TOGETHER, merging.FEW = TOGETHER, FEW
        if not hasattr(self, "network"):
            return
        spool = self.network.bus.spool
        spool.fails, spool.delay = False, 0.0  # type: ignore[attr-defined]
        self.network.reactor.advance(2)
        for each in self.clients:
            assert each.connect(self.network, VERSION_5, 5)
        turns = 0
        while (self.sent.open or self.queued()) and turns < 200:
            turns += 1
            for each in self.clients:
                each.hear()
                each.say(100)
            self.network.reactor.advance(0)
        assert self.sent.open == {}
        got = self.got.got
        for qos in (1, 2):
            wanted, came = self.sent.acknowledged[qos], got[min(qos, self.qos)]
            came = [each for each in came if each in self.sent.asked[qos]]
            once = list(dict.fromkeys(came))
            assert {*wanted} <= {*once}
            if not self.has_failed:
                assert once == sorted(once, key=int)
            if min(qos, self.qos) == 2:
                assert came == once
        assert fold(self.network.journal.records) == self.network.registry.state
        assert not [e for e in self.network.events(ev.SessionClosed) if e.reason == "internal-error"]
        assert not self.queued()

    def queued(self) -> bool:
        """Whether something waits for the subscriber's acknowledgement."""
        return bool(self.network.bus.spool.store.page(f"mqtt {self.session_id}", "queue", 0, 1, 1).entries)  # type: ignore[attr-defined]


TestDurableSessions: Any = DurableSessions.TestCase
TestDurableSessions.settings = settings(stateful_step_count=40)
