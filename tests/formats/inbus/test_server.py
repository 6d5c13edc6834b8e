"""Inbus, sentence by sentence, on a port that is a list."""

from twisted.internet.error import InvalidAddressError, MessageLengthError

from bussrv import events as ev
from bussrv.bus.sessions.ending import MOST_ENDED
from bussrv.net.transport.udp_batches import MOST_SEGMENTS
from bussrv.registry.state.state import RegistryState
from bussrv.wire import inbus
from tests.formats.network import Network
from tests.tables import each_row


def replayed(network: Network) -> RegistryState:
    """What a server that starts now would read in the journal."""
    state = RegistryState()
    for record in network.journal.records:
        state.apply(record.event, record.time)
    return state


@each_row(
    ("datagram", "reason"),
    [
        (b"\xff", "bad-utf8"),
        (b"{", "bad-json"),
        (b"[]", "not-an-object"),
        (b'{"version":2,"opcode":3,"application":["a",1],"address":["",0],"payload":"*"}', "bad-base64"),
        (b'{"version":1,"opcode":1,"application":["a",0],"address":["10.0.0.2",0],"payload":""}', "bad-element"),
        (b'{"version":1,"opcode":1,"application":["a",0],"address":["here",1],"payload":""}', "bad-element"),
        (b'{"version":1,"opcode":1,"application":["",0],"address":["10.0.0.2",1],"payload":""}', "bad-service-name"),
        (
            b'{"version":1,"opcode":2,"application":["a",0],"address":["10.0.0.2",1],"payload":""}',
            "no-such-subscription",
        ),
        (b'{"version":1,"opcode":3,"application":["bus/x",1],"address":["",0],"payload":""}', "reserved-name"),
    ],
)
def test_what_is_wrong_is_dropped_and_counted_and_never_answered(datagram: bytes, reason: str) -> None:
    network = Network()
    network.udp.receive(datagram)
    assert network.udp.taken() == []
    assert network.bus.counters[reason] == 1
    assert network.registry.state.sessions == {}
    assert network.events(ev.SessionOpened) == []


@each_row(
    ("datagram", "kind"),
    [
        (inbus.publish("bus/" + "x" * 1000, 1, b""), ev.ServiceRefused),
        (inbus.publish("", 1, b""), ev.ServiceRefused),
        (inbus.subscribe("x" * 1000, "10.0.0.2", 5000), ev.SubscriptionRefused),
        (inbus.subscribe("x" * 1000, "10.0.0.9", 5000), ev.SubscriptionRefused),
    ],
)
def test_refusals_are_journaled_at_a_limited_rate_and_cut(datagram: bytes, kind: type[ev.Event]) -> None:
    network = Network()
    network.udp.receive(datagram)
    (refused,) = network.events(kind)
    assert (refused.protocol, refused.peer) == ("inbus", "10.0.0.2")
    assert len(refused.service or "") <= 255
    for _ in range(1000):
        network.udp.receive(datagram)
    assert len(network.journal.records) <= 100


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


def test_renewals_are_not_journaled_when_leases_are_for_ever() -> None:
    network = Network(inbus_lease=0)
    for _ in range(10):
        network.reactor.advance(1000)
        network.udp.subscribe("a")
    assert network.events(ev.SubscriptionRenewed) == []
    network.udp.subscribe("a", version=1)
    assert len(network.events(ev.SubscriptionRenewed)) == 1


def test_repeating_a_subscription_under_way_adds_nothing() -> None:
    network = Network()
    network.journal.hold()
    for _ in range(10):
        network.udp.subscribe("a")
    network.journal.release()
    assert len(network.events(ev.SubscriptionAdded)) == 1
    assert network.events(ev.SubscriptionRenewed) == []
    network.udp.publish("a", b"x")
    assert network.udp.payloads() == [b"x"]


