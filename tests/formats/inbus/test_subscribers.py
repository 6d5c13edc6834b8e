"""Inbus: subscribers and their leases, on a port that is a list."""

from bussrv import events as ev
from bussrv.registry.state.state import RegistryState
from tests.formats.network import Network


def replayed(network: Network) -> RegistryState:
    """What a server that starts now would read in the journal."""
    state = RegistryState()
    for record in network.journal.records:
        state.apply(record.event, record.time)
    return state


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
