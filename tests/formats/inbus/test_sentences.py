"""Inbus: one test for each thing that is said of it, by its seed, by the bus, and by the programs that speak it."""

import base64
import json
from ipaddress import ip_network
from typing import Any

import pytest
from twisted.logger import capturedLogs

from bussrv import events as ev
from bussrv.formats.inbus.subscribers import UNREACHABLE_GRACE
from bussrv.registry.state.state import RegistryState
from bussrv.server.configuration.plugins import installed
from bussrv.settings import Settings
from bussrv.wire import inbus
from tests.formats.network import Network, drain
from tests.tables import each_row

SOURCE = "10.0.0.2"
ELEMENTS = ("version", "opcode", "application", "address", "payload")

# As they stand in the seed, with its blanks.
SUBSCRIBE = (
    '{   "version" : 1 , "opcode" : 1, "application" : [ "upnp", 0 ], '
    '"address" : [ "127.0.0.1", 3456 ], "payload" : "" }'
)
UNSUBSCRIBE = SUBSCRIBE.replace('"opcode" : 1', '"opcode" : 2')
PUBLISH = (
    '{   "version" : 1 , "opcode" : 3, "application" : [ "upnp", 17 ], "address" : [ "", 0 ], '
    '"payload" : "Omega - Gammapolis I. - 0:45" }'
)


def message(opcode: int = 1, /, **elements: Any) -> bytes:
    """A good datagram, but for these elements; those that are ``...`` are left out."""
    payload = base64.b64encode(b"x").decode() if opcode == 3 else ""
    good = {
        "version": 2,
        "opcode": opcode,
        "application": ["a", 1],
        "address": ["", 0] if opcode == 3 else [SOURCE, 5000],
        "payload": payload,
    }
    return json.dumps({key: value for key, value in {**good, **elements}.items() if value is not ...}).encode()


def only_fields(network: Network) -> dict[str, Any]:
    """The one datagram that was sent, as JSON."""
    ((datagram, _),) = network.udp.taken()
    fields = json.loads(datagram)
    assert isinstance(fields, dict)
    return fields


def targets(network: Network) -> list[int]:
    """The ports that were sent something."""
    return [address[1] for _, address in network.udp.taken()]


def restarted(before: Network, seconds: float = 0, **settings: Any) -> Network:
    """A server that starts when this one is gone, with what it reads in the journal."""
    state = RegistryState()
    for record in before.journal.records:
        state.apply(record.event, record.time)
    return Network(state, before.reactor.seconds() + seconds, **settings)


# The seed.


def test_the_examples_of_the_seed() -> None:
    """They subscribe, publish and unsubscribe as it says, blanks and all."""
    network = Network()
    network.udp.receive(SUBSCRIBE.encode(), "127.0.0.1")
    network.udp.receive(PUBLISH.encode(), "127.0.0.1")
    ((datagram, address),) = network.udp.taken()
    assert (json.loads(datagram), address) == (json.loads(PUBLISH), ("127.0.0.1", 3456))
    network.udp.receive(UNSUBSCRIBE.encode(), "127.0.0.1")
    network.udp.receive(PUBLISH.encode(), "127.0.0.1")
    assert network.udp.taken() == []
    assert network.bus.counters == {}


def test_elements_that_do_not_apply_may_say_anything() -> None:
    """Empty and zero is only what they SHOULD be; they have to be of the right kind."""
    network = Network()
    network.udp.receive(message(1, application=["a", 77], payload="never read, and no base64"))
    network.udp.receive(message(3, address=["nowhere", 65_535]), "10.0.0.3")
    assert only_fields(network)["payload"] == "eA=="
    network.udp.receive(message(3, address=[0, 0]), "10.0.0.3")
    assert network.bus.counters == {"bad-element": 1}


