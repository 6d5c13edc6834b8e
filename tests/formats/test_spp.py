"""SPP, sentence by sentence, on transports that are strings."""

from itertools import pairwise
from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.wire import spp
from bussrv.wire.spp import Info, Offer, Removed
from tests.formats.network import Member, Network
from tests.tables import each_row


def service(network: Network, *names: str) -> Member:
    member = network.member(receive_mode="none")
    for name in names:
        member.send({"event": "services/register", "name": name})
    return member


def test_every_service_is_offered_on_connecting_and_each_that_appears_or_goes_later() -> None:
    network = Network()
    member = service(network, "tv", "door")
    watcher = network.watcher()
    assert watcher.received() == [Offer("door"), Offer("tv")]
    second = service(network, "tv", "radio")
    assert watcher.received() == [Offer("radio")]
    member.connection.close()
    assert watcher.received() == [Removed("door")]
    second.send({"event": "services/unregister"})
    assert watcher.received() == [Removed("radio"), Removed("tv")]


def test_a_snapshot_and_then_every_update() -> None:
    network = Network()
    member = service(network, "tv")
    watcher = network.watcher()
    watcher.subscribe("tv")
    assert watcher.received() == [Offer("tv"), Info("tv", b"")]
    member.send({"type": "a/b"}, b"1")
    late = network.watcher()
    late.subscribe("tv")
    assert late.messages() == [b"1"]
    member.send({"type": "a/b"}, b"2")
    assert (watcher.messages(), late.messages()) == ([b"1", b"2"], [b"2"])


def test_subscribing_again_brings_the_snapshot_again_and_no_record() -> None:
    network = Network()
    member = service(network, "tv")
    watcher = network.watcher()
    watcher.subscribe("tv")
    member.send({"type": "a/b"}, b"1")
    watcher.subscribe("tv")
    assert watcher.messages() == [b"", b"1", b"1"]
    assert len(network.events(ev.SubscriptionAdded)) == 2
    assert network.events(ev.SubscriptionRenewed) == []


def test_unsubscribing() -> None:
    network = Network()
    member = service(network, "tv")
    watcher = network.watcher()
    watcher.subscribe("tv")
    watcher.unsubscribe("tv")
    watcher.unsubscribe("tv")
    watcher.unsubscribe("never")
    member.send({"type": "a/b"}, b"1")
    assert watcher.messages() == [b""]
    assert len(network.events(ev.SubscriptionRemoved)) == 1
    assert watcher.connection.is_open


def test_after_a_removal_nobody_can_subscribe_but_those_who_are_keep_receiving() -> None:
    network = Network()
    member = service(network, "tv")
    early, late = network.watcher(), network.watcher()
    early.subscribe("tv")
    member.send({"event": "services/unregister"})
    late.subscribe("tv")
    early.subscribe("tv")
    assert late.received() == [Offer("tv"), Removed("tv")]
    assert [event.reason for event in network.events(ev.SubscriptionRefused)] == ["no-such-service"] * 2
    again = service(network, "tv")
    again.send({"type": "a/b"}, b"back")
    assert early.messages() == [b"", b"back"]
    assert late.messages() == []


def test_a_removal_comes_behind_what_was_published_before() -> None:
    network = Network()
    member = service(network, "tv")
    watcher = network.watcher()
    watcher.subscribe("tv")
    watcher.received()
    member.connection.send_bytes(b'{"type":"a/b","size":1}\0x{"event":"services/unregister"}\0')
    assert watcher.received() == [Info("tv", b"x"), Removed("tv")]


def test_a_watcher_of_several_services_gets_them_in_order() -> None:
    network = Network()
    member = service(network, "tv", "door")
    watcher = network.watcher()
    for name in ("tv", "door"):
        watcher.subscribe(name)
    watcher.received()
    names = ["tv", "door", "tv", "tv", "door"]
    member.connection.send_bytes(b"".join(b'{"type":"a/b","sender":"%b"}\0' % name.encode() for name in names))
    assert watcher.received() == [Info(name, b"") for name in names]


