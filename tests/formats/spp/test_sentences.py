"""The Service providing protocol, sentence by sentence, but for the services that the server itself provides."""

import json
from struct import pack
from typing import Any

from twisted.logger import globalLogPublisher

from bussrv import events as ev
from bussrv.formats.spp.protocol import LOG_BURST
from bussrv.policy.logins.users import SecretHash
from bussrv.settings import Settings
from bussrv.wire import spp
from bussrv.wire.spp import Ignored, Info, Offer, Removed
from tests.formats.network import Network, Watcher
from tests.formats.objects.support import in_bytes, provider
from tests.logins import asking
from tests.tables import each_row

MOST = 0xFFFFFFFF
FIRST, SECOND = "ann", "bob"


def subscribed(network: Network, *services: str) -> Watcher:
    """A watcher that was sent its offers and snapshots."""
    watcher = network.watcher()
    for service in services:
        watcher.subscribe(service)
    watcher.received()
    return watcher


def refusals(network: Network) -> list[tuple[str | None, str | None]]:
    return [(each.service, each.reason) for each in network.events(ev.SubscriptionRefused)]


# Offers.


def test_on_connecting_every_service_is_offered() -> None:
    """One packet of type 1 for each, whatever format its provider speaks, and none twice when several provide it."""
    network = Network()
    provider(network, "tv", "door")
    provider(network, "tv")
    member = network.business()
    member.send({"event": "services/register", "name": "lamp"})
    network.udp.publish("meter", b"1")
    offers = network.watcher().connection.take()
    assert offers == b"".join(
        pack(">III", 1, 4 + len(name), len(name)) + name for name in (b"door", b"lamp", b"meter", b"tv")
    )


def test_without_services_nothing_is_sent() -> None:
    """The server has no greeting of its own."""
    assert Network().watcher().connection.take() == b""


def test_later_each_service_that_appears_is_offered() -> None:
    """To everybody, subscribed to anything or not; with its first provider, and not again with the next."""
    network = Network()
    provider(network, "tv")
    idle, busy = subscribed(network), subscribed(network, "tv")
    provider(network, "door")
    provider(network, "door")
    assert idle.received() == busy.received() == [Offer("door")]


def test_later_each_service_that_goes_is_told_of_by_type_2() -> None:
    """With its last provider: one that unregisters, or one whose connection ends."""
    network = Network()
    first, second = provider(network, "tv"), provider(network, "tv")
    watcher = subscribed(network)
    first.send({"event": "services/unregister", "name": "tv"})
    assert watcher.received() == []
    second.connection.close()
    assert watcher.connection.take() == pack(">III", 2, 6, 2) + b"tv"


def test_a_service_may_come_again() -> None:
    """Then it is offered again."""
    network = Network()
    watcher = network.watcher()
    for _ in range(2):
        provider(network, "tv").connection.close()
    assert watcher.received() == [Offer("tv"), Removed("tv")] * 2


# Subscribing.


def test_subscribing_brings_a_snapshot_at_once() -> None:
    """One packet of type 16: the service and its state, both STRINGs."""
    network = Network()
    provider(network, "tv").send({"type": "a/b"}, b"on")
    watcher = subscribed(network)
    watcher.connection.send_bytes(pack(">III", 1, 6, 2) + b"tv")
    assert watcher.connection.take() == pack(">III", 16, 12, 2) + b"tv" + pack(">I", 2) + b"on"


def test_an_update_in_the_chunk_of_a_subscription_comes_once() -> None:
    """Bytes that come together are no special case."""
    network = Network()
    member, watcher = provider(network), subscribed(network)
    said = b'{"event":"services/register","name":"tv"}\0{"type":"a/b","size":1}\x001'
    member.connection.send_bytes(said + b'{"type":"a/b","size":1}\x002')
    watcher.connection.send_bytes(spp.subscribe("tv") * 2)
    member.send({"type": "a/b"}, b"3")
    assert watcher.received() == [Offer("tv"), *(Info("tv", payload) for payload in (b"2", b"2", b"3"))]


def test_subscribing_again_sends_the_snapshot_again() -> None:
    """As it is then; the subscription stays the one it is, so updates come once."""
    network = Network()
    member, watcher = provider(network, "tv"), subscribed(network, "tv")
    member.send({"type": "a/b"}, b"1")
    watcher.subscribe("tv")
    watcher.subscribe("tv")
    member.send({"type": "a/b"}, b"2")
    assert watcher.messages() == [b"1", b"1", b"1", b"2"]
    assert len([each for each in network.events(ev.SubscriptionAdded) if each.service == "tv"]) == 1
    assert network.events(ev.SubscriptionRenewed) == []


