"""Inbus, sentence by sentence, on a port that is a list."""

from bussrv import events as ev
from bussrv.net.transport.udp_batches import MOST_SEGMENTS
from bussrv.wire import inbus
from tests.formats.network import Network


def test_a_name_that_is_refused_ends_nothing_else() -> None:
    network = Network()
    network.udp.publish("a", b"x")
    network.udp.publish("bus/x", b"x")
    network.udp.subscribe("a")
    network.udp.subscribe("")
    network.udp.publish("a", b"y")
    assert network.udp.payloads() == [b"y"]
    assert network.events(ev.SessionClosed) == []


def test_each_stated_address_and_publishing_host_has_a_session() -> None:
    network = Network()
    network.udp.subscribe("a", port=5000)
    network.udp.subscribe("b", port=5000)
    network.udp.subscribe("a", port=5001)
    for _ in range(3):
        network.udp.publish("a", b"x", source="10.0.0.3")
    network.udp.publish("a", b"x", source="10.0.0.4")
    sessions = network.registry.state.sessions.values()
    assert sorted((session.peer, session.persistent) for session in sessions) == [
        ("10.0.0.2:5000", True),
        ("10.0.0.2:5001", True),
        ("10.0.0.3", False),
        ("10.0.0.4", False),
    ]
    network.udp.unsubscribe("a", port=5000)
    assert network.events(ev.SessionClosed) == []
    network.udp.unsubscribe("b", port=5000)
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.reason, closed.peer, closed.objects_in) == ("unsubscribed", "10.0.0.2:5000", 4)


def test_sessions_count_what_they_sent_and_were_sent() -> None:
    network = Network()
    network.udp.subscribe("a")
    network.udp.publish("a", b"1")
    network.udp.publish("a", b"2")
    sent = network.udp.taken()
    network.udp.failing = OSError(11, "try again")
    network.udp.publish("a", b"3")
    network.udp.unsubscribe("a")
    network.udp.server.stop()
    subscriber, publisher = network.events(ev.SessionClosed)
    assert (subscriber.objects_in, subscriber.objects_out) == (2, 2)
    assert subscriber.bytes_out == sum(len(datagram) for datagram, _ in sent)
    assert (publisher.objects_in, publisher.objects_out) == (3, 0)
    assert publisher.bytes_in == 3 * len(inbus.publish("a", 1, b"1", 2))


def in_turns() -> Network:
    """A server whose port is read in turns, as real ones are."""
    network = Network()
    network.udp.subscribe("upnp", port=5000)
    network.udp.publish("upnp", b"")
    network.udp.taken()
    network.udp.server.in_turns = True
    return network


def test_what_a_turn_brings_goes_on_at_its_end() -> None:
    network = in_turns()
    for number in range(3):
        network.udp.publish("upnp", b"%d" % number)
    assert network.udp.payloads() == []
    network.reactor.advance(0)
    assert network.udp.payloads() == [b"0", b"1", b"2"]
    network.udp.publish("upnp", b"3")
    network.reactor.advance(0)
    assert network.udp.payloads() == [b"3"]


def test_no_more_is_put_off_than_goes_in_one_call() -> None:
    network = in_turns()
    sent = [b"%d" % number for number in range(MOST_SEGMENTS + 1)]
    for payload in sent[:-2]:
        network.udp.publish("upnp", payload)
    assert network.udp.payloads() == []
    network.udp.publish("upnp", sent[-2])
    assert network.udp.payloads() == sent[:-1]
    network.udp.publish("upnp", sent[-1])
    assert network.udp.payloads() == []
    network.reactor.advance(0)
    assert network.udp.payloads() == sent[-1:]


def test_a_subscriber_within_one_turn_gets_what_came_in_between() -> None:
    network = in_turns()
    network.udp.publish("upnp", b"1")
    network.udp.subscribe("upnp", port=5001)
    network.udp.publish("upnp", b"2")
    network.udp.unsubscribe("upnp", port=5000)
    network.udp.publish("upnp", b"3")
    network.reactor.advance(0)
    got = [(inbus.decode(datagram).payload, port) for datagram, (_, port) in network.udp.taken()]
    assert got == [(b"1", 5000), (b"2", 5000), (b"2", 5001), (b"3", 5001)]


def test_a_server_that_stops_in_a_turn_sends_what_it_was_given() -> None:
    network = in_turns()
    network.udp.publish("upnp", b"1")
    network.udp.server.stop()
    assert network.udp.payloads() == [b"1"]
    network.udp.server.stopProtocol()
    network.reactor.advance(0)
    assert network.bus.counters == {}
