"""Reflection, attack A8: a host with many stated addresses is not sent many times what one of them may be sent."""

from collections import Counter
from ipaddress import ip_network

from bussrv import events as ev
from bussrv.wire import inbus
from tests.formats.network import Network
from tests.tables import each_row

PORTS = range(1, 101)
ALLOWED = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))


def flooded(network: Network, times: int = 20) -> Counter[str]:
    """How many datagrams each host is sent of so many publications."""
    for _ in range(times):
        network.udp.publish("tv", b"x", source="10.9.9.9")
    return Counter(host for _, (host, _) in network.udp.taken())


def state(network: Network, host: str, by: str, ports: range = PORTS) -> None:
    for port in ports:
        network.udp.receive(inbus.subscribe("tv", host, port), by)


def limits(network: Network) -> set[tuple[str, int, str | None]]:
    return {(event.limit, event.value, event.reason) for event in network.events(ev.LimitReached)}


def test_all_addresses_of_a_host_share_a_rate() -> None:
    network = Network(inbus_max_host_rate=300, inbus_max_rate=10)
    state(network, "10.0.0.2", "10.0.0.2")
    state(network, "10.0.0.3", "10.0.0.3", range(1, 2))
    assert flooded(network) == {"10.0.0.2": 300, "10.0.0.3": 10}
    assert limits(network) == {("inbus-max-host-rate", 300, "inbus-host-rate"), ("inbus-max-rate", 10, "inbus-rate")}
    assert network.bus.counters["inbus-host-rate"] + network.bus.counters["inbus-rate"] == 20 * 101 - 310
    assert sum(each.over_rate for each in network.udp.server.ledger(1000)) == 20 * 101 - 310
    network.reactor.advance(0.5)
    assert flooded(network)["10.0.0.2"] == 150


def test_addresses_that_another_host_stated_share_the_lower_one() -> None:
    network = Network(inbus_max_host_rate=300, inbus_max_rate=50, inbus_allow=ALLOWED)
    state(network, "10.0.0.2", "10.0.0.66")
    assert flooded(network) == {"10.0.0.2": 50}
    assert limits(network) == {("inbus-max-rate", 50, "inbus-host-rate")}


def test_a_host_speaking_for_itself_has_the_higher_rate() -> None:
    network = Network(inbus_max_host_rate=300, inbus_max_rate=50, inbus_allow=ALLOWED)
    for by in ("10.0.0.66", "10.0.0.2", "10.0.0.66"):
        state(network, "10.0.0.2", by)
    assert flooded(network) == {"10.0.0.2": 300}


@each_row("allow", [ALLOWED, ()])
def test_after_a_restart_stated_addresses_have_the_lower_rate(allow: tuple[object, ...]) -> None:
    before = Network()
    state(before, "10.0.0.2", "10.0.0.2")
    network = Network(before.registry.state, inbus_max_host_rate=300, inbus_max_rate=50, inbus_allow=allow)
    assert flooded(network) == {"10.0.0.2": 50 if allow else 300}
    state(network, "10.0.0.2", "10.0.0.2")
    network.reactor.advance(1)
    assert flooded(network) == {"10.0.0.2": 300}


@each_row("host", ["127.0.0.1", "127.5.5.5", "::1"])
def test_loopback_addresses_have_only_the_rate_of_one_address(host: str) -> None:
    network = Network(inbus_max_host_rate=1, inbus_max_rate=15, inbus_allow=[ip_network(host)])
    state(network, host, "10.0.0.66", range(1, 11))
    assert flooded(network) == {host: 150}


def test_a_network_of_ipv6_is_one_host() -> None:
    network = Network(inbus_max_host_rate=30, inbus_max_rate=20)
    for number in range(1, 20):
        host = f"2001:db8::{number}"
        state(network, host, host, range(5, 6))
    state(network, "2001:db8:0:1::1", "2001:db8:0:1::1", range(5, 6))
    sent = flooded(network)
    assert sent.pop("2001:db8:0:1::1") == 20
    assert sent.total() == 30