def test_what_the_server_sends_has_empty_elements_if_not_needed() -> None:
    """All five are there, in the order of the seed."""
    network = Network()
    for version in (1, 2):
        network.udp.subscribe("a", port=5000 + version, version=version)
    network.udp.publish("a", b"x", app_type=17)
    for datagram, _ in network.udp.taken():
        fields = json.loads(datagram)
        assert tuple(fields) == ELEMENTS
        assert (fields["opcode"], fields["application"], fields["address"]) == (3, ["a", 17], ["", 0])


def test_the_app_type_tells_messages_of_one_application_apart() -> None:
    """It arrives as it was sent: 64 bits, with a sign."""
    network = Network()
    network.udp.subscribe("a")
    for app_type in (1, 17, -1, (1 << 63) - 1, -1 << 63):
        network.udp.publish("a", b"", app_type=app_type)
        assert only_fields(network)["application"] == ["a", app_type]


def test_the_address_and_the_app_key_identify_a_subscription() -> None:
    """Another port, another host or another app-key is another subscription."""
    network = Network()
    network.udp.subscribe("a", port=5000)
    network.udp.subscribe("b", port=5000)
    network.udp.subscribe("a", port=5001)
    network.udp.subscribe("a", port=5000, host="10.0.0.9")
    network.udp.unsubscribe("a", port=5000)
    network.udp.publish("a", b"x")
    assert [address for _, address in network.udp.taken()] == [(SOURCE, 5001), ("10.0.0.9", 5000)]
    network.udp.publish("b", b"x")
    assert [address for _, address in network.udp.taken()] == [(SOURCE, 5000)]


def test_it_is_served_on_port_7222() -> None:
    """Over UDP, on the loopback interface unless it is said otherwise."""
    (wire_format,) = [each for each in installed().formats if each.name == "inbus"]
    assert wire_format.default_endpoint == "udp:7222:interface=127.0.0.1"


# What the bus adds.


@each_row("published", [1, 2])
def test_a_subscriber_gets_the_version_it_subscribed_with(published: int) -> None:
    """Whichever version it was published with; after a renewal with the other version, that one."""
    network = Network()
    network.udp.subscribe("a", port=5001, version=1)
    network.udp.subscribe("a", port=5002, version=2)
    network.udp.publish("a", b"x", version=published)
    sent = {address[1]: json.loads(datagram) for datagram, address in network.udp.taken()}
    assert {port: (each["version"], each["payload"]) for port, each in sent.items()} == {
        5001: (1, "x"),
        5002: (2, "eA=="),
    }
    network.udp.subscribe("a", port=5001, version=2)
    network.udp.publish("a", b"x", version=published)
    assert [json.loads(datagram)["version"] for datagram, _ in network.udp.taken()] == [2, 2]


def test_version_1_gets_base64_when_the_payload_is_no_text() -> None:
    """Rather than nothing."""
    network = Network()
    network.udp.subscribe("a", version=1)
    network.udp.publish("a", b"\xff\0", version=2)
    fields = only_fields(network)
    assert (fields["version"], fields["payload"]) == (1, base64.b64encode(b"\xff\0").decode())


def test_repeating_a_subscription_renews_it() -> None:
    """It is there once, and its lease begins anew."""
    network = Network(inbus_lease=400)
    network.udp.subscribe("a")
    network.reactor.pump([10] * 30)
    network.udp.subscribe("a")
    (entry,) = network.udp.server.ledger(1000)
    assert entry.lease_left == 400
    network.reactor.pump([10] * 30)
    network.udp.publish("a", b"x")
    assert len(network.udp.taken()) == 1


@each_row("app_key", ["*", "_inbus"])
@each_row("opcode", [1, 2, 3])
@each_row("version", [1, 2])
def test_reserved_app_keys_are_dropped(version: int, opcode: int, app_key: str) -> None:
    """And counted; what only begins so is an app-key as any other."""
    network = Network()
    network.udp.receive(message(opcode, version=version, application=[app_key, 1]))
    assert network.bus.counters == {"reserved-app-key": 1}
    network.udp.receive(message(1, version=version, application=[f"{app_key}/x", 1]))
    assert len(network.registry.state.sessions) == 1


