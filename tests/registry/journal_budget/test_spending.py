"""Beyond the journal's budget streams wait and datagrams are dropped. Nothing is refused, and others do not wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.wire import spp
from tests.formats.network import Connection, Member, Network
from tests.tables import each_row
from tests.wire.test_websocket import REQUEST, frame

SMALL: dict[str, Any] = {"journal_session_rate": 1000, "journal_session_burst": 20_000}
FEW = 12
"""So many changes are in a budget of that size, and a few more."""


def member(network: Network, host: str) -> Member:
    joined = Member(network.connect("objects", host))
    joined.send({"event": "routing/subscribe"})
    assert joined.names()[0] == "routing/subscribe/reply"
    return joined


def flood(joined: Member, count: int) -> None:
    for number in range(count):
        joined.send({"event": "services/register", "name": f"{joined.connection.transport.getPeer().host}/{number}"})


def answered(joined: Member) -> int:
    return joined.names().count("services/register/reply")


def test_a_stream_waits_and_everything_is_granted_in_order() -> None:
    network = Network(**SMALL)
    greedy, other = member(network, "10.0.0.1"), member(network, "10.0.0.2")
    flood(greedy, 60)
    begun = answered(greedy)
    assert FEW < begun < 30
    assert network.bus.counters["journal-paused"] == 1
    assert greedy.connection.transport.producerState == "paused"
    assert network.registry.spending.waiting == 1
    # Others are answered at once meanwhile, and what waits does not count as being asked for.
    flood(other, 3)
    assert answered(other) == 3
    spent = network.journal.bytes_accepted
    network.reactor.pump([0.1] * 100)
    assert network.journal.bytes_accepted - spent == pytest.approx(5_000, abs=1_000)  # Their ends cost as much.
    network.reactor.pump([1.0] * 100)
    assert begun + answered(greedy) == 60
    names = [event.service for event in network.events(ev.ServiceRegistered) if "10.0.0.1" in str(event.service)]
    assert names == [f"10.0.0.1/{number}" for number in range(60)]
    assert network.registry.spending.waiting == 0
    assert not network.events(ev.ServiceRefused, ev.LimitReached)


def test_sessions_of_one_address_take_turns_and_share_its_budget() -> None:
    network = Network(**SMALL)
    members = [member(network, "10.0.0.1") for _ in range(3)]
    for joined in members:
        flood(joined, 40)
    early = [answered(joined) for joined in members]
    assert sum(early) < 30
    network.reactor.pump([0.1] * 300)
    late = [answered(joined) for joined in members]
    assert sum(late) == pytest.approx(30_000 / (2 * 450), abs=12)
    assert max(late) - min(late) <= 1


def test_a_subscriber_of_ipv6_pays_with_its_network() -> None:
    network = Network(**SMALL)
    first, second = member(network, "2001:db8::1"), member(network, "2001:db8::2")
    flood(first, 60)
    flood(second, 1)
    assert answered(second) == 0
    elsewhere = member(network, "2001:db8:1::1")
    flood(elsewhere, 1)
    assert answered(elsewhere) == 1


def test_a_session_that_ends_while_it_waits_leaves_nothing() -> None:
    network = Network(**SMALL)
    greedy = member(network, "10.0.0.1")
    flood(greedy, 60)
    begun = answered(greedy)
    greedy.connection.close()
    network.reactor.pump([1.0] * 60)
    assert len(network.events(ev.ServiceRegistered)) == len(network.events(ev.ServiceUnregistered)) == begun
    assert len(network.events(ev.SessionClosed)) == 1
    assert network.registry.spending.waiting == 0
    assert not network.registry.spending._checks
    assert network.registry.spending._call is None
    assert not network.registry.state.sessions


def test_what_ends_was_paid_before_so_it_does_not_wait() -> None:
    network = Network(**SMALL)
    ending, greedy = member(network, "10.0.0.1"), member(network, "10.0.0.1")
    flood(ending, 2)
    assert answered(ending) == 2
    flood(greedy, 60)
    ending.send({"event": "services/unregister", "name": "10.0.0.1/0"})
    assert ending.names() == ["services/unregister/reply"]
    ending.send({"event": "services/unregister"})
    assert ending.names() == ["services/unregister/reply"]


@each_row("name", ["objects", "business", "spp", "websocket"])
def test_who_subscribes_again_and_again_pays_for_it(name: str) -> None:
    network = Network(**SMALL)
    if name == "spp":
        provider = member(network, "10.0.0.9")
        provider.send({"event": "services/register", "name": "tv"})
        connection = network.connect("spp", "10.0.0.1")
        again = spp.subscribe("tv") + spp.unsubscribe("tv")
    else:
        connection = network.connect(name, "10.0.0.1")
        event = "client/register" if name == "business" else "routing/subscribe"
        again = json.dumps({"event": event}).encode() + b"\0"
        if name == "websocket":
            connection.send_bytes(REQUEST)
            again = frame(again)
    before = network.journal.bytes_accepted
    for _ in range(1000):
        connection.send_bytes(again)
    assert connection.protocol.is_busy
    assert network.journal.bytes_accepted - before < 22_000
    network.reactor.pump([0.1] * 100)
    assert network.journal.bytes_accepted - before < 32_000


def test_datagrams_are_dropped_except_renewals_and_publications() -> None:
    network = Network(**SMALL, inbus_lease=400)
    network.udp.subscribe("old")
    network.udp.publish("old", b"x")
    for number in range(100):
        network.udp.subscribe(f"new {number}")
    dropped = network.bus.counters["journal-budget"]
    assert 60 < dropped < 90
    assert network.bus.counters["journal-paused"] == 0
    network.udp.publish("new service", b"x", source="10.0.0.2")
    assert network.bus.counters["journal-budget"] == dropped + 1
    network.udp.taken()
    network.udp.publish("old", b"y")
    assert network.udp.payloads() == [b"y"]
    renewed = len(network.events(ev.SubscriptionRenewed))
    network.udp.subscribe("old", version=1)
    assert len(network.events(ev.SubscriptionRenewed)) == renewed + 1
    network.reactor.pump([1.0] * 3)
    network.udp.subscribe("later")
    assert network.bus.counters["journal-budget"] == dropped + 1


def test_waiting_and_leaving_again_and_again_leaves_nothing() -> None:
    network = Network(**SMALL)
    for _ in range(300):
        joined = Member(network.connect("objects", "10.0.0.1"))
        joined.send({"event": "routing/subscribe"})
        joined.connection.close()
    last = Member(network.connect("objects", "10.0.0.1"))
    last.send({"event": "routing/subscribe"})
    assert last.names() == []
    network.reactor.advance(1.0)
    assert len(network.registry.spending._checks) == 1
    # What was deferred and never written costs nothing.
    network.reactor.pump([1.0] * 75)
    assert last.names()[0] == "routing/subscribe/reply"


def test_who_only_connects_pays_when_that_is_written() -> None:
    network = Network(**SMALL)
    connections: list[Connection] = []
    for _ in range(200):
        connections.append(network.connect("objects", "10.0.0.1"))
        connections.pop().close()
    first = member(network, "10.0.0.2")
    flood(first, 1)
    assert answered(first) == 1
    asking = Member(network.connect("objects", "10.0.0.1"))
    asking.send({"event": "routing/subscribe"})
    # 50 openings were written at once, with their closings.
    assert asking.names() == []
    network.reactor.pump([1.0] * 60)
    assert asking.names()[0] == "routing/subscribe/reply"