def test_after_a_removal_no_one_can_subscribe() -> None:
    """Neither who never was, nor who is: that one is not sent a snapshot either."""
    network = Network()
    member = provider(network, "tv")
    early, late = subscribed(network, "tv"), subscribed(network)
    member.send({"event": "services/unregister"})
    for watcher in (early, late):
        watcher.subscribe("tv")
        assert watcher.received() == [Removed("tv")]
    assert refusals(network) == [("tv", "no-such-service")] * 2


@each_row("first", ["subscribing", "removal"])
def test_a_subscription_under_way_ends_with_the_service(first: str) -> None:
    """Whichever was asked for first: the client was told that the service is gone, and is sent nothing of it."""
    network = Network()
    member, watcher = provider(network, "tv"), subscribed(network)
    network.journal.hold()
    if first == "subscribing":
        watcher.subscribe("tv")
        member.connection.close()
    else:
        member.send({"event": "services/unregister"})
        watcher.subscribe("tv")
    network.journal.release()
    provider(network, "tv").send({"type": "a/b"}, b"back")
    assert watcher.received() == [Removed("tv"), Offer("tv")]
    assert network.registry.state.subscriptions.get(watcher.connection.protocol.session_id, {}) == {}


def test_a_removal_stands_behind_what_was_published_before_it() -> None:
    """Also when both come in one chunk."""
    network = Network()
    member, watcher = provider(network, "tv"), subscribed(network, "tv")
    member.connection.send_bytes(b'{"type":"a/b","size":1}\0x{"event":"services/unregister"}\0')
    assert watcher.received() == [Info("tv", b"x"), Removed("tv")]


def test_a_client_can_unsubscribe_at_any_time() -> None:
    """Then it is sent nothing of the service any more, and nothing answers; also after a removal."""
    network = Network()
    member, watcher = provider(network, "tv", "door"), subscribed(network, "tv", "door")
    watcher.unsubscribe("tv")
    member.send({"type": "a/b", "sender": "tv"}, b"x")
    member.send({"event": "services/unregister", "name": "door"})
    watcher.unsubscribe("door")
    assert watcher.received() == [Removed("door")]
    removed = network.events(ev.SubscriptionRemoved)
    assert [each.service for each in removed] == ["tv", "door"]


@each_row("name", ["never", "", "a" * 256, "a\nb", "bus/never"])
def test_subscribing_to_what_is_not_offered_is_only_journaled(name: str) -> None:
    """The protocol has no error; the connection lives on."""
    network = Network()
    provider(network, "tv")
    watcher = subscribed(network)
    watcher.subscribe(name)
    watcher.subscribe("tv")
    assert watcher.received() == [Info("tv", b"")]
    ((service, reason),) = refusals(network)
    assert (service, reason) == (name[:255], "no-such-service")


def test_an_unknown_unsubscribe_is_ignored() -> None:
    """Of a service that there is, of one that there is not, and of one that was unsubscribed already."""
    network = Network()
    provider(network, "tv")
    watcher = subscribed(network, "tv")
    before = len(network.journal.records)
    for name in ("tv", "tv", "never"):
        watcher.unsubscribe(name)
    assert (watcher.received(), watcher.connection.is_open) == ([], True)
    assert len(network.journal.records) == before + 1


# What is ignored.


@each_row("data", [b"", b"test", bytes(1000)])
@each_row("msgtype", [0, *range(3, 32)])
def test_the_test_value_and_reserved_types_are_only_counted(msgtype: int, data: bytes) -> None:
    """Whatever is in them; 16 too, which only servers send. The next packet is read as ever."""
    network = Network()
    provider(network, "tv")
    watcher = subscribed(network)
    in_bytes(watcher.connection, pack(">II", msgtype, len(data)) + data)
    watcher.subscribe("tv")
    assert watcher.received() == [Info("tv", b"")]
    assert network.bus.counters["spp-ignored"] == 1


@each_row("msgtype", [32, 33, 34, 1000, 1 << 31, MOST])
def test_other_messages_are_ignored_and_counted(msgtype: int) -> None:
    """Types are unsigned, so those from 2147483648 up are other messages too."""
    network = Network()
    provider(network, "tv")
    watcher = subscribed(network)
    watcher.connection.send_bytes(pack(">II", msgtype, 3) + b"abc" + spp.subscribe("tv"))
    assert watcher.received() == [Info("tv", b"")]
    assert network.bus.counters["spp-ignored"] == 1