def test_what_is_dropped_is_logged_with_why_at_a_limited_rate() -> None:
    """The next line says how many were left out; other hosts have a rate of their own."""
    network = Network()
    with capturedLogs() as logged:
        for _ in range(50):
            network.udp.receive(message(9))
        network.udp.receive(b"[]", "10.0.0.9")
        network.reactor.advance(5)
        network.udp.receive(message(1, version=7))
    assert [(event["peer"], event["message"]) for event in logged] == [
        *[(SOURCE, "opcode 9 is reserved")] * 5,
        ("10.0.0.9", "the datagram is an array, not a JSON object"),
        (SOURCE, "version is 7, not 1 or 2"),
    ]
    assert logged[-1]["suppressed"] == 45


def test_nothing_is_ever_answered() -> None:
    """Not what is wrong, and not what is right: the source may be forged."""
    network = Network()
    for opcode in (1, 1, 2, 2, 3, 4):
        network.udp.receive(message(opcode))
    network.udp.receive(b"?")
    assert network.udp.taken() == []


def test_app_type_0_is_reserved_and_yet_delivered() -> None:
    """Deployed clients send it: counted."""
    network = Network()
    network.udp.subscribe("a")
    network.udp.publish("a", b"x", app_type=0)
    assert only_fields(network)["application"] == ["a", 0]
    assert network.bus.counters == {"reserved-app-type": 1}


# Reflection.


def test_the_stated_address_must_be_the_senders_own() -> None:
    """Otherwise it is refused, which is counted and journaled; nor can anybody else end a subscription."""
    network = Network()
    network.udp.subscribe("a")
    for opcode in (1, 2):
        network.udp.receive(message(opcode), "10.0.0.66")
    assert network.bus.counters == {"foreign-address": 2}
    refused = network.events(ev.SubscriptionRefused)
    assert [(event.reason, event.peer, event.service) for event in refused] == [
        ("foreign-address", "10.0.0.66", "a")
    ] * 2
    network.udp.publish("a", b"x")
    assert len(network.udp.taken()) == 1


def test_or_it_must_lie_in_a_network_that_is_allowed() -> None:
    """Several may be; of both versions of IP."""
    network = Network(inbus_allow=(ip_network("192.168.7.0/24"), ip_network("fd00::/8")))
    for host in ("192.168.7.3", "::ffff:192.168.7.4", "fd00::1", "192.168.8.3", "fe80::1"):
        network.udp.receive(inbus.subscribe("a", host, 5000), SOURCE)
    assert network.bus.counters == {"foreign-address": 2}
    network.udp.publish("a", b"x")
    assert [address for _, address in network.udp.taken()] == [
        ("192.168.7.3", 5000),
        ("192.168.7.4", 5000),
        ("fd00::1", 5000),
    ]
    network.udp.receive(inbus.unsubscribe("a", "192.168.7.3", 5000), SOURCE)
    network.udp.publish("a", b"x")
    assert targets(network) == [5000, 5000]


@each_row(
    ("stated", "source"),
    [
        ("10.0.0.2", "::ffff:10.0.0.2"),
        ("::ffff:10.0.0.2", "10.0.0.2"),
        ("::FFFF:A00:2", "::ffff:10.0.0.2"),
        ("0:0::1", "::1"),
    ],
)
def test_an_address_is_the_same_however_it_is_written(stated: str, source: str) -> None:
    """One of IPv4 also as one of IPv6."""
    network = Network()
    network.udp.receive(inbus.subscribe("a", stated, 5000), source)
    network.udp.receive(inbus.unsubscribe("a", source, 5000), source)
    assert network.bus.counters == {}
    assert [event.reason for event in network.events(ev.SessionClosed)] == ["unsubscribed"]