def test_a_subscription_not_written_may_be_repeated_at_once() -> None:
    network = Network()
    network.udp.subscribe("other")
    network.journal.hold()
    network.udp.subscribe("a")
    network.journal.fail("no space left")
    network.journal.fail(None)
    network.udp.subscribe("a")
    network.udp.publish("a", b"x")
    assert network.udp.payloads() == [b"x"]


def test_subscribing_again_right_behind_unsubscribing() -> None:
    network = Network()
    network.udp.subscribe("a")
    network.journal.hold()
    network.udp.unsubscribe("a")
    network.udp.subscribe("a")
    network.journal.release()
    network.udp.publish("a", b"x")
    assert network.udp.payloads() == [b"x"]


def test_a_renewal_counts_even_if_too_early_for_the_journal() -> None:
    network = Network(inbus_lease=400)
    network.udp.subscribe("a")
    network.reactor.advance(90)
    network.udp.subscribe("a")
    network.reactor.pump([10] * 37)
    assert network.events(ev.SubscriptionRenewed, ev.SubscriptionRemoved) == []
    network.reactor.pump([10] * 10)
    assert len(network.events(ev.SubscriptionRemoved)) == 1


def test_a_subscription_may_be_made_again_after_its_lease() -> None:
    network = Network(inbus_lease=400)
    network.udp.subscribe("a")
    network.udp.subscribe("b")
    network.reactor.pump([10] * 30)
    network.udp.subscribe("b")
    network.reactor.pump([10] * 16)
    assert [event.service for event in network.events(ev.SubscriptionRemoved)] == ["a"]
    (entry,) = network.udp.server.ledger(1000)
    assert entry.app_keys == ("b",)
    network.udp.subscribe("a")
    network.udp.publish("a", b"x")
    assert network.udp.payloads() == [b"x"]


def test_a_subscription_that_is_not_renewed_ends_with_its_lease() -> None:
    network = Network(inbus_lease=400)
    network.udp.subscribe("a")
    network.udp.subscribe("b")
    for _ in range(5):
        network.reactor.pump([10] * 10)
        network.udp.subscribe("a")
    network.udp.publish("a", b"a")
    network.udp.publish("b", b"b")
    assert network.udp.payloads() == [b"a"]
    (removed,) = network.events(ev.SubscriptionRemoved)
    assert (removed.service, removed.reason) == ("b", "lease-expired")
    network.reactor.pump([10] * 50)
    reasons = {event.reason for event in network.events(ev.SessionClosed)}
    assert reasons == {"lease-expired"}
    assert network.registry.state.sessions == {}


def test_of_a_lease_that_began_after_now_the_whole_is_left() -> None:
    before = Network(seconds=10_000, inbus_lease=400)
    before.udp.subscribe("a")
    after = Network(replayed(before), inbus_lease=400)
    after.reactor.pump([10] * 39)
    after.udp.publish("a", b"y")
    assert after.udp.payloads() == [b"y"]
    after.reactor.pump([10] * 6)
    after.udp.publish("a", b"z")
    assert after.udp.taken() == []


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


@each_row(
    "failure",
    [OSError(11, "try again"), MessageLengthError("too long"), InvalidAddressError("::1", "an IPv4 port"), None],
)
def test_what_the_system_does_not_take_is_counted(failure: Exception | None) -> None:
    """``None``: the port is closed already."""
    network = Network()
    member = network.member()
    network.udp.subscribe("a")
    network.udp.failing = failure
    if failure is None:
        network.udp.server.stopProtocol()
    network.udp.publish("a", b"x")
    assert network.bus.counters["inbus-send-failed"] == 1
    assert member.names() == ["text/plain; charset=UTF-8"]


def test_a_change_that_cannot_be_written_is_dropped_and_counted() -> None:
    network = Network()
    network.journal.fail("no space left")
    network.udp.subscribe("a")
    network.udp.publish("a", b"x")
    assert network.bus.counters["journal-unavailable"] == 2
    assert network.registry.state.sessions == {}
    network.journal.fail(None)
    network.udp.subscribe("a")
    network.udp.publish("a", b"y")
    assert network.udp.payloads() == [b"y"]


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