# Authentication.


def guarded(**settings: Any) -> Network:
    """A network that asks who watches."""

    users = {name: SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(name.encode()) for name in (FIRST, SECOND)}
    network = asking(users, **settings)
    network.proving = {"user": SECOND, "secret": SECOND}
    return network


def test_type_32_says_who_it_is_and_33_answers() -> None:
    """STRING user and STRING secret; INTEGER 0 is accepted, 1 is refused."""
    watcher = guarded().watcher()
    for secret, code in ((b"bob", 1), (b"ann", 0)):
        watcher.connection.send_bytes(pack(">III", 32, 14, 3) + b"ann" + pack(">I", 3) + secret)
        assert watcher.connection.take() == pack(">III", 33, 4, code)


def test_authentication_is_used_only_when_it_is_on() -> None:
    """Otherwise it is ignored like any other message, even if it is malformed."""
    network = Network()
    watcher = network.watcher()
    watcher.connection.send_bytes(spp.authenticate("ann", "x") + spp.other(32, b"\xff"))
    assert (watcher.received(), watcher.connection.is_open) == ([], True)
    assert network.events(ev.AuthSucceeded, ev.AuthFailed) == []
    assert network.bus.counters == {"spp-ignored": 2}


def test_until_a_client_is_accepted_it_can_do_nothing() -> None:
    """It is offered nothing, and what it subscribes to is journaled as refused; then it is offered everything."""
    network = guarded()
    member = provider(network, "tv", "radio")
    watcher = network.watcher()
    provider(network, "door")
    member.send({"event": "services/unregister", "name": "radio"})
    for name in ("tv", "never"):
        watcher.subscribe(name)
    watcher.unsubscribe("tv")
    member.send({"type": "a/b"}, b"1")
    assert watcher.received() == []
    assert refusals(network) == [("tv", "not-authenticated"), ("never", "not-authenticated")]
    assert network.bus.counters["not-authenticated"] == 2
    watcher.connection.send_bytes(spp.authenticate("ann", "ann"))
    assert watcher.received()[1:] == [Offer("door"), Offer("tv")]
    watcher.subscribe("tv")
    member.send({"event": "services/unregister"})
    assert watcher.received() == [Info("tv", b"1"), Removed("tv")]


# Limits, and what is malformed.


@each_row(("settings", "limit"), [({}, 1 << 20), ({"max_packet": 100}, 100)])
@each_row("msgtype", [0, 1, 2, 3, 16, 32, MOST])
def test_a_packet_has_at_most_one_mebibyte(msgtype: int, settings: dict[str, int], limit: int) -> None:
    """Unless it is set otherwise, whatever its type; its header is not counted. More is refused at the header."""
    assert Settings().max_packet == 1 << 20
    network = Network(**settings)
    provider(network, "tv")
    modest, greedy = subscribed(network), subscribed(network)
    data = (pack(">I", 2) + b"tv").ljust(limit, b"x")
    modest.connection.send_bytes(pack(">II", msgtype, limit) + data + spp.subscribe("tv"))
    assert modest.received()[-1:] == ([Info("tv", b"")])
    greedy.connection.send_bytes(pack(">II", msgtype, limit + 1))
    assert not greedy.connection.is_open
    assert network.events(ev.SessionClosed)[-1].reason == "packet-too-large"


MALFORMED = [(pack(">III", 1, 6, 3) + b"tv", "string-overruns-packet"), (pack(">II", 1, MOST), "packet-too-large")]
"""Two of those in ``odd_packets``."""


@each_row(("packet", "reason"), MALFORMED, ids=[repr(packet) for packet, _ in MALFORMED])
def test_what_is_malformed_is_logged_journaled_and_closed(packet: bytes, reason: str) -> None:
    """What comes behind it is not looked at; what was sent before it is done. Nobody else notices."""
    network = Network()
    member = provider(network, "tv")
    watcher, other = subscribed(network), subscribed(network, "tv")
    logged: list[Any] = []
    globalLogPublisher.addObserver(logged.append)
    in_bytes(watcher.connection, spp.subscribe("tv") + packet)
    globalLogPublisher.removeObserver(logged.append)
    assert (watcher.received(), watcher.connection.is_open) == ([Info("tv", b"")], False)
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.reason, closed.session) == (reason, watcher.connection.protocol.session_id)
    assert [(each["protocol"], each["error"].reason) for each in logged if "error" in each] == [("spp", reason)]
    member.send({"type": "a/b"}, b"x")
    assert other.received() == [Info("tv", b"x")]