def test_an_address_gets_only_so_many_datagrams_a_second() -> None:
    """A thousand unless it is set otherwise; what is more is dropped, counted and journaled. Then it goes on."""
    assert Settings().inbus_max_rate == 10_000
    network = Network(inbus_max_rate=20)
    network.udp.subscribe("a", port=5000)
    for _ in range(30):
        network.udp.publish("a", b"x")
    assert targets(network) == [5000] * 20
    assert network.bus.counters == {"inbus-rate": 10}
    reached = network.events(ev.LimitReached)[0]
    assert (reached.protocol, reached.peer, reached.reason) == ("inbus", f"{SOURCE}:5000", "inbus-rate")
    assert (reached.limit, reached.value) == ("inbus-max-rate", 20)
    (session,) = [each for each in network.registry.state.sessions.values() if each.persistent]
    assert reached.session == session.id
    for _ in range(10):
        network.reactor.advance(0.1)
        network.udp.publish("a", b"x")
    assert len(network.udp.taken()) == 10
    assert network.udp.server.ledger(1000)[0].over_rate == 10


# Leases and ghosts.


def test_renewals_reach_the_journal_at_most_four_times_a_lease() -> None:
    """However often the subscriber renews, and whatever it says."""
    network = Network(inbus_lease=400)
    network.udp.subscribe("a")
    for lease in range(1, 4):
        for second in range(100):
            network.reactor.advance(4)
            network.udp.subscribe("a", version=1 + second % 2)
        assert lease <= len(network.events(ev.SubscriptionRenewed)) <= 4 * lease