def test_a_removed_service_forgets_its_last_value() -> None:
    network = Network()
    member = service(network, "tv")
    member.send({"type": "a/b"}, b"old")
    member.connection.close()
    service(network, "tv")
    watcher = network.watcher()
    watcher.subscribe("tv")
    assert watcher.messages() == [b""]


def test_a_subscription_is_answered_when_it_is_durable_and_loses_nothing() -> None:
    network = Network()
    member = service(network, "tv")
    watcher = network.watcher()
    watcher.received()
    network.journal.hold()
    watcher.subscribe("tv")
    watcher.subscribe("tv")
    member.send({"type": "a/b"}, b"1")
    assert watcher.received() == []
    network.journal.release()
    assert watcher.messages() == [b"1", b"1"]


@given(st.lists(st.sampled_from(["publish", "subscribe", "release"]), max_size=30))
def test_no_gap_and_no_repetition_between_snapshot_and_updates(steps: list[str]) -> None:
    network = Network()
    member = service(network, "tv")
    watcher = network.watcher()
    network.journal.hold()
    published = 0
    for step in steps:
        if step == "publish":
            published += 1
            member.send({"type": "a/b"}, b"%d" % published)
        elif step == "subscribe":
            watcher.subscribe("tv")
        else:
            network.journal.release()
            network.journal.hold()
    network.journal.release()
    member.send({"type": "a/b"}, b"%d" % (published + 1))
    numbers = [int(message or b"0") for message in watcher.messages()]
    if "subscribe" in steps:
        assert numbers[-1] == published + 1
    for before, after in pairwise(numbers):
        assert after in (before, before + 1)
    assert sum(a == b for a, b in pairwise(numbers)) <= max(0, steps.count("subscribe") - 1)


@each_row("packet", [pack(">II", 0, 4) + b"test", pack(">II", 3, 0), pack(">II", 31, 1) + b"x", spp.other(99, b"x")])
def test_reserved_and_other_packets_are_ignored_and_counted(packet: bytes) -> None:
    network = Network()
    watcher = network.watcher()
    watcher.connection.send_bytes(packet)
    assert watcher.received() == []
    assert network.bus.counters["spp-ignored"] == 1
    assert watcher.connection.is_open


@each_row(
    ("packet", "reason"),
    [
        (pack(">III", 1, 6, 3) + b"tv", "string-overruns-packet"),
        (pack(">II", 1, 2) + b"tv", "packet-too-short"),
        (pack(">III", 1, 6, 2) + b"\xff\xff", "bad-utf8"),
        (pack(">II", 1, 101), "packet-too-large"),
        (pack(">II", 99, 0xFFFFFFFF), "packet-too-large"),
    ],
)
def test_what_is_malformed_ends_the_connection(packet: bytes, reason: str) -> None:
    network = Network(max_packet=100)
    watcher, other = network.watcher(), network.watcher()
    watcher.connection.send_bytes(packet + spp.subscribe("tv"))
    assert not watcher.connection.is_open
    assert other.connection.is_open
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == reason


def test_what_is_too_large_for_a_packet_is_dropped_for_spp_only_and_counted() -> None:
    network = Network(max_packet=20)
    service_member, other = service(network, "tv"), network.member()
    watcher = network.watcher()
    watcher.subscribe("tv")
    service_member.send({"type": "a/b"}, b"x" * 10)
    service_member.send({"type": "a/b"}, b"x" * 11)
    assert watcher.messages() == [b"", b"x" * 10]
    assert other.names() == ["a/b", "a/b"]
    assert network.bus.counters["packet-too-large"] == 1


def test_a_change_that_cannot_be_written_is_silent() -> None:
    network = Network()
    service(network, "tv")
    watcher = network.watcher()
    watcher.received()
    network.journal.fail("no space left")
    watcher.subscribe("tv")
    assert watcher.received() == []
    assert network.bus.counters["journal-unavailable"] == 1
    network.journal.fail(None)
    watcher.subscribe("tv")
    assert watcher.messages() == [b""]