def test_bytes_behind_the_last_field_of_a_packet_are_skipped() -> None:
    """A later version of the protocol may put something there."""
    network = Network()
    provider(network, "tv")
    watcher = subscribed(network)
    watcher.connection.send_bytes(pack(">III", 1, 9, 2) + b"tv" + b"new" + pack(">III", 2, 7, 2) + b"tv!")
    assert watcher.received() == [Info("tv", b"")]
    assert len(network.events(ev.SubscriptionRemoved)) == 1


def test_what_is_too_large_for_a_packet_is_counted_and_logged() -> None:
    """The client is sent what comes after it, others everything; a line of the log says what was left out."""
    network = Network(max_packet=20)
    member, other, watcher = provider(network, "tv"), network.member(), subscribed(network, "tv")
    logged: list[Any] = []
    globalLogPublisher.addObserver(logged.append)
    for _ in range(100):
        member.send({"type": "a/b"}, b"x" * 11)
    network.reactor.advance(60)
    member.send({"type": "a/b"}, b"x" * 11)
    globalLogPublisher.removeObserver(logged.append)
    member.send({"type": "a/b"}, b"x" * 10)
    assert watcher.received() == [Info("tv", b"x" * 10)]
    assert len(other.received()) == 102
    assert network.bus.counters["packet-too-large"] == 101
    warnings = [each["suppressed"] for each in logged if each.get("service") == "tv"]
    assert warnings == [*[0] * LOG_BURST, 100 - LOG_BURST]


# The state of a service.


def test_the_state_of_a_service_is_the_last_payload_published() -> None:
    """Whichever of its providers published it, in whatever format; events without a payload are no publications."""
    network = Network()
    first, second = provider(network, "tv"), provider(network, "tv")
    watcher = subscribed(network)

    def state() -> bytes:
        watcher.subscribe("tv")
        (snapshot,) = watcher.messages()
        watcher.unsubscribe("tv")
        return snapshot

    assert state() == b""
    first.send({"type": "a/b"}, b"1")
    second.send({"type": "a/b"}, b"2")
    assert state() == b"2"
    first.send({"event": "services/reply", "sender": "tv"}, b"3")
    assert state() == b"2"
    network.udp.publish("tv", "ü".encode())
    assert state() == "ü".encode()
    second.send({"type": "application/json", "sender": "tv"}, json.dumps({"on": True}).encode())
    assert state() == b'{"on": true}'


# Slow clients.


def test_slow_clients_may_get_only_the_newest_state_of_services() -> None:
    """When it is asked for; offers, removals and their order stay, and who is not slow is sent everything."""
    for policy in ("disconnect", "coalesce"):
        network = Network(slow_spp=policy)
        member = provider(network, "tv", "door")
        slow, fast = subscribed(network, "tv", "door"), subscribed(network, "tv")
        slow.connection.protocol.link.pauseProducing()
        for number in range(3):
            member.send({"type": "a/b", "sender": "tv"}, b"%d" % number)
        member.send({"type": "a/b", "sender": "door"}, b"x")
        member.send({"event": "services/unregister"})
        assert slow.received() == []
        slow.connection.protocol.link.resumeProducing()
        every = [Info("tv", b"0"), Info("tv", b"1"), Info("tv", b"2")]
        behind = [Info("door", b"x"), Removed("door"), Removed("tv")]
        assert slow.received() == (every[-1:] if policy == "coalesce" else every) + behind
        assert fast.received() == [*every, Removed("door"), Removed("tv")]
        assert network.bus.counters["spp-coalesced"] == (2 if policy == "coalesce" else 0)


def test_the_server_never_sends_test_value_or_reserved_types() -> None:
    """Types 1, 2, 16 and, to who says who it is, 33: nothing else, whatever happens."""
    network = guarded()
    watcher = network.watcher()
    watcher.connection.send_bytes(pack(">II", 0, 0) + spp.authenticate("ann", "x") + spp.authenticate("ann", "ann"))
    member = provider(network, "tv")
    watcher.subscribe("tv")
    member.send({"type": "a/b"}, b"x")
    member.connection.close()
    types = [type(event) for event in watcher.received()]
    assert types == [spp.Other, spp.Other, Offer, Info, Info, Removed]
    assert Ignored not in types
