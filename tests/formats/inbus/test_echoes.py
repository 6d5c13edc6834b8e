"""Two servers that are subscribers of each other do not play ping-pong for ever."""

from twisted.internet.task import Clock

from bussrv import events as ev
from bussrv.wire import inbus
from tests.formats.network import Network

HOSTS = {"a": "10.0.0.5", "b": "10.0.0.6"}
PORT = 7222


def rounds(servers: dict[str, Network], seconds: float, most: int = 1000) -> int:
    """Carry datagrams between the servers. :returns: how often one was carried."""
    carried = 0
    while carried < most:
        for server in servers.values():
            server.reactor.advance(0)
        sent = [(name, *each) for name, server in servers.items() for each in server.udp.taken()]
        if not sent:
            return carried
        for name, datagram, (host, port) in sent:
            (to,) = (other for other in servers if HOSTS[other] == host)
            assert port == PORT
            carried += 1
            servers[to].udp.server.datagramReceived(datagram, (HOSTS[name], PORT))
        next(iter(servers.values())).reactor.advance(seconds)
    return carried


def entangled(most: int) -> dict[str, Network]:
    clock = Clock()
    servers = {name: Network(server_id=name, reactor=clock, inbus_max_echoes=most) for name in HOSTS}
    for name, other in (("a", "b"), ("b", "a")):
        servers[name].udp.receive(inbus.subscribe("tv", HOSTS[other], PORT, 2), HOSTS[other])
    return servers


def test_a_publication_stops_after_some_rounds_and_is_journaled() -> None:
    servers = entangled(10)
    for _ in range(2):
        servers["a"].udp.publish("tv", b"news")
        assert 10 <= rounds(servers, 0.5) <= 2 * (10 + 1)
        servers["a"].reactor.advance(3)
    stopped = [each for server in servers.values() for each in server.events(ev.LimitReached)]
    assert {(each.limit, each.value, each.reason, each.service) for each in stopped} == {
        ("inbus-max-echoes", 10, "inbus-echo", "tv")
    }
    assert {each.peer for each in stopped} <= {f"{host}:{PORT}" for host in HOSTS.values()}
    assert sum(server.bus.counters["inbus-echo"] for server in servers.values()) == len(stopped) == 2


def test_many_at_once_stop_too() -> None:
    servers = entangled(10)
    for number in range(50):
        servers["a"].udp.publish("tv", b"%d" % number)
    assert 50 * 10 <= rounds(servers, 0.01, most=5000) <= 50 * 2 * (10 + 1)


def test_publications_go_on_after_one_was_stopped() -> None:
    servers = entangled(10)
    servers["a"].udp.publish("tv", b"news")
    assert rounds(servers, 0.01) >= 10
    watcher = servers["b"].watcher()
    watcher.subscribe("tv")
    watcher.received()
    servers["a"].udp.publish("tv", b"sports")
    rounds(servers, 0.01)
    assert b"sports" in watcher.messages()


def test_devices_that_repeat_slowly_or_from_elsewhere_are_heard() -> None:
    network = Network(inbus_max_echoes=10)
    watcher = network.watcher()
    network.udp.subscribe("alive", port=40_000)
    for _ in range(30):
        network.udp.publish("alive", b"yes", source="10.0.0.2")
        network.reactor.advance(2.1)
    for _ in range(30):
        network.udp.server.datagramReceived(inbus.publish("alive", 1, b"yes", 2), ("10.0.0.2", 40_001))
    watcher.received()
    assert network.bus.counters["inbus-echo"] == 0
    assert len(network.udp.taken()) == 60