@each_row(("settings", "lease"), [({}, 3600), ({"inbus_lease": 100.0}, 100)])
def test_a_silent_subscriber_expires(settings: dict[str, Any], lease: int) -> None:
    """After an hour, unless it is set otherwise: its subscription ends, and it is gone."""
    network = Network(**settings)
    network.udp.subscribe("a")
    network.reactor.pump([10] * (lease // 10))
    assert network.events(ev.SubscriptionRemoved, ev.SessionClosed) == []
    network.reactor.pump([10] * 6)
    removed, closed = network.events(ev.SubscriptionRemoved, ev.SessionClosed)
    assert (removed.reason, closed.reason) == ("lease-expired", "lease-expired")


def test_a_lease_of_0_is_for_ever() -> None:
    """Not even that nobody listens there ends it; that is counted."""
    network = Network(inbus_lease=0)
    network.udp.subscribe("a")
    network.udp.server._subscribers.not_reached((SOURCE, 5000), True)
    network.reactor.pump([3600] * 1000)
    network.udp.publish("a", b"x")
    assert len(network.udp.taken()) == 1
    (entry,) = network.udp.server.ledger(1000)
    assert (entry.lease_left, entry.unreachables) == (None, 1)


def test_that_nobody_listens_shortens_the_lease() -> None:
    """To a short grace, in which a subscriber that is back may renew; one that does not is gone within a minute."""
    network = Network()
    network.udp.subscribe("a", port=5000)
    network.udp.subscribe("a", port=5001)
    for port in (5000, 5001):
        network.udp.server._subscribers.not_reached((SOURCE, port), True)
    assert [entry.lease_left for entry in network.udp.server.ledger(1000)] == [UNREACHABLE_GRACE] * 2
    network.reactor.advance(10)
    network.udp.server._subscribers.not_reached((SOURCE, 5001), True)
    network.udp.subscribe("a", port=5000)
    network.reactor.pump([1] * 50)
    network.udp.publish("a", b"x")
    assert targets(network) == [5000]
    removed, closed = network.events(ev.SubscriptionRemoved, ev.SessionClosed)
    assert (removed.reason, closed.reason) == ("inbus-unreachable", "inbus-unreachable")
    assert closed.peer == f"{SOURCE}:5001"
    assert network.bus.counters == {"inbus-unreachable": 3}


def test_that_nobody_listens_makes_no_lease_longer() -> None:
    """What was about to end anyway ends then."""
    network = Network(inbus_lease=40)
    network.udp.subscribe("a")
    network.reactor.pump([1] * 30)
    network.udp.server._subscribers.not_reached((SOURCE, 5000), True)
    (entry,) = network.udp.server.ledger(1000)
    assert entry.lease_left == 10
    network.reactor.pump([1] * 20)
    assert [event.reason for event in network.events(ev.SubscriptionRemoved)] == ["lease-expired"]


def test_each_subscriber_shows_its_last_time_errors_and_lease() -> None:
    """Those first that are to end first."""
    network = Network(inbus_lease=400)
    network.udp.subscribe("a", port=5000)
    network.reactor.advance(10)
    network.udp.subscribe("b", port=5000)
    network.udp.subscribe("b", port=5001)
    network.reactor.advance(30)
    network.udp.failing = OSError(101, "Network is unreachable")
    network.udp.publish("a", b"x")
    network.udp.failing = None
    network.udp.server._subscribers.not_reached((SOURCE, 5000), False)
    network.udp.server._subscribers.not_reached((SOURCE, 5001), True)
    ghost, other = network.udp.server.ledger(1000)
    now = network.bus.utc()
    assert (ghost.address, ghost.app_keys) == (f"{SOURCE}:5001", ("b",))
    assert (ghost.last_heard, ghost.send_errors, ghost.unreachables) == (now - 30_000_000, 0, 1)
    assert ghost.lease_left == UNREACHABLE_GRACE
    assert (other.address, other.app_keys) == (f"{SOURCE}:5000", ("a", "b"))
    assert (other.last_heard, other.send_errors, other.unreachables) == (now - 30_000_000, 2, 0)
    assert other.lease_left == 370
    assert network.bus.counters == {"inbus-send-failed": 2, "inbus-unreachable": 1}


def test_an_entry_of_the_ledger_does_not_change() -> None:
    network = Network()
    network.udp.subscribe("a")
    (entry,) = network.udp.server.ledger(1000)
    with pytest.raises(AttributeError):
        entry.send_errors = 7


def test_subscriptions_survive_a_restart() -> None:
    """Rebuilt from the journal: addresses, versions, and what is left of each lease."""
    before = Network(inbus_lease=400)
    before.udp.subscribe("a", port=5001, version=1)
    before.udp.subscribe("a", port=5002, version=2)
    before.reactor.advance(100)
    before.udp.subscribe("b", port=5002, version=2)
    before.udp.server.stop()
    after = restarted(before, seconds=50, inbus_lease=400)
    assert [(entry.address, entry.app_keys, entry.lease_left) for entry in after.udp.server.ledger(1000)] == [
        (f"{SOURCE}:5001", ("a",), 250),
        (f"{SOURCE}:5002", ("a", "b"), 350),
    ]
    assert [after.bus.utc() - entry.last_heard for entry in after.udp.server.ledger(1000)] == [150_000_000, 50_000_000]
    after.udp.publish("a", b"x")
    sent = {address[1]: json.loads(datagram)["version"] for datagram, address in after.udp.taken()}
    assert sent == {5001: 1, 5002: 2}
    after.udp.unsubscribe("a", port=5001)
    after.reactor.pump([10] * 36)
    assert after.registry.state.subscriptions == {}


ODD = " a\u202eb\ufeff"
"""A name that could once be new."""


def test_a_name_in_the_journal_stays_though_it_could_not_be_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its subscriber may renew and unsubscribe it, and is given what is published; nobody else begins with it."""
    before = Network(inbus_lease=400)
    with monkeypatch.context() as older:
        for module in ("registry.changes.rules", "formats.inbus.subscribers"):
            older.setattr(f"bussrv.{module}.check_service_name", lambda name: name)
        before.udp.subscribe(ODD, port=5001)
        before.udp.publish(ODD, b"1")
    before.udp.server.stop()
    after = restarted(before, seconds=50, inbus_lease=400)
    session = next(iter(after.registry.state.subscriptions))
    after.reactor.advance(200)
    after.udp.subscribe(ODD, port=5001)
    after.reactor.advance(300)
    assert ODD in after.registry.state.subscriptions[session]
    after.udp.subscribe(ODD, port=5002)
    after.udp.publish(ODD, b"2", source="10.0.0.9")
    assert after.bus.counters["bad-service-name"] == 2
    after.udp.unsubscribe(ODD, port=5001)
    assert after.registry.state.subscriptions == {}


def test_what_was_unsubscribed_before_a_restart_stays_so() -> None:
    before = Network()
    before.udp.subscribe("a")
    before.udp.subscribe("b")
    before.udp.unsubscribe("a")
    after = restarted(before)
    after.udp.publish("a", b"x")
    after.udp.publish("b", b"y")
    assert after.udp.payloads() == [b"y"]


def test_a_subscription_that_is_not_in_the_journal_is_none() -> None:
    """The write-ahead rule: it takes effect when it is durable."""
    network = Network()
    network.udp.publish("a", b"1")
    network.journal.hold()
    network.udp.subscribe("a")
    network.udp.publish("a", b"2")
    assert network.udp.taken() == []
    network.journal.release()
    network.udp.publish("a", b"3")
    assert network.udp.payloads() == [b"3"]


# Across formats.


def test_what_is_too_large_for_a_datagram_only_inbus_drops() -> None:
    """Counted, and said in the log: not each time, when it happens often."""
    network = Network()
    network.udp.subscribe("a", version=1)
    network.udp.subscribe("a", version=2, port=5002)
    watcher, observer, provider = network.watcher(), network.member(), network.member(receive_mode="no_echo")
    provider.send({"event": "services/register", "name": "a"})
    watcher.subscribe("a")
    drain([observer, provider])
    watcher.received()
    fits = 50_000  # As text, but not in base64.
    with capturedLogs() as logged:
        for size in (fits, *[100_000] * 100):
            provider.send({"type": "text/plain"}, b"x" * size)
    assert targets(network) == [5000]
    assert [len(message) for message in watcher.messages()] == [fits, *[100_000] * 100]
    assert len(observer.received()) == 101
    assert network.bus.counters == {"datagram-too-large": 201}
    assert len(logged) == 5
    assert (logged[0]["service"], logged[0]["why"]) == ("a", "50000 bytes are too many")


# Programs as they are in the field.


def test_deployed_programs_send_from_a_throw_away_socket() -> None:
    """The source port is not the subscriber's: only the IP addresses are compared, and what is sent goes to the
    stated port."""
    network = Network()
    for port in range(40_000, 40_010):
        network.udp.server.datagramReceived(inbus.subscribe("a", SOURCE, 5000, 2), (SOURCE, port))
    network.udp.publish("a", b"x")
    assert targets(network) == [5000]
    network.udp.server.datagramReceived(inbus.unsubscribe("a", SOURCE, 5000, 2), (SOURCE, 41_000))
    network.udp.publish("a", b"x")
    assert targets(network) == []


def test_deployed_publishers_use_a_new_port_for_every_message() -> None:
    """All of them are one session: that of the source address."""
    network = Network()
    for port in range(40_000, 40_100):
        network.udp.server.datagramReceived(inbus.publish("a", 0, b"x", 2), ("10.0.0.3", port))
    (opened,) = network.events(ev.SessionOpened)
    assert (opened.peer, opened.persistent) == ("10.0.0.3", False)
    assert len(network.events(ev.ServiceRegistered)) == 1


def test_deployed_receivers_find_version_payload_and_application() -> None:
    """What they read of a datagram, from a client that publishes as deployed ones do: version 2, app-type 0."""
    network = Network()
    network.udp.subscribe("tv", version=2)
    sent = '{"version":2,"opcode":3,"application":["tv",0],"address":["",0],"payload":"Y2hhbm5lbCA1"}'
    network.udp.receive(sent.encode(), "10.0.0.3")
    fields = only_fields(network)
    assert (fields["version"], fields["application"], base64.b64decode(fields["payload"])) == (
        2,
        ["tv", 0],
        b"channel 5",
    )
