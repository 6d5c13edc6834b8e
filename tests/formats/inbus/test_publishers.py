"""Inbus: publishers, and the publications that wait for their services, on a port that is a list."""

from bussrv import events as ev
from bussrv.bus.sessions.ending import MOST_ENDED
from bussrv.wire import inbus
from tests.formats.network import Network


def test_a_publisher_with_many_services_ends_in_slices_at_a_stop() -> None:
    network = Network()
    for number in range(2 * MOST_ENDED + 1):
        network.udp.publish(f"gauge {number}", b"1")
    stopped = network.udp.server.stop()
    assert (len(network.registry.state.services), stopped.called) == (MOST_ENDED + 1, False)
    network.reactor.advance(0)
    assert stopped.called
    assert (network.registry.state.services, network.registry.state.sessions) == ({}, {})
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == "server-stopped"


def test_a_service_that_is_heard_again_while_others_end_is_kept() -> None:
    """A sweep has many steps."""
    network = Network(inbus_lease=0)
    for name in ("gauge", "meter"):
        network.udp.publish(name, b"1")
    network.reactor.advance(1)
    steps = network.udp.server._publishers.sweep(network.reactor.seconds())
    next(steps)
    (left,) = network.registry.state.services
    network.udp.publish(left, b"2")
    assert len(list(steps)) == 1
    assert list(network.registry.state.services) == [left]


def test_publications_wait_for_their_service_and_keep_order() -> None:
    network = Network()
    network.udp.subscribe("a")
    network.udp.subscribe("b")
    network.journal.hold()
    network.udp.publish("a", b"1")
    network.udp.publish("b", b"2")
    network.udp.publish("a", b"3")
    assert network.udp.taken() == []
    network.journal.release()
    assert network.udp.payloads() == [b"1", b"2", b"3"]


def test_what_is_published_on_another_service_waits_too() -> None:
    network = Network()
    network.udp.subscribe("a")
    network.udp.subscribe("b")
    network.udp.publish("a", b"0")
    network.udp.taken()
    network.journal.hold()
    network.udp.publish("b", b"1")
    network.udp.publish("a", b"2")
    network.journal.release()
    assert network.udp.payloads() == [b"1", b"2"]


def test_what_waits_is_bounded() -> None:
    network = Network()
    network.journal.hold()
    for _ in range(30):
        network.udp.publish("a", b"x" * 45_000)
    datagram = len(inbus.publish("a", 1, b"x" * 45_000, 2))
    assert network.bus.counters["publisher-waiting"] == 30 - (1 << 20) // datagram
    network.journal.release()
    network.udp.subscribe("b")
    network.udp.publish("b", b"y" * 45_000)
    assert network.bus.counters["publisher-waiting"] == 30 - (1 << 20) // datagram
    assert network.udp.payloads() == [b"y" * 45_000]


def test_a_publisher_whose_publications_wait_is_not_silent() -> None:
    network = Network(inbus_lease=8)
    network.journal.hold()
    network.udp.publish("a", b"x")
    network.reactor.pump([1] * 30)
    network.journal.release()
    assert list(network.registry.state.services) == ["a"]


def test_what_waits_is_bounded_even_without_payloads() -> None:
    network = Network()
    network.journal.hold()
    for _ in range(15_000):
        network.udp.publish("a", b"")
    assert network.bus.counters["publisher-waiting"] == 15_000 - (1 << 20) // len(inbus.publish("a", 1, b""))
    network.journal.release()


def test_what_waits_when_the_port_closes_goes_nowhere() -> None:
    network = Network()
    network.udp.subscribe("known")
    network.udp.publish("known", b"1")
    network.journal.hold()
    network.udp.publish("new", b"2")
    network.udp.publish("known", b"3")
    network.udp.server.stop()
    network.journal.release()
    assert network.udp.payloads() == [b"1"]
    assert list(network.registry.state.services) == []
