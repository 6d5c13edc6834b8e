"""Malformed and hostile datagrams: nothing is answered, nobody else notices; log, journal and memory do not fill."""

from __future__ import annotations

from ipaddress import ip_network

from twisted.logger import capturedLogs

from bussrv import events as ev
from bussrv.counts.throttle import STRANGER_BURST
from bussrv.errors import REASONS
from bussrv.formats.inbus.drops import LOG_BURST, LOG_BURST_OF_ALL
from bussrv.wire import inbus
from tests.formats.inbus.odd_datagrams import ROWS, SERVER, SOURCE, Row, datagram
from tests.formats.network import Network, drain
from tests.tables import check_each

FLOOD = STRANGER_BURST + 10
MAX_KEPT = 1 << 20

NAMED = [(row.name, row) for row in ROWS]


class Scene:
    """A server and those who use it: two subscribers, a member of the object network, and a client of SPP."""

    def __init__(self) -> None:
        self.network = Network()
        self.udp = self.network.udp
        self.udp.subscribe("a", host="10.0.0.2", version=1)
        self.udp.subscribe("a", host="10.0.0.4", version=2)
        self.udp.publish("a", b"0")
        self.member = self.network.member()
        self.watcher = self.network.watcher()
        self.watcher.subscribe("a")
        self.udp.taken()
        drain([self.member])
        self.watcher.received()
        self.counted = self.network.bus.counters.copy()
        self.known = self.network.registry.state.copy()
        self.written = len(self.network.journal.records)

    def expect_nothing(self) -> None:
        """Nobody was told anything, and the registry is as it was."""
        assert self.udp.taken() == []
        assert self.member.received() == []
        assert self.watcher.received() == []
        assert self.network.registry.state == self.known

    def expect_served(self) -> None:
        """What is published reaches everybody as before."""
        self.udp.publish("a", b"served")
        taken = self.udp.taken()
        assert [address for _, address in taken] == [("10.0.0.2", 5000), ("10.0.0.4", 5000)]
        assert [(each.version, each.payload) for each in (inbus.decode(data) for data, _ in taken)] == [
            (1, b"served"),
            (2, b"served"),
        ]
        assert [payload for _, payload in self.member.received()] == [b"served"]
        assert self.watcher.messages() == [b"served"]


def test_the_table_has_enough_rows_and_no_name_twice() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 60
    assert {row.reason for row in ROWS} <= REASONS.keys()


def test_it_is_dropped_and_counted_and_nobody_else_notices() -> None:
    check_each(NAMED, expect_dropped)


def expect_dropped(row: Row) -> None:
    scene = Scene()
    data = row.build()
    assert len(data) <= inbus.MAX_DATAGRAM
    scene.udp.receive(data, row.source)
    assert scene.network.bus.counters - scene.counted == {row.reason: 1}
    scene.expect_nothing()
    scene.expect_served()


def test_a_flood_of_it_fills_neither_the_log_nor_the_journal() -> None:
    """What the log says is short, on one line, and names the sender."""
    check_each(NAMED, expect_short_log)


def expect_short_log(row: Row) -> None:
    scene = Scene()
    data = row.build()
    with capturedLogs() as logged:
        for _ in range(FLOOD):
            scene.udp.receive(data, row.source)
    assert scene.network.bus.counters - scene.counted == {row.reason: FLOOD}
    assert len(logged) == LOG_BURST
    for event in logged:
        assert event["peer"] == row.source
        assert len(event["message"]) <= 200
        assert event["message"].isprintable()
    assert len(scene.network.journal.records) - scene.written <= STRANGER_BURST
    for record in scene.network.journal.records[scene.written :]:
        assert record.event.reason == row.reason
        assert len(record.event.service or "") <= 255
    scene.expect_nothing()


def test_forged_sources_do_not_fill_the_log() -> None:
    """There are as many of them as anybody wants: the limit for each is none for all."""
    scene = Scene()
    with capturedLogs() as logged:
        for number in range(2000):
            scene.udp.receive(b"{", f"10.1.{number // 250}.{number % 250}")
        scene.network.reactor.advance(60)
        scene.udp.receive(b"{", SOURCE)
    assert len(logged) == LOG_BURST_OF_ALL + 1
    assert logged[-1]["suppressed"] == 2000 - LOG_BURST_OF_ALL
    scene.expect_nothing()


def test_a_flood_for_one_address_is_limited_and_others_go_on() -> None:
    """Beyond the rate everything is dropped, for that address only; it has a burst of one second, then the rate."""
    network = Network(inbus_max_rate=100)
    network.udp.subscribe("quiet", port=5001)
    network.udp.subscribe("loud")
    for _ in range(1000):
        network.udp.publish("loud", b"x")
    network.udp.publish("quiet", b"y")
    taken = [address for _, address in network.udp.taken()]
    assert taken == [("10.0.0.2", 5000)] * 100 + [("10.0.0.2", 5001)]
    assert network.bus.counters["inbus-rate"] == 900
    reached = network.events(ev.LimitReached)
    assert 0 < len(reached) <= STRANGER_BURST
    network.reactor.advance(0.5)
    for _ in range(1000):
        network.udp.publish("loud", b"x")
    assert len(network.udp.taken()) == 50


def test_subscribing_ever_anew_does_not_get_around_the_rate() -> None:
    network = Network(inbus_max_rate=10)
    for _ in range(10):
        network.udp.subscribe("a")
        for _ in range(10):
            network.udp.publish("a", b"x")
        network.udp.unsubscribe("a")
    assert len(network.udp.taken()) == 10


def test_many_app_keys_of_one_address_share_its_rate() -> None:
    network = Network(inbus_max_rate=10)
    for app_key in "abcdefghij":
        network.udp.subscribe(app_key)
    for app_key in "abcdefghij" * 10:
        network.udp.publish(app_key, b"x")
    assert len(network.udp.taken()) == 10


def test_flipping_between_versions_does_not_fill_the_journal() -> None:
    network = Network()
    for number in range(1000):
        network.udp.subscribe("a", version=1 + number % 2)
    assert len(network.events(ev.SubscriptionRenewed)) == 4
    network.reactor.advance(3600)
    network.udp.subscribe("a", version=2)
    network.udp.publish("a", b"x")
    assert [inbus.decode(data).version for data, _ in network.udp.taken()] == [2]


def test_what_the_server_sends_never_comes_back_to_it() -> None:
    """Not even when it may send there: each of its publications would be published again, for ever."""
    network = Network(inbus_allow=(ip_network("10.0.0.0/8"),))
    network.udp.receive(datagram(address=list(SERVER)), SOURCE)
    assert network.bus.counters == {"own-address": 1}
    assert network.registry.state.sessions == {}
    (refused,) = network.events(ev.SubscriptionRefused)
    assert (refused.reason, refused.peer) == ("own-address", SOURCE)
    network.udp.receive(datagram(address=[SERVER[0], SERVER[1] + 1]))
    assert len(network.registry.state.sessions) == 1


def test_errors_for_nobody_are_counted_and_no_more() -> None:
    """The system may tell of datagrams to those who are no subscribers any more, or never were."""
    scene = Scene()
    for address in (("10.0.0.2", 1), ("10.9.9.9", 5000), ("::1", 5000)):
        scene.network.udp.server._subscribers.not_reached(address, True)
    assert scene.network.bus.counters - scene.counted == {"inbus-unreachable": 3}
    scene.expect_nothing()
    scene.expect_served()
