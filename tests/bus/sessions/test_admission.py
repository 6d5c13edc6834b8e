"""How many sessions there may be, in all and of one address, and how many come in a second."""

from ipaddress import ip_network

from bussrv import events as ev
from bussrv.formats.objects.dialing import DialedProtocol
from bussrv.net.session.factory import StreamFactory
from tests.formats.network import Connection, Member, Network, limits
from tests.tables import each_row


@each_row(
    ("settings", "limit"),
    [({"max_sessions": 2}, "max-sessions"), ({"max_sessions_per_address": 2}, "max-sessions-per-address")],
)
def test_there_are_no_more_sessions_than_the_limit(settings: dict[str, int], limit: str) -> None:
    network = Network(**settings)
    first, second = network.member(), network.member()
    third = Member(network.connect("objects"))
    (error,) = third.heads()
    assert (error["event"], error["reason"]) == ("error", "too-many-sessions")
    assert not third.connection.is_open
    assert first.connection.is_open
    assert network.bus.counters[limit] == 1
    assert limits(network) == [(limit, 2, "too-many-sessions", "10.0.0.1:4711")]
    second.connection.close()
    assert network.member().connection.is_open
    assert len(network.events(ev.SessionOpened)) == 3


def test_other_addresses_have_their_own_share() -> None:
    network = Network(max_sessions_per_address=1)
    network.member()
    assert network.connect("objects", "10.0.0.9").is_open
    assert network.connect("spp", "10.0.0.8").is_open
    assert not network.connect("spp", "10.0.0.9").is_open


def test_nothing_is_kept_of_addresses_that_have_left() -> None:
    network = Network()
    for number in range(3):
        network.connect("objects", f"10.0.1.{number}").close()
    counted = network.bus._admission._connections
    assert (counted._keys, counted._by_key) == ({}, {})


def test_an_address_opens_only_so_many_sessions_a_second() -> None:
    network = Network(max_connects=1, max_connects_burst=3)
    opened = [network.connect("business").is_open for _ in range(5)]
    assert opened == [True, True, True, False, False]
    assert network.connect("business", "10.0.0.9").is_open
    network.reactor.advance(1)
    assert network.connect("business").is_open
    assert [limit[0] for limit in limits(network)] == ["max-connects", "max-connects"]
    assert network.bus.counters["max-connects"] == 2


def test_whoever_is_turned_away_says_nothing_any_more() -> None:
    network = Network(max_sessions=1)
    network.member()
    away = network.connect("objects")
    away.send_bytes(b'{"event":"routing/subscribe"}\0')
    assert network.bus.counters["not-subscribed"] == 0
    assert len(network.events(ev.SessionOpened)) == len(network.registry.state.sessions) == 1


def test_links_that_this_server_dials_are_not_turned_away() -> None:
    network = Network(max_sessions=1)
    network.member()
    factory = StreamFactory(DialedProtocol, network.bus, network.reactor)
    dialed = Connection(factory.buildProtocol(None), "10.0.0.7")
    assert dialed.is_open
    dialed.protocol.linked.addErrback(lambda failure: None)  # type: ignore[attr-defined]
    dialed.close()


def test_inbus_has_a_budget_of_its_own() -> None:
    network = Network(max_sessions=1, inbus_max_sessions=2)
    network.udp.subscribe("tv", port=1)
    network.udp.subscribe("tv", port=2)
    network.udp.subscribe("tv", port=3)
    network.udp.publish("gauge", b"1")
    assert network.bus.counters["inbus-max-sessions"] == network.bus.counters["too-many-sessions"] == 2
    assert limits(network)[0] == ("inbus-max-sessions", 2, "too-many-sessions", "10.0.0.2:3")
    assert network.connect("objects").is_open
    assert not network.connect("objects").is_open
    network.udp.unsubscribe("tv", port=1)
    network.udp.subscribe("tv", port=3)
    assert len(network.registry.state.sessions) == 3


def test_one_address_has_only_a_share_of_that_budget() -> None:
    network = Network(inbus_max_sessions_per_address=1, max_connects_burst=2)
    for host in ("10.0.0.2", "10.0.0.3"):
        for port in (1, 2):
            network.udp.subscribe("tv", port=port, host=host)
    assert network.bus.counters["inbus-max-sessions-per-address"] == 2
    assert network.connect("objects", "10.0.0.2").is_open


def test_datagrams_do_not_count_as_connections_of_an_address() -> None:
    network = Network(max_connects=1, max_connects_burst=1)
    network.udp.subscribe("tv", port=1)
    network.udp.subscribe("tv", port=2)
    assert network.bus.counters["max-connects"] == 1
    assert network.connect("objects", "10.0.0.2").is_open


def test_sessions_that_outlived_a_restart_count() -> None:
    before = Network()
    before.udp.subscribe("tv")
    network = Network(state=before.registry.state, inbus_max_sessions=1)
    network.udp.subscribe("tv", port=1)
    assert network.bus.counters["inbus-max-sessions"] == 1


@each_row("host", ["127.0.0.1", "127.1.2.3", "::1", "192.168.7.9", "2001:db8::9", "::ffff:192.168.7.9"])
def test_this_machine_and_trusted_networks_have_only_the_totals(host: str) -> None:
    trusted = (ip_network("192.168.7.0/24"), ip_network("2001:db8::/32"))
    network = Network(
        max_sessions=3, max_sessions_per_address=1, max_connects=1, max_connects_burst=1, trusted_network=trusted
    )
    assert [network.connect("spp", host).is_open for _ in range(4)] == [True, True, True, False]


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    network = Network(max_sessions_per_address=2)
    assert [network.connect("spp", f"2001:db8::{each}").is_open for each in (1, 2, 3)] == [True, True, False]
    assert network.connect("spp", "2001:db8:0:1::1").is_open
    assert limits(network)[0][3] == "[2001:db8::3]:4711"
